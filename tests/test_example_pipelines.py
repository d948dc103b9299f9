"""The examples whole: as `make examples` plays them, each held against a recomputation by other means."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from examples.__main__ import PLAYS

ROOT = Path(__file__).resolve().parents[1]

SIMULATION = "simulation.yaml"


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.stack
@pytest.mark.parametrize("name", PLAYS)
def test_an_example_comes_to_its_end(name: str) -> None:
    command = [sys.executable, "-m", "examples", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=290, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verify holds" in done.stdout


@pytest.mark.parametrize("name", PLAYS)
def test_an_example_has_its_settings_and_a_page(name: str) -> None:
    assert (ROOT / "examples" / name / "pipeline.yaml").is_file()
    page = (ROOT / "examples" / name / "README.md").read_text(encoding="utf-8")
    assert "```mermaid" in page
    assert f"[{name}]({name}/README.md)" in (ROOT / "examples/README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PLAYS)
def test_an_examples_page_shows_its_settings_and_what_happens_when_something_fails(name: str) -> None:
    folder = ROOT / "examples" / name
    its_page = f"docs/how-to/{name.replace('_', '-')}.md"
    assert f"({'../' * 2}{its_page})" in (folder / "README.md").read_text(encoding="utf-8")
    page = (ROOT / its_page).read_text(encoding="utf-8")
    pipelines = [
        file.read_text(encoding="utf-8") for file in folder.glob("*.yaml") if file.name != SIMULATION
    ]
    assert pipelines
    assert all(f"```yaml\n{settings}```" in page for settings in pipelines)
    for heading in ("## The settings", "## What to expect", "## How it fails and recovers"):
        assert heading in page
    assert f'make examples ARGS="{name}"' in page
