"""What no column took of records, as conditions see it: healthy records are not doubted, and a row as it was is whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.ingest.batches import demuxed
from tests.ingest.kafka_records import numbered, pins
from tests.ingest.worker.test_columns_hidden import ENVELOPES
from tests.ingest.worker.test_routed_by_misfits import by_game, sent

from distributary.codecs.base import Enveloped
from distributary.ingest.routing.conditions import ReadCondition
from distributary.ingest.routing.tree import Call, Field, Literal
from distributary.ingest.settings.groups import Route


def erased(field: str, value: Any) -> dict[str, Any]:
    found = ReadCondition(Call("=", (Field(tuple(field.split("."))), Literal(value))))
    return {"conditions": {"hers": found}, "by_setting": {"erased[0]": "hers"}}


@pytest.mark.parametrize(
    ("at", "ends"),
    [
        ({"game": 7.0}, "erased"),
        ({"game": "7"}, "delete_condition"),
        ({"game": 2**70}, "row"),
        ({"game": 10**400}, "row"),
        ({"game": "8"}, "row"),
        ({"game": "a guest"}, "row"),
        ({"game": True}, "row"),
        ("nobody", "row"),
        ('{"game": 7}', "delete_condition"),
        ({"game": {"id": 7}}, "delete_condition"),
        ({"game": [7]}, "delete_condition"),
    ],
)
def test_only_what_may_be_meant_is_doubted(tmp_path: Path, at: Any, ends: str) -> None:
    """A topic may have many texts where others have numbers: they are no reason to keep their records out."""
    report = demuxed(by_game(tmp_path, **erased("at.game", 7)), sent({"game": 1, "at": at}))
    found = [*report.counts.dropped, *report.counts.quarantined, *(["row"] if report.counts.rows else [])]
    assert found == [ends]


@pytest.mark.parametrize(("pin", "ends"), [(7.0, "erased"), ("7", "delete_condition"), ("a guest", "row")])
def test_a_row_as_it_was_is_known_by_what_no_column_took_of_it(tmp_path: Path, pin: Any, ends: str) -> None:
    records, header = ENVELOPES["jsonschema"]
    change = {
        "op": "u",
        "before": {"game": "golf", "pin": pin},
        "after": {"game": "golf", "pin": 8},
        "source": {"table": "golf", "connector": "mysql"},
    }
    by = pins(
        tmp_path,
        codec=Enveloped("jsonschema", "debezium", ("op", "before")),
        records=records,
        route=Route(field="__source_table", table="{entity}"),
        schemas_final=True,
        inferred_final=True,
        **erased("pin", 7),
    )
    report = demuxed(by, numbered([header + json.dumps(change).encode()]))
    found = [*report.counts.dropped, *report.counts.quarantined, *(["row"] if report.counts.rows else [])]
    assert found == [ends]
