"""The page on Kinesis, done as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession
from tests.ingest.e2e.stream_kit import streaming
from typer.testing import CliRunner

from distributary.cli import app

pytestmark = [pytest.mark.spark, pytest.mark.folder]

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/kinesis.md"


# What its settings do is in test_streamed.py without the page.
@pytest.mark.heavy
def test_the_pages_settings_and_commands_do_what_it_says(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (rule,) = re.findall(r"`tables: (\[.*?\])`", text)
    monkeypatch.chdir(tmp_path)
    with streaming(tmp_path, spark, monkeypatch, name="game-events") as kit:
        settings = yaml.safe_load(shown)
        settings["source"]["kinesis"]["endpoint"] = kit.settings.source.kinesis.endpoint  # type: ignore[union-attr]
        settings |= {"tables": yaml.safe_load(rule), "spark": {"master": "local[2]"}}
        (tmp_path / "games.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        kit.put(range(5), game='"go"')
        commands = re.findall(r"^    distributary (.*)$", text, re.MULTILINE)
        assert len(commands) == 2
        for command in [
            *commands,
            "infer games.yaml",
            "plan games.yaml",
            "graph games.yaml --format openlineage",
        ]:
            result = CliRunner().invoke(app, command.split())
            assert result.exit_code == 0, result.output
        assert '"namespace": "kinesis://127.0.0.1:' in result.output
        rows = kit.rows("silver_go").to_pylist()
    assert sorted(row["n"] for row in rows) == list(range(5))
    assert {row["kafka_topic"] for row in rows} == {"game-events"}
    assert all(row["kafka_key_text"] == str(row["n"]) for row in rows)
    assert len({row["sequence"] for row in rows}) == 5
