"""Records of tables whose rule has columns otherwise, in a worker: what lands of them, what goes to quarantine, and what lands nowhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.ingest.avro_records import event, one, pinned, sent_as
from tests.ingest.e2e.handmade import Schema as Message
from tests.ingest.kafka_records import Sent, batch, numbered, pins, rows_of
from tests.ingest.reshaping.test_shape import digest, rule
from tests.ingest.worker.test_demux import demuxed

from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.pins import PinnedKeys, PinnedRecord, PinnedTable, Pins
from distributary.ingest.routing.conditions import ReadCondition
from distributary.ingest.routing.tree import Call, Field, Literal
from distributary.ingest.settings.deletes import Deleting
from distributary.ingest.settings.groups import Columns, Route
from distributary.ingest.settings.patterns import Pattern
from distributary.ingest.settings.rule_book import TableSpec
from distributary.ingest.settings.upserts import Upsert
from distributary.ingest.worker.demux import Demultiplexer
from distributary.ingest.worker.report import TaskReport
from distributary.registry.base import Schema

PROTO = """
syntax = "proto3";
message Event {
  message Person { string email = 1; string name = 2; }
  string game = 1;
  string email = 2;
  int64 pin = 3;
  Person person = 4;
  repeated Person people = 5;
  string note = 6;
  int32 level = 7;
}
"""
PERSON = {
    "type": "record",
    "name": "Person",
    "fields": [one(["null", "string"], "email", default=None), one(["null", "string"], "name", default=None)],
}
AVRO = event(
    7,
    one("string", "game"),
    one(["null", "string"], "email", default=None),
    one(["null", "long"], "pin", default=None),
    one(["null", PERSON], "person", default=None),
    one({"type": "array", "items": "games.Person"}, "people", default=[]),
    one(["null", "string"], "note", default=None),
    one(["null", "int"], "level", default=None),
)
_PERSON_DDL = {
    "type": "struct",
    "fields": [{"name": n, "type": "string", "nullable": True, "metadata": {}} for n in ("email", "name")],
}
_TYPES: dict[str, Any] = {
    "game": "string",
    "email": "string",
    "pin": "long",
    "person": _PERSON_DDL,
    "people": {"type": "array", "elementType": _PERSON_DDL, "containsNull": True},
    "note": "string",
    "level": "integer",
}
STRUCT = json.dumps(
    {
        "type": "struct",
        "fields": [{"name": n, "type": of, "nullable": True, "metadata": {}} for n, of in _TYPES.items()],
    }
)
_PERSON_SCHEMA = {"type": "object", "properties": {"email": {"type": "string"}, "name": {"type": "string"}}}
JSON_SCHEMA = json.dumps(
    {
        "type": "object",
        "title": "Event",
        "properties": {
            "game": {"type": "string"},
            "email": {"type": "string"},
            "pin": {"type": "integer"},
            "person": _PERSON_SCHEMA,
            "people": {"type": "array", "items": _PERSON_SCHEMA},
            "note": {"type": "string"},
            "level": {"type": "integer"},
        },
    }
)
MESSAGE = Message(7, PROTO)


def _record(key: Any, schema: Schema) -> tuple[PinnedRecord, ...]:
    return (PinnedRecord(key, schema),)


# How records of each format are pinned, and made of their fields.
FORMATS: Mapping[str, tuple[tuple[PinnedRecord, ...], Callable[[dict[str, Any]], bytes]]] = {
    "protobuf": (_record((7, (0,)), Schema(7, "PROTOBUF", PROTO)), lambda fields: MESSAGE.value(**fields)),
    "avro": (pinned(AVRO), lambda fields: sent_as(AVRO, **{"people": [], **fields})),
    "json": (_record((1, ()), Schema(1, "STRUCT", STRUCT)), lambda fields: json.dumps(fields).encode()),
    "jsonschema": (
        _record((7, ()), Schema(7, "JSON", JSON_SCHEMA)),
        lambda fields: b"\0\0\0\0\7" + json.dumps(fields).encode(),
    ),
}


def by(root: Path, kind: str = "json", rule_of: Mapping[str, Any] | None = None, **changes: Any) -> Pins:
    """Pins by which the golf's table has its columns by a rule, and the quest's has not."""
    upsert = changes.pop("upsert", None)
    given: dict[str, Any] = {
        "codec": kind,
        "route": Route(field="game", table="{entity}"),
        "records": FORMATS[kind][0],
        "specs": (TableSpec(0, "golf", reshape=rule(**(rule_of or {})), upsert=upsert),),
        "patterns": (Pattern("golf", folds=True),),
    }
    return pins(root, **{**given, **changes})


def sent(kind: str, *records: dict[str, Any]) -> list[Sent]:
    return numbered([FORMATS[kind][1](fields) for fields in records])


def golf(of: Pins, report: TaskReport) -> list[dict[str, Any]]:
    own = set(Columns().reserved()) - {"_rescued_data"}
    return [{k: v for k, v in row.items() if k not in own} for row in rows_of(of, report, "golf")]


ANN = {
    "email": "ann@x.org",
    "pin": 4711,
    "person": {"email": "ann@y.org", "name": "Ann"},
    "people": [{"email": "bob@z.org", "name": "Bob"}],
    "note": "12",
    "level": 3,
}
HIDING: dict[str, Any] = {
    "leave": ["person.email"],
    "hash": ["email", "people.email"],
    "mask": {"pin": "hidden"},
    "rename": {"person": "player", "level": "stage"},
    "cast": {"note": "int"},
    "constants": {"region": "eu"},
}


@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_has_the_columns_of_its_rule_and_another_those_of_its_records(
    tmp_path: Path, kind: str
) -> None:
    of = by(tmp_path, kind, HIDING)
    report = demuxed(of, sent(kind, {"game": "golf", **ANN}, {"game": "quest", **ANN}))
    (row,) = golf(of, report)
    assert row == {
        "game": "golf",
        "email": digest("ann@x.org"),
        "pin": "hidden",
        "player": {"name": "Ann"},
        "people": [{"email": digest("bob@z.org"), "name": "Bob"}],
        "note": 12,
        "stage": 3,
        "region": "eu",
    }
    (other,) = rows_of(of, report, "quest")
    assert (other["email"], other["pin"], other["level"]) == ("ann@x.org", 4711, 3)
    (layout,) = {written.layout for written in report.files.written if written.file.table == "golf"}
    assert layout.names == list(row)
    assert not report.counts.quarantined


def test_a_known_table_grows_by_the_names_of_the_rule(tmp_path: Path) -> None:
    known = {"golf": PinnedTable("golf", Layout(pa.schema([("game", pa.string()), ("stage", pa.int64())])))}
    of = by(tmp_path, "avro", {"rename": {"level": "stage"}, "take": ["game", "level", "note"]}, known=known)
    report = demuxed(of, sent("avro", {"game": "golf", **ANN}))
    assert golf(of, report) == [{"game": "golf", "stage": 3, "note": "12"}]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"cast": {"email": "int"}}, "field email has a value that is no int"),
        ({"rename": {"email": "note"}}, "a field is to be called note, and there is one already"),
        ({"leave": ["note.text"]}, "field note is of type string, which has no text to be hidden"),
    ],
)
def test_what_cannot_have_its_columns_goes_to_quarantine(
    tmp_path: Path, said: dict[str, Any], why: str
) -> None:
    of = by(tmp_path, "json", said)
    report = demuxed(of, sent("json", {"game": "golf", **ANN}, {"game": "quest", **ANN}))
    (row,) = rows_of(of, report, QUARANTINE_TABLE)
    assert (row["reason"], row["detail"], row["entity"]) == ("columns", why, "golf")
    assert report.counts.rows == {"quest": 1}
    # The table may come to be all the same: who writes this batch again has to come to the same reason.
    assert report.sightings.met.keys() == {(1, ())}
    assert report.sightings.met[1, ()].keys() == {"golf", "quest"}
    kept = "leave" not in said
    assert (row["value"] is not None, row["kafka_key"] is not None) == (kept, kept)


def test_rows_are_told_apart_and_partitioned_by_the_new_names(tmp_path: Path) -> None:
    said = {"rename": {"level": "stage"}, "constants": {"region": "eu"}, "hash": ["email"]}
    of = by(tmp_path, "json", said, upsert=Upsert(("email",), ("stage",)))
    report = demuxed(of, sent("json", {"game": "golf", **ANN}, {"game": "golf", "email": "x"}))
    (row,) = golf(of, report)
    assert (row["email"], row["stage"]) == (digest("ann@x.org"), 3)
    (refused,) = rows_of(of, report, QUARANTINE_TABLE)
    assert (refused["reason"], refused["detail"]) == (
        "null_sequence",
        "field stage has no value, or none of its column's type",
    )
    spec = TableSpec(0, "golf", reshape=rule(**said), partition_by=("region", "stage"))
    parted = by(tmp_path / "p", "json", specs=(spec,))
    (written,) = demuxed(parted, sent("json", {"game": "golf", **ANN})).files.written
    assert written.file.partition == (("region", "eu"), ("stage", "3"))


def test_two_rules_share_records_and_nothing_else(tmp_path: Path) -> None:
    specs = (
        TableSpec(0, "golf", reshape=rule(take=["game", "level"])),
        TableSpec(1, "quest", reshape=rule(take=["game", "note"])),
    )
    of = by(
        tmp_path, "avro", specs=specs, patterns=(Pattern("golf", folds=True), Pattern("quest", folds=True))
    )
    games = ("golf", "quest", "chess", "quest", "golf")
    report = demuxed(of, sent("avro", *({"game": game, **ANN} for game in games)))
    assert golf(of, report) == [{"game": "golf", "level": 3}] * 2
    assert {(row["game"], row["note"], "level" in row) for row in rows_of(of, report, "quest")} == {
        ("quest", "12", False)
    }
    assert [row["pin"] for row in rows_of(of, report, "chess")] == [4711]


def test_what_the_record_header_and_kafka_say_become_columns(tmp_path: Path) -> None:
    said = {"take": ["game"], "headers": {"trace": "X"}, "timestamp_type": "kafka_timestamp_type"}
    of = by(tmp_path, "json", said)
    raw = batch(sent("json", {"game": "golf"}, {"game": "golf"}))
    for name, values, kind in (
        ("headers", [[b"t"], None], pa.list_(pa.binary())),
        ("ts_type", [1, 0], pa.int32()),
    ):
        raw = raw.set_column(raw.schema.get_field_index(name), name, pa.array(values, kind))
    task = Demultiplexer(of)
    task.take(raw)
    assert golf(of, task.finish()) == [
        {"game": "golf", "trace": "t", "kafka_timestamp_type": "log_append_time"},
        {"game": "golf", "trace": None, "kafka_timestamp_type": "create_time"},
    ]


@pytest.mark.parametrize(
    ("key", "expected"),
    [("keep", b"gamer"), ("leave", None), ("hash", digest("gamer").encode())],
)
def test_the_records_own_key(tmp_path: Path, key: str, expected: bytes | None) -> None:
    of = by(tmp_path, "json", {"key": key, "hash": ["email"], "quarantine": "raw", "cast": {"note": "int"}})
    report = demuxed(of, sent("json", {"game": "golf"}, {"game": "golf", "note": "x"}, {"game": "quest"}))
    assert [row["kafka_key"] for row in rows_of(of, report, "golf")] == [expected]
    assert [row["kafka_key"] for row in rows_of(of, report, "quest")] == [b"gamer"]
    (row,) = rows_of(of, report, QUARANTINE_TABLE)
    assert row["kafka_key"] == expected
    assert json.loads(row["value"])["note"] == "x"


def test_the_text_of_a_key_is_as_the_key_is(tmp_path: Path) -> None:
    said = {"key": "hash", "hash": ["email"]}
    columns = Columns(key_text="key_text")
    of = by(tmp_path, "json", said, keys=PinnedKeys(final=True), columns=columns)
    (row,) = rows_of(of, demuxed(of, sent("json", {"game": "golf"})), "golf")
    assert (row["kafka_key"], row["key_text"]) == (digest("gamer").encode(), digest("gamer"))


def test_a_tombstones_key_is_that_of_the_row_that_it_takes_away(tmp_path: Path) -> None:
    of = by(
        tmp_path,
        "json",
        {"key": "hash", "hash": ["email"]},
        upsert=Upsert(deletes=Deleting(tombstones=True)),
        route=Route(by="topic", table="golf_{entity}"),
        patterns=(Pattern("*", folds=True),),
    )
    report = demuxed(of, numbered([b'{"email":"x"}', None]))
    (table,) = {written.file.table for written in report.files.written if not written.remembers}
    (memory,) = {written.file.table for written in report.files.written if written.remembers}
    expected = digest("gamer").encode()
    assert [row["kafka_key"] for row in rows_of(of, report, table)] == [expected]
    assert [row["kafka_key"] for row in rows_of(of, report, memory)] == [expected]


@pytest.mark.parametrize(
    ("route", "golf_dropped", "quest_dropped"),
    [
        (Route(field="game", table="{entity}"), True, True),
        (Route(by="topic", table="{entity}"), True, False),
    ],
)
def test_what_cannot_be_decoded_may_be_a_record_of_any_table_unless_its_entity_is_known_before(
    tmp_path: Path, route: Route, golf_dropped: bool, quest_dropped: bool
) -> None:
    of = by(tmp_path, "json", {"leave": ["email"]}, route=route, topics=("golf", "quest"))
    broken = [Sent(b'{"email": "ann@x.org"', n, topic=topic) for n, topic in enumerate(("golf", "quest"))]
    report = demuxed(of, broken)
    rows = {row["kafka_topic"]: row for row in rows_of(of, report, QUARANTINE_TABLE)}
    assert [rows[topic]["value"] is None for topic in ("golf", "quest")] == [golf_dropped, quest_dropped]
    assert [rows[topic]["kafka_key"] is None for topic in ("golf", "quest")] == [golf_dropped, quest_dropped]


def test_deletes_are_told_by_the_record_as_it_came(tmp_path: Path) -> None:
    when = ReadCondition(Call("=", (Field(("note",)), Literal("d"))))
    of = by(
        tmp_path,
        "json",
        {"take": ["game", "pin"]},
        upsert=Upsert(("pin",), deletes=Deleting("note = 'd'")),
        conditions={"note = 'd'": when},
    )
    report = demuxed(
        of, sent("json", {"game": "golf", "pin": 1, "note": "c"}, {"game": "golf", "pin": 1, "note": "d"})
    )
    assert golf(of, report) == [{"game": "golf", "pin": 1}]
    (memory,) = {written.file.table for written in report.files.written if written.remembers}
    assert [row["pin"] for row in rows_of(of, report, memory)] == [1]


def test_half_a_character_in_a_fields_name_ends_no_run(tmp_path: Path) -> None:
    of = by(tmp_path, "json", HIDING, inferred_final=True)
    report = demuxed(
        of, numbered([b'{"game":"golf","\\ud800":1,"email":{"\\ud800":2},"level":{"\\ud800":3}}'])
    )
    (row,) = golf(of, report)
    assert row["_rescued_data"] == '{"\\ud800":1,"stage":{"\\ud800":3}}'
