"""What records are routed by has a value that no column takes: they have no entity, and are not as if they had no value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.ingest.batches import demuxed
from tests.ingest.kafka_records import Sent, pins, rows_of

from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.pins import ENTITY_MISFIT, NO_ENTITY, PinnedRecord, Pins
from distributary.ingest.settings.groups import NamedTable, Policies, Route
from distributary.registry.base import Schema

# As they are inferred from records that have a number there.
GAME = {"name": "game", "type": "long", "nullable": True, "metadata": {}}
AT = {"name": "at", "type": {"type": "struct", "fields": [GAME]}, "nullable": True, "metadata": {}}


def by_game(root: Path, field: str = "game", **changes: Any) -> Pins:
    text = json.dumps({"type": "struct", "fields": [GAME, AT]})
    records = (PinnedRecord((1, ()), Schema(1, "STRUCT", text)),)
    route = Route(field=field, table="of_{entity}")
    return pins(root, codec="json", route=route, records=records, inferred_final=True, **changes)


def sent(*values: dict[str, object]) -> list[Sent]:
    return [Sent(json.dumps(value).encode(), offset) for offset, value in enumerate(values)]


@pytest.mark.parametrize("policy", ["quarantine", "drop"])
def test_a_value_that_the_routing_field_does_not_take_is_in_quarantine_and_said(
    tmp_path: Path, policy: Any
) -> None:
    """Whoever drops records without a value has not said so of records with one."""
    by = by_game(tmp_path, policies=Policies(no_entity=policy))
    nothing: list[dict[str, object]] = [{}, {"game": None}, {"game": ""}, {"game": {"a": 1}}, {"game": [1]}]
    report = demuxed(by, sent({"game": 7}, {"game": "chess"}, {"game": True}, *nothing))
    assert report.counts.rows == {"of_7": 1}
    found = [(row["kafka_offset"], row["detail"]) for row in rows_of(by, report, QUARANTINE_TABLE)]
    lacking = [] if policy == "drop" else [(offset, NO_ENTITY.detail) for offset in range(3, 8)]
    assert found == [(1, ENTITY_MISFIT.detail), (2, ENTITY_MISFIT.detail), *lacking]
    assert report.counts.dropped == ({"no_entity": 5} if policy == "drop" else {})


def test_so_is_one_further_down_and_one_that_the_schema_has_no_field_for(tmp_path: Path) -> None:
    of_at, of_kind = (
        by_game(tmp_path, field, policies=Policies(no_entity="drop")) for field in ("at.game", "kind.a.b")
    )
    report = demuxed(of_at, sent({"at": {"game": "chess"}}, {"at": "chess"}, {"game": "chess", "at": {}}))
    assert (report.counts.quarantined, report.counts.dropped) == ({"no_entity": 1}, {"no_entity": 2})
    report = demuxed(of_kind, sent({"kind": {"a": {"b": "chess"}}}, {"kind": {"a": 1}}, {"kind": 1}))
    assert (report.counts.quarantined, report.counts.dropped) == ({"no_entity": 1}, {"no_entity": 2})


def test_the_table_of_records_without_an_entity_has_the_value_beside_its_columns(tmp_path: Path) -> None:
    by = by_game(tmp_path, policies=Policies(no_entity=NamedTable(table="strays")))
    report = demuxed(by, sent({"game": "chess"}))
    (row,) = rows_of(by, report, "strays")
    assert row["_rescued_data"] == '{"game":"chess"}'
