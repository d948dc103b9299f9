"""The page on change data capture, done as it says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.debezium import Database
from tests.ingest.e2e.handmade import reasons
from tests.ingest.e2e.keyed import rows_of
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.planted import said

pytestmark = [pytest.mark.spark, pytest.mark.stack]

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/change-data-capture.md"


def blocks() -> list[dict[str, Any]]:
    text = PAGE.read_text(encoding="utf-8")
    return [
        yaml.safe_load(one) for one in re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


# What its settings and commands do is in `make test` without the page.
@pytest.mark.heavy
def test_the_pages_settings_and_commands_do_what_it_says(kit: PipelineKit) -> None:
    whole = blocks()[0]
    kit.configured(route={"field": None, "table": "{entity}"}).configured(**whole)
    database = Database()
    changes = [
        *database.put("customers", 1, name="Anne"),
        *database.put("customers", 2, name="Bob"),
        *database.put("customers", 2, name="Bea"),
        *database.move("customers", 1, 3),
        *database.put("orders", 1, customer=3),
        *database.delete("customers", 2),
    ]
    for change in changes:
        kit.send([change.json], key=change.key_bytes)
    assert kit.settings_file.name == "games.yaml"
    for line in re.findall(r"^    distributary (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        command = line.partition("#")[0].split()
        answered, output = said(kit, *command, *(["--available-now"] if command[0] == "run" else []))
        assert answered == 0, output
        if command[0] == "plan":
            assert "upsert, keys kafka_key, sequence_by __source_position, deletes when __op = 'd'" in output
    assert [(row["id"], row["name"], row["__op"]) for row in rows_of(kit, "customers")] == [(3, "Anne", "c")]
    assert [(row["id"], row["customer"]) for row in rows_of(kit, "orders")] == [(1, 3)]
    (row,) = kit.rows("ledger_batches").to_pylist()
    assert json.loads(row["rows_by_reason"]) == {"tombstone": 2}
    answered, output = said(kit, "verify", str(kit.settings_file))
    assert answered == 0, output


@pytest.mark.heavy
def test_each_block_of_the_page_is_taken_and_does_what_it_says(kit: PipelineKit) -> None:
    whole, kept, by_schema, by_kafka, marked, appended = blocks()
    rule = whole["tables"][0]
    kit.configured(route={"field": None, "table": "{entity}"}).configured(**whole)
    for block in (kept, by_schema, by_kafka, marked, appended):
        kit.configured(tables=[rule]).configured(**block)
        answered, output = said(kit, "settings", "check", str(kit.settings_file))
        assert answered == 0, output
    kit.configured(**appended)
    database = Database(full=True)
    changes = [
        *database.put("customers", 1, name="Anne"),
        *database.put("customers", 1, name="Anna"),
        *database.delete("customers", 1),
    ]
    for change in changes:
        kit.send([change.json], key=change.key_bytes)
    answered, output = said(kit, "run", str(kit.settings_file), "--available-now")
    assert answered == 0, output
    rows = sorted(rows_of(kit, "public_customers"), key=lambda row: row["__source_position"])
    assert [(row["__op"], row["name"]) for row in rows] == [("c", "Anne"), ("u", "Anna"), ("d", "Anna")]
    assert [row["__before"] and json.loads(row["__before"])["name"] for row in rows] == [None, "Anne", "Anna"]
    assert all(row["__source_ts"] is not None for row in rows)
    assert not reasons(kit)
