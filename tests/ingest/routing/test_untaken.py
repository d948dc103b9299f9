"""What no column took of records, as conditions see it: healthy records are not doubted, and a row as it was is whole."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.ingest.batches import demuxed
from tests.ingest.kafka_records import numbered, pins
from tests.ingest.worker.test_columns_hidden import ENVELOPES
from tests.ingest.worker.test_routed_by_misfits import by_game, sent

from distributary.codecs.base import Enveloped
from distributary.ingest.pins import PinnedRecord
from distributary.ingest.routing.conditions import ReadCondition
from distributary.ingest.routing.tree import Call, Field, Literal
from distributary.ingest.settings.groups import Route
from distributary.registry.base import Schema


def erased(*said: tuple[str, Any]) -> dict[str, Any]:
    conditions = {
        field: ReadCondition(Call("=", (Field(tuple(field.split("."))), Literal(value))))
        for field, value in said
    }
    by_setting = {f"erased[{number}]": field for number, field in enumerate(conditions)}
    return {"conditions": conditions, "by_setting": by_setting}


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
    report = demuxed(by_game(tmp_path, **erased(("at.game", 7))), sent({"game": 1, "at": at}))
    found = [*report.counts.dropped, *report.counts.quarantined, *(["row"] if report.counts.rows else [])]
    assert found == [ends]


def test_of_records_of_which_no_column_takes_anything_all_is_known_too(tmp_path: Path) -> None:
    nothing = Schema(1, "STRUCT", json.dumps({"type": "struct", "fields": []}))
    of = by_game(tmp_path, **erased(("game", 7)))
    of = replace(of, schemas=replace(of.schemas, records=(PinnedRecord((1, ()), nothing),)))
    of = replace(of, rules=replace(of.rules, route=Route(by="topic", table="{entity}")))
    report = demuxed(of, sent({}, {"game": 8}, {"game": 7}))
    assert report.counts.dropped == {"erased": 1}
    assert report.counts.rows.total() == 2


@pytest.mark.parametrize("doubtful", [("at.game", 7), ("at.game", "x")])
def test_who_is_meant_by_one_condition_is_not_kept_for_a_doubt_by_another(
    tmp_path: Path, doubtful: tuple[str, Any]
) -> None:
    """In quarantine all would be that was said."""
    of = by_game(tmp_path, **erased(doubtful, ("game", 1)))
    values: list[dict[str, object]] = [{"game": game, "at": {"game": "7"}} for game in (1, 2)]
    report = demuxed(of, sent(*values))
    assert report.counts.dropped == {"erased": 1}
    assert report.counts.quarantined == {"delete_condition": 1}


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
        **erased(("pin", 7)),
    )
    report = demuxed(by, numbered([header + json.dumps(change).encode()]))
    found = [*report.counts.dropped, *report.counts.quarantined, *(["row"] if report.counts.rows else [])]
    assert found == [ends]
