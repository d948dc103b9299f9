"""The page on tables in partitions, done as it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from tests.ingest.e2e.handmade import quarantined
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.planted import said

pytestmark = [pytest.mark.spark, pytest.mark.stack]

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/partitions.md"


# What its settings do is in `make test` without the page.
@pytest.mark.heavy
def test_the_pages_settings_and_commands_do_what_it_says(kit: PipelineKit) -> None:
    text = PAGE.read_text(encoding="utf-8")
    shown, by_day, by_all = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    told, _ = re.findall(r"^```\n(tables\[0\].*?)^```$", text, re.MULTILINE | re.DOTALL)
    kit.configured(route={"field": None}).configured(**yaml.safe_load(shown))
    countries = ["de", "fr", "", None, "__HIVE_DEFAULT_PARTITION__"]
    kit.send([json.dumps({"country": country, "n": n}).encode() for n, country in enumerate(countries)])
    assert kit.settings_file.name == "games.yaml"
    for line in re.findall(r"^    distributary (.*)$", text, re.MULTILINE):
        command = line.partition("#")[0].split()
        answered, output = said(kit, *command, *(["--available-now"] if command[0] == "run" else []))
        assert answered == 0, output
        if command[0] == "plan":
            assert told in output
    table = kit.lake.table_of(kit.topic)
    assert kit.delta(table).metadata().partition_columns == ["day", "country"]
    rows = {row["n"]: row for row in kit.rows(table).to_pylist()}
    assert {n: row["country"] for n, row in rows.items()} == {0: "de", 1: "fr", 2: None, 3: None}
    assert all(row["day"] == row["kafka_ts"].date() for row in rows.values())
    assert [row["reason"] for row in quarantined(kit)] == ["partition"]
    answered, output = said(kit, "maintain", str(kit.settings_file))
    assert answered == 0, output
    assert kit.rows(table).num_rows == 4
    answered, output = said(kit, "verify", str(kit.settings_file))
    assert answered == 0, output

    for more in (by_day, by_all):
        kit.configured(**yaml.safe_load(more))
        answered, output = said(kit, "settings", "check", str(kit.settings_file))
        assert answered == 0, output
