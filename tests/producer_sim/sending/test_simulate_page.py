"""The reference page of the simulator tells of every option, setting, format and kind of corrupt record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer.main

from distributary.cli import app
from distributary.ingest.settings.check import model_in, settings_of
from distributary.producer_sim.formats.base import FORMATS, corrupt_kinds
from distributary.producer_sim.traffic.simulation import Simulation
from distributary.values import dotted

PAGE = (Path(__file__).resolve().parents[3] / "docs/reference/simulate.md").read_text(encoding="utf-8")


def options() -> list[str]:
    group: Any = typer.main.get_command(app)
    parameters = group.commands["simulate"].params
    return [option for each in parameters for option in each.opts if option.startswith("--")]


@pytest.mark.parametrize("option", options())
def test_every_option_has_its_row(option: str) -> None:
    assert any(f"`{option}`" in line for line in PAGE.splitlines() if line.startswith("| `--"))


def settings() -> list[str]:
    """All but what stands in a group of the pipeline's own settings."""
    every = [keys for keys, info in settings_of(Simulation) if not model_in(info.annotation)]
    return [
        dotted(keys) for keys in every if keys[:1] != ("pipeline",) and keys[:2] != ("target", "registry")
    ]


@pytest.mark.parametrize("setting", [*settings(), "pipeline", "target.registry"])
def test_every_setting_has_its_row(setting: str) -> None:
    assert f"\n| `{setting}` |" in PAGE


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_and_its_corrupt_kinds_have_a_row(name: str) -> None:
    assert f"\n| `{name}` |" in PAGE
    for kind in corrupt_kinds(name):
        rows = [line.split("|")[2] for line in PAGE.splitlines() if line.startswith(f"| `{kind}` |")]
        assert any(name in row or row.strip() in ("all", "those with a header") for row in rows), kind
