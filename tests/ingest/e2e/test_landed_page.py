"""The page on files, done as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession
from tests.ingest.e2e.landing_kit import LandingKit, lines
from typer.testing import CliRunner

from distributary.cli import app

pytestmark = [pytest.mark.spark, pytest.mark.folder]

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/read-files.md"


def test_the_pages_settings_and_commands_do_what_it_says(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (rule,) = re.findall(r"`tables: (\[.*?\])`", text)
    monkeypatch.chdir(tmp_path)
    settings = {**yaml.safe_load(shown), "tables": yaml.safe_load(rule), "spark": {"master": "local[2]"}}
    (tmp_path / "games.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    kit = LandingKit(tmp_path, spark).configured(**settings)
    kit.land({"a.json": lines(range(5)), "a.txt": b"no JSON\n"})
    commands = re.findall(r"^    distributary (.*)$", text, re.MULTILINE)
    assert len(commands) == 2
    for command in [*commands, "infer games.yaml", "plan games.yaml", "graph games.yaml"]:
        result = CliRunner().invoke(app, command.split())
        assert result.exit_code == 0, result.output
    rows = kit.rows().to_pylist()
    assert (
        sorted(row["n"] for row in rows)
        == [row["kafka_offset"] & 4294967295 for row in rows]
        == list(range(5))
    )
    assert {row["path"] for row in rows} == {"a.json"}
