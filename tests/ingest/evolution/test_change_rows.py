"""The table of changes after real batches: what each class of change leaves in it, once."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.ingest.avro_records import GAME, event, one, pinned, sent_as
from tests.ingest.batches import decided, evolved, generation, known, settled_by
from tests.ingest.kafka_records import TOPIC, numbered
from tests.ingest.pipelines import checkpoint, make_table, rules_for, settings, table_book

from distributary.codecs.base import load_codec
from distributary.ingest.batch.attempt import logged_changes
from distributary.ingest.batch.decide import Attempt, Before, Decision, decide
from distributary.ingest.batch.passes import Settled
from distributary.ingest.checkpoint.change_log import ChangeLog, LoggedChange, TableChange
from distributary.ingest.checkpoint.histories import Met
from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.checkpoint.manifest_json import from_json, to_json
from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.safe_names import CHANGES_TABLE
from distributary.ingest.evolution.change_rows import made_before
from distributary.ingest.evolution.meetings import Meetings
from distributary.ingest.evolution.transitions import Transitions
from distributary.ingest.pins import PinnedRecord, PinnedTable
from distributary.ingest.settings.model import Settings
from distributary.registry.base import Schema

WIDE = 2**40
OLD = event(
    1,
    GAME,
    one("int", "level"),
    one("int", "score"),
    one("string", "guild"),
    one("int", "coins"),
    one({"type": "enum", "name": "Rank", "symbols": ["A", "B"]}, "rank"),
    one(["null", "int"], "team"),
)
NEW = event(
    2,
    GAME,
    one("long", "level"),  # widened
    one("string", "score"),  # changed
    # guild is gone
    one("int", "gems", aliases=["coins"]),
    one({"type": "enum", "name": "Rank", "symbols": ["A", "C"]}, "rank"),
    one("int", "team"),
    one("string", "season"),
)
FIRST = {"game": "golf", "level": 1, "score": 2, "guild": "g", "coins": 3, "rank": "B", "team": None}
LATER = {"game": "golf", "level": WIDE, "score": "", "gems": 3, "rank": "C", "team": 4, "season": "s"}

Told = tuple[Any, ...]


def test_every_change_of_a_schema_is_told_with_what_was_done(tmp_path: Path) -> None:
    chosen = _settings(tmp_path, incompatible_type="rescue")
    first = _run(tmp_path, chosen, 0, (OLD, NEW), [(OLD, FIRST)])
    assert {(row["kind"], row["old_schema_id"]) for row in _rows(tmp_path, first)} == {("created", None)}
    after = _run(tmp_path, chosen, 1, (OLD, NEW), [(OLD, FIRST), (NEW, LATER)], first)
    rows = _rows(tmp_path, after)
    assert {_told(row) for row in rows} == {
        ("widened", "level", "int", "bigint", "int", "rescue"),
        ("changed", "score", "int", "string", "int", "rescue"),
        ("dropped", "guild", "string", None, "string", "keep"),
        ("renamed", "gems", "coins", "gems", "int", "add"),
        ("enum_value_removed", "rank", "B", None, "string", "fit"),
        ("enum_value_added", "rank", None, "C", "string", "fit"),
        ("made_required", "team", "optional", "required", "int", "fit"),
        ("added", "season", None, "string", "string", "add"),
    }
    assert len(rows) == 8
    assert {(row["table"], row["entity"], row["batch_id"]) for row in rows} == {("golf", "golf", 1)}
    assert {(row["old_schema_id"], row["schema_id"], row["kafka_offset"]) for row in rows} == {(1, 2, 1)}


def test_what_a_table_has_met_is_told_once_whatever_the_batch(tmp_path: Path) -> None:
    chosen = _settings(tmp_path, incompatible_type="rescue")
    first = _run(tmp_path, chosen, 0, (OLD, NEW), [(OLD, FIRST), (NEW, LATER)])
    assert first.met == {"golf": ((1, ()), (2, ()))}
    told = [_told(row) for row in _rows(tmp_path, first) if row["kind"] != "created"]
    assert ("widened", "level", "int", "bigint", "int", "rescue") in told
    assert not [one for one in told if one[-1] == "add"]
    again = _run(tmp_path, chosen, 1, (OLD, NEW), [(NEW, LATER), (OLD, FIRST)], first)
    assert again.met == first.met
    assert _rows(tmp_path, again) == []


def test_a_change_whose_records_are_all_in_quarantine_is_told_and_its_columns_when_they_come(
    tmp_path: Path,
) -> None:
    chosen = _settings(tmp_path)
    first = _run(tmp_path, chosen, 0, (OLD, NEW), [(OLD, FIRST)])
    refused = _run(tmp_path, chosen, 1, (OLD, NEW), [(NEW, LATER)], first)
    told = {_told(row) for row in _rows(tmp_path, refused)}
    assert ("changed", "score", "int", "string", "int", "quarantine") in told
    assert "season" not in {row[1] for row in told}
    # No value is needed there any more.
    easy = replace(NEW, text=NEW.text.replace('{"name": "score", "type": "string"}, ', ""), id=3)
    later = {name: value for name, value in LATER.items() if name != "score"}
    came = _run(tmp_path, chosen, 2, (OLD, NEW, easy), [(easy, later)], refused)
    assert {(row["kind"], row["column"], row["old_schema_id"]) for row in _rows(tmp_path, came)} == {
        ("dropped", "score", 2),
        ("added", "gems", 2),
        ("added", "season", 2),
    }


@pytest.mark.parametrize(("policy", "decision"), [("rescue", "rescue"), ("ignore", "ignore")])
def test_a_column_that_is_not_added_is_told_too(policy: str, decision: str, tmp_path: Path) -> None:
    chosen, wider = _settings(tmp_path, new_field=policy), event(2, GAME, one("int", "level"))
    first = _run(tmp_path, chosen, 0, (event(1, GAME), wider), [(event(1, GAME), {"game": "golf"})])
    after = _run(tmp_path, chosen, 1, (event(1, GAME), wider), [(wider, {"game": "golf", "level": 1})], first)
    assert [_told(row) for row in _rows(tmp_path, after)] == [("added", "level", None, "int", "", decision)]


def test_several_events_in_one_table_are_no_changes_of_each_other(tmp_path: Path) -> None:
    login = event(1, GAME, one("int", "a"), one("int", "b"), name="Login")
    buy = event(2, GAME, one("int", "c"), one("int", "d"), name="Buy")
    better = event(3, GAME, one("int", "a"), one("int", "b"), one("int", "e"), name="Login")
    schemas = (login, buy, better)
    manifest = None
    told = []
    for batch_id, (schema, values) in enumerate(
        [(login, {"a": 1, "b": 1}), (buy, {"c": 1, "d": 1}), (better, {"a": 1, "b": 1, "e": 1})]
    ):
        record = (schema, {"game": "golf", **values})
        manifest = _run(tmp_path, _settings(tmp_path), batch_id, schemas, [record], manifest)
        told.append([(r["kind"], r["column"], r["old_schema_id"]) for r in _rows(tmp_path, manifest)])
    assert told[1:] == [[("added", "c", None), ("added", "d", None)], [("added", "e", 1)]]


def test_a_table_of_unknown_history_is_told_what_it_cannot_take(tmp_path: Path) -> None:
    chosen = _settings(tmp_path, incompatible_type="rescue")
    first = _run(tmp_path, chosen, 0, (OLD, NEW), [(OLD, FIRST)])
    earlier = from_json({name: value for name, value in to_json(first).items() if name != "met"})
    assert earlier == replace(first, met={})
    after = _run(tmp_path, chosen, 1, (OLD, NEW), [(NEW, LATER)], earlier)
    rows = _rows(tmp_path, after)
    assert {(row["kind"], row["column"], row["decision"], row["old_schema_id"]) for row in rows} == {
        ("added", "gems", "add", None),
        ("added", "season", "add", None),
        ("widened", "level", "rescue", None),
        ("changed", "score", "rescue", None),
    }


def test_an_attempt_that_died_with_the_tables_changed_leaves_the_same_rows(tmp_path: Path) -> None:
    chosen = _settings(tmp_path, incompatible_type="rescue")
    first = _run(tmp_path, chosen, 0, (OLD, NEW), [(OLD, FIRST)])
    dying = _settled(tmp_path, chosen, 1, (OLD, NEW), [(NEW, LATER)], first)
    log = ChangeLog(checkpoint(tmp_path))
    log.write(1, [change for planned in evolved(tmp_path, dying) for change in logged_changes(planned)])
    again = _settled(tmp_path, chosen, 1, (OLD, NEW), [(NEW, LATER)], first)
    assert evolved(tmp_path, again) == []
    decision = Decision(
        batch_id=1,
        offsets={TOPIC: {0: (0, 1)}},
        before=Before(first.entities, again.pins.tables.known, first.met),
        settled=again,
        changes=(),
        attempt=Attempt(datetime.now(timezone.utc), 2),
        rules=rules_for(chosen),
        logged=log.read(0),
    )
    manifest = decide("games", generation(tmp_path), table_book(tmp_path), decision)
    rows = _rows(tmp_path, manifest)
    assert sorted((row["kind"], row["column"], row["decision"]) for row in rows) == [
        ("added", "season", "add"),
        ("changed", "score", "rescue"),
        ("dropped", "guild", "keep"),
        ("enum_value_added", "rank", "fit"),
        ("enum_value_removed", "rank", "fit"),
        ("made_required", "team", "fit"),
        ("renamed", "gems", "add"),
        ("widened", "level", "rescue"),
    ]
    assert {(row["old_schema_id"], row["schema_id"], row["kafka_offset"]) for row in rows} == {(1, 2, 0)}


def test_attempts_that_died_crediting_different_schemas_leave_one_row(tmp_path: Path) -> None:
    make_table(tmp_path, "golf", pa.schema([("season", pa.string())]))
    lines = [TableChange("golf", "added", "season", "string", f"schema {n}", n) for n in (7, 8)]
    logged = [LoggedChange(1, "2026-01-01T00:00:00.000+00:00", line) for line in lines]
    (row,) = made_before(logged, [], {"golf": "golf"}, table_book(tmp_path).states(["golf"]))
    assert (row.change.column, row.by.schema_id) == ("season", 7)


def test_an_inferred_schema_is_told_of_a_table_as_far_as_its_records_have_values(tmp_path: Path) -> None:
    chosen = settings(tmp_path, route={"field": "game", "table": "{entity}"}, decode={"format": "json"})
    one_, two = (
        Schema(n, "STRUCT", json.dumps({"type": "struct", "fields": [_text(name) for name in names]}))
        for n, names in ((1, ("game", "a")), (2, ("game", "a", "b")))
    )

    def run(
        batch_id: int, schemas: tuple[Schema, ...], *sent: dict[str, str], last: Manifest | None
    ) -> Manifest:
        batch = settled_by(
            chosen,
            tmp_path,
            numbered([json.dumps(record).encode() for record in sent]),
            id=batch_id,
            codec="json",
            records=pinned(*schemas),
            route=chosen.route,
            known=known(tmp_path, last.entities) if last else {},
            met=last.met if last else {},
        )
        return decided(tmp_path, batch, {TOPIC: {0: (0, len(sent))}}, last.entities if last else {}, chosen)

    first = run(0, (one_,), {"game": "golf", "a": "x"}, {"game": "quest", "a": "x"}, last=None)
    both = run(1, (one_, two), {"game": "golf", "a": "x", "b": "y"}, {"game": "quest", "a": "x"}, last=first)
    assert both.met == {"golf": ((1, ()), (2, ())), "quest": ((1, ()), (2, ()))}
    later = run(2, (one_, two), {"game": "quest", "b": "y"}, last=both)
    told = [
        [(row["table"], row["kind"], row["column"], row["old_schema_id"], row["schema_id"]) for row in rows]
        for rows in (_rows(tmp_path, both), _rows(tmp_path, later))
    ]
    assert told == [[("golf", "added", "b", 1, 2)], [("quest", "added", "b", 1, 2)]]


def test_a_topic_that_changes_its_format_is_told_so(tmp_path: Path) -> None:
    proto = 'syntax = "proto3"; package games; message Event { string game = 1; int32 level = 2; }'
    before, after = Schema(1, "PROTOBUF", proto), event(2, GAME, one("long", "level"))
    transitions = Transitions(
        load_codec("auto"), (PinnedRecord((1, (0,)), before), PinnedRecord((2, ()), after))
    )
    assert transitions.before((2, ()), ((1, (0,)),)) == (1, (0,))
    assert [(change.kind, change.column) for change in transitions.changes((1, (0,)), (2, ()))] == [
        ("format_switched", ""),
        ("made_required", "game"),
        ("made_required", "level"),
        ("widened", "level"),
    ]


def test_a_thousand_tables_that_go_through_one_transition_share_its_verdict(tmp_path: Path) -> None:
    codec, names = load_codec("avro"), [f"table_{n}" for n in range(1000)]
    layout = Layout(codec.reader(OLD, ()).schema)
    known = {name: PinnedTable(name, layout) for name in names}
    meetings = Meetings(
        Transitions(codec, pinned(OLD, NEW)),
        rules_for(_settings(tmp_path)),
        known,
        dict.fromkeys(names, layout),
    )
    met: Met = {(2, ()): {name: (TOPIC, 0, n) for n, name in enumerate(names)}}
    found = meetings.of(met, dict.fromkeys(names, ((1, ()),)))
    assert [meeting.folder for meeting in found] == names
    assert len({id(meeting.verdicts) for meeting in found}) == 1
    assert found[0].verdicts


def _text(name: str) -> dict[str, Any]:
    return {"name": name, "type": "string", "nullable": True, "metadata": {}}


def _settings(root: Path, **policies: str) -> Settings:
    return settings(
        root, route={"field": "game", "table": "{entity}"}, decode={"format": "avro"}, policies=policies
    )


def _run(  # noqa: PLR0917
    root: Path,
    chosen: Settings,
    batch_id: int,
    schemas: tuple[Schema, ...],
    sent: list[tuple[Schema, dict[str, Any]]],
    last: Manifest | None = None,
) -> Manifest:
    """A batch of these records, after the one of manifest `last`."""
    batch = _settled(root, chosen, batch_id, schemas, sent, last)
    entities = last.entities if last else {}
    return decided(root, batch, {TOPIC: {0: (0, len(sent))}}, entities, chosen)


def _settled(  # noqa: PLR0917
    root: Path,
    chosen: Settings,
    batch_id: int,
    schemas: tuple[Schema, ...],
    sent: list[tuple[Schema, dict[str, Any]]],
    last: Manifest | None,
) -> Settled:
    return settled_by(
        chosen,
        root,
        numbered([sent_as(schema, **fields) for schema, fields in sent]),
        id=batch_id,
        codec="avro",
        records=pinned(*schemas),
        route=chosen.route,
        policies=chosen.policies,
        grow=chosen.policies.new_field == "add",
        known=known(root, last.entities) if last else {},
        met=last.met if last else {},
    )


def _rows(root: Path, manifest: Manifest) -> list[dict[str, Any]]:
    """The rows of changes; the column of rescued values, which comes by itself, has one too, left out here."""
    files = [file for table in manifest.tables if table.folder == CHANGES_TABLE for file in table.files]
    return [
        row
        for file in files
        for row in pq.ParquetFile(root / "lake" / CHANGES_TABLE / file.name).read().to_pylist()
        if row["column"] != "_rescued_data"
    ]


def _told(row: dict[str, Any]) -> Told:
    return tuple(row[name] for name in ("kind", "column", "before", "after", "type", "decision"))
