"""The page on current state from a keyed topic, done as it says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.ingest.e2e.handmade import reasons
from tests.ingest.e2e.keyed import rows_of
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.planted import said

pytestmark = [pytest.mark.spark, pytest.mark.stack]

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/current-state-from-a-keyed-topic.md"


# What its settings and commands do is in `make test` without the page.
@pytest.mark.heavy
def test_the_pages_settings_and_commands_do_what_it_says(kit: PipelineKit) -> None:
    text = PAGE.read_text(encoding="utf-8")
    whole, moved, _ = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    kit.configured(route={"field": None}).configured(**yaml.safe_load(whole))
    records: list[dict[str, Any]] = [
        {"customer": {"id": 1}, "city": "Ulm", "updated_at": "2026-01-02"},
        {"customer": {"id": 2}, "city": "Bonn", "updated_at": "2026-01-02"},
        {"customer": {"id": 1}, "city": "Kiel", "updated_at": "2026-01-01"},
        {"customer": {"id": 2}, "city": "Jena", "updated_at": "2026-01-03"},
        {"customer": {"id": 3}, "city": "Hof", "updated_at": None},
        {"customer": None, "city": "Hof", "updated_at": "2026-01-03"},
    ]
    kit.send([json.dumps(record).encode() for record in records])
    kit.send([None])
    assert kit.settings_file.name == "games.yaml"
    for line in re.findall(r"^    distributary (.*)$", text, re.MULTILINE):
        command = line.partition("#")[0].split()
        answered, output = said(kit, *command, *(["--available-now"] if command[0] == "run" else []))
        assert answered == 0, output
        if command[0] == "plan":
            assert "mode               upsert, keys customer.id, sequence_by updated_at" in output
    folder = kit.lake.table_of(kit.topic)
    assert {row["customer"]["id"]: row["city"] for row in rows_of(kit, folder)} == {1: "Ulm", 2: "Jena"}
    assert reasons(kit) == {"null_key": 1, "null_sequence": 1}
    (row,) = kit.rows("ledger_batches").to_pylist()
    counted = (
        "rows_inserted",
        "rows_updated",
        "rows_older",
        "rows_duplicate",
        "rows_deleted",
        "rows_dropped",
    )
    assert [row[name] for name in counted] == [2, 0, 0, 2, 0, 1]
    answered, output = said(kit, "verify", str(kit.settings_file))
    assert answered == 0, output

    (rule,) = yaml.safe_load(moved)["tables"]
    kit.configured(tables=[rule])
    assert said(kit, "settings", "check", str(kit.settings_file))[0] == 0
    # It is a table of other keys.
    answered, output = said(kit, "plan", str(kit.settings_file))
    assert answered != 0
    assert "mode upsert, keys customer.id, sequence_by updated_at" in output
