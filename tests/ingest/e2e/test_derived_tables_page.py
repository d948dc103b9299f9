"""The page on tables made of tables, done as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.planted import said

pytestmark = [pytest.mark.spark, pytest.mark.stack]

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/derived-tables.md"


@pytest.mark.heavy
def test_the_pages_settings_and_commands_do_what_it_says(kit: PipelineKit) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    kit.configured(**yaml.safe_load(shown))
    kit.simulate(1, corrupt=0.1)
    assert kit.settings_file.name == "games.yaml"
    for line in re.findall(r"^    distributary (.*)$", text, re.MULTILINE):
        command = line.split()
        answered, output = said(kit, *command, *(["--available-now"] if command[0] == "run" else []))
        assert answered == 0, output
    quarantined = kit.rows("quarantine").num_rows
    assert quarantined
    assert sum(kit.rows("gold_lost_records")["records"].to_pylist()) == quarantined
    for game in range(3):
        table = kit.folder_of(game)
        made = kit.rows(table.replace("silver", "gold").replace("events", "players"))
        assert sum(made["events"].to_pylist()) == kit.rows(table).num_rows
