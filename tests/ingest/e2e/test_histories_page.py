"""The page on history, done as it says."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.ingest.e2e.handmade import reasons
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.planted import said

from distributary.ingest.tables.state_by_spark import path_for_spark

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.folder]

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/history.md"


def record(key: int | None, city: str | None, day: int | None, op: str = "u", seen: int = 0) -> bytes:
    customer = None if key is None else {"id": key}
    moment = None if day is None else f"2026-01-{day:02}T00:00:00Z"
    body: dict[str, Any] = {
        "customer": customer,
        "city": city,
        "updated_at": moment,
        "op": op,
        "seen_at": seen,
    }
    return json.dumps(body).encode()


# What its settings do is in `make test` without the page.
@pytest.mark.heavy
def test_the_pages_settings_commands_and_query_do_what_it_says(kit: PipelineKit) -> None:
    text = PAGE.read_text(encoding="utf-8")
    whole, *more = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (query,) = re.findall(r"^```sql\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    given = yaml.safe_load(whole)
    kit.configured(route={"field": None}).configured(**given)
    kit.send([record(1, "Ulm", 2), record(2, "Bonn", 2), record(1, "Kiel", 6), record(None, "Hof", 3)])
    kit.send([record(2, None, 4, "d"), record(3, "Hof", None), record(1, "Kiel", 7, seen=1)])
    assert kit.settings_file.name == "games.yaml"
    for line in re.findall(r"^    distributary (.*)$", text, re.MULTILINE):
        command = line.partition("#")[0].split()
        answered, output = said(kit, *command, *(["--available-now"] if command[0] == "run" else []))
        assert answered == 0, output
        if command[0] == "plan":
            told = "mode               history, keys customer.id, sequence_by updated_at, deletes when op = 'd', ignore op, seen_at"
            assert told in output
    kit.send([record(1, "Jena", 4), record(2, "Bonn", 3)])
    answered, output = said(kit, "run", str(kit.settings_file), "--available-now")
    assert answered == 0, output
    folder = kit.lake.table_of(kit.topic)
    kit.spark.read.format("delta").load(path_for_spark(kit.lake.root.below(folder))).createOrReplaceTempView(
        "customers"
    )

    def at(day: int) -> dict[int, str]:
        moment = datetime(2026, 1, day, tzinfo=timezone.utc)
        found = kit.spark.sql(query, args={"moment": moment}).collect()
        return {row["customer"]["id"]: row["city"] for row in found}

    assert [at(day) for day in (1, 2, 3, 4, 5, 6, 9)] == [
        {},
        {1: "Ulm", 2: "Bonn"},
        {1: "Ulm", 2: "Bonn"},
        {1: "Jena"},
        {1: "Jena"},
        {1: "Kiel"},
        {1: "Kiel"},
    ]
    current = kit.spark.sql("SELECT * FROM customers WHERE is_current").collect()
    assert [(row["customer"]["id"], row["seen_at"]) for row in current] == [(1, 0)]
    assert reasons(kit) == {"null_key": 1, "null_sequence": 1}
    rows = sorted(kit.rows("ledger_batches").to_pylist(), key=lambda row: row["batch_id"])
    counted = ("inserted", "updated", "unchanged", "deleted", "older", "duplicate")
    assert [[row[f"rows_{name}"] for name in counted] for row in rows] == [
        [2, 1, 1, 1, 0, 0],
        [0, 1, 1, 0, 0, 0],
    ]
    answered, output = said(kit, "verify", str(kit.settings_file))
    assert answered == 0, output

    for part in more:
        own = yaml.safe_load(part)
        (rule,) = given["tables"]
        kit.configured(**(own if "tables" in own else {"tables": [{**rule, **own}]}))
        answered, output = said(kit, "settings", "check", str(kit.settings_file))
        assert answered == 0, output
    assert len(more) == 4
