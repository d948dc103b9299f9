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
    whole, moved, *_ = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
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


# So it is with deletes: what each of them does is in `make test`.
@pytest.mark.heavy
def test_the_pages_rules_of_deletes_are_taken_and_do_what_it_says(kit: PipelineKit) -> None:
    text = PAGE.read_text(encoding="utf-8")
    whole, _, present, deletes, *more = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (by_key,), (rule,) = (yaml.safe_load(one)["tables"] for one in (present, deletes))
    kit.configured(route={"field": None}).configured(**yaml.safe_load(whole))
    for part in more:
        own = yaml.safe_load(part)
        base = {**by_key, "update": "all"} if "tombstones" in own["deletes"] else rule
        kit.configured(tables=[{**base, **own}])
        answered, output = said(kit, "settings", "check", str(kit.settings_file))
        assert answered == 0, output
    assert len(more) == 4
    kit.configured(tables=[rule])
    records: list[dict[str, Any]] = [
        {"customer": {"id": 1}, "city": "Ulm", "updated_at": "2026-01-02", "op": "c"},
        {"customer": {"id": 2}, "city": "Bonn", "updated_at": "2026-01-02", "op": "c"},
        {"customer": {"id": 1}, "city": None, "updated_at": "2026-01-04", "op": "d"},
        # It is late.
        {"customer": {"id": 1}, "city": "Kiel", "updated_at": "2026-01-03", "op": "u"},
        {"customer": None, "city": None, "updated_at": "2026-01-05", "op": "d"},
    ]
    kit.send([json.dumps(record).encode() for record in records])
    answered, output = said(kit, "run", str(kit.settings_file), "--available-now")
    assert answered == 0, output
    kit.send([json.dumps(records[3]).encode()])
    answered, output = said(kit, "run", str(kit.settings_file), "--available-now")
    assert answered == 0, output
    folder = kit.lake.table_of(kit.topic)
    assert {row["customer"]["id"]: row["city"] for row in rows_of(kit, folder)} == {2: "Bonn"}
    assert reasons(kit) == {"null_key": 1}
    assert kit.rows(f"{folder}__deleted").num_rows == 1
    rows = sorted(kit.rows("ledger_batches").to_pylist(), key=lambda row: row["batch_id"])
    counted = ("rows_inserted", "rows_updated", "rows_older", "rows_duplicate", "rows_deleted")
    assert [[row[name] for name in counted] for row in rows] == [[1, 0, 0, 2, 1], [0, 0, 1, 0, 0]]
    answered, output = said(kit, "plan", str(kit.settings_file))
    assert answered == 0, output
    assert "sequence_by updated_at, deletes when op = 'd'" in output
    answered, output = said(kit, "verify", str(kit.settings_file))
    assert answered == 0, output
