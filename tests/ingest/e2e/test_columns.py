"""Tables whose rule has columns otherwise than records: what comes into them, what evolution sees, and what is found nowhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from tests.ingest.avro_records import GAME, event, one, sent_as
from tests.ingest.e2e.handmade import (
    Schema,
    assert_each_record_in_one_place,
    header,
    quarantined,
    reasons,
    registered,
    registered_beside,
)
from tests.ingest.e2e.keyed import rows_of
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.reshaping.test_shape import WORD, digest
from tests.ingest.worker.test_columns import AVRO, JSON_SCHEMA, PROTO

from distributary.errors import BudgetSpent, CheckpointMismatch, CommitImpossible
from distributary.ingest.plan import plan
from distributary.registry.base import Schema as Registered

pytestmark = [pytest.mark.spark, pytest.mark.stack]

V1 = """
syntax = "proto3";
message Event {
  message Person { string email = 1; string name = 2; }
  string game = 1;
  optional string email = 2;
  int32 level = 3;
  Person person = 4;
}
"""
V2 = V1.replace("Person person = 4;", "Person person = 4;\n  string mood = 5;\n  string phone = 6;")
V3 = V2.replace("string phone = 6;", "string phone = 6;\n  string stage = 7;")
# No registry would take it for the next version.
WITHOUT = V2.replace("optional string email = 2;", "reserved 2;").replace("string mood = 5;", "reserved 5;")


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment has the secret that settings take from there."""
    monkeypatch.setenv("HASH_SECRET", WORD)


def ruled(kit: PipelineKit, *rules: dict[str, Any], **more: Any) -> PipelineKit:
    """The pipeline with these rules' columns, of the golf's table and others."""
    return kit.configured(tables=list(rules), **more)


def hashes(*fields: str) -> dict[str, Any]:
    return {"fields": list(fields), "secret": "${HASH_SECRET}"}


def golf(kit: PipelineKit) -> list[dict[str, Any]]:
    rows = rows_of(kit, kit.folder_of("golf"))
    order = sorted(rows, key=lambda row: (row["kafka_partition"], row["kafka_offset"]))
    return [
        {k: v for k, v in row.items() if not k.startswith("kafka_") and k != "schema_id"} for row in order
    ]


def changed(kit: PipelineKit) -> list[tuple[str, str, str]]:
    rows = kit.rows("ledger_changes").to_pylist()
    return sorted({(row["column"], row["kind"], row["decision"]) for row in rows})


# Lighter: test_what_is_hidden_is_found_nowhere_under_the_root hashes, and tests/ingest/reshaping has each rule.
@pytest.mark.heavy
def test_tables_know_records_by_the_columns_of_their_rule(kit: PipelineKit) -> None:
    first = registered(kit, V1)
    columns = {
        "leave": ["person.email", "phone"],
        "rename": {"level": "stage"},
        "hash": hashes("email"),
        "constants": {"region": "eu"},
    }
    ruled(kit, {"match": "golf", "columns": columns})
    person = {"email": "ann@y.org", "name": "Ann"}
    kit.send(
        [first.value(game=game, email="ann@x.org", level=3, person=person) for game in ("golf", "chess")]
    )
    kit.run()
    row = {
        "game": "golf",
        "email": digest("ann@x.org"),
        "stage": 3,
        "person": {"name": "Ann"},
        "region": "eu",
    }
    assert golf(kit) == [row]
    assert kit.rows(kit.folder_of("chess")).column("level").to_pylist() == [3]
    # What is left out is no column that comes; what comes does so by the rule.
    second = Schema(kit.register(V2), V2)
    (step,) = [one for one in plan(kit.settings).steps if one.tables == (kit.folder_of("golf"),)]
    assert [(one.kind, one.column, one.action) for one in step.verdicts] == [("added", "mood", "add")]
    kit.send([second.value(game="golf", level=4, mood="up", phone="+49"), first.value(game="golf", level=5)])
    kit.run()
    nothing = {"email": None, "person": None}
    assert golf(kit)[1:] == [
        {**row, **nothing, "stage": 4, "mood": "up"},
        {**row, **nothing, "stage": 5, "mood": None},
    ]
    assert ("phone", "added", "add") not in changed(kit)
    assert ("mood", "added", "add") in changed(kit)
    assert_each_record_in_one_place(kit)


def test_a_schema_that_cannot_have_the_columns_is_told_ahead_and_its_records_wait(kit: PipelineKit) -> None:
    first = registered(kit, V2)
    ruled(
        kit, {"match": "golf", "columns": {"rename": {"level": "stage", "ghost": "x"}, "quarantine": "drop"}}
    )
    kit.send([first.value(game="golf", level=3)])
    kit.run()
    third = Schema(kit.register(V3), V3)
    found = plan(kit.settings)
    shaped = found.rules[0].shaped
    assert shaped is not None
    assert found.open
    assert (shaped.lacking, shaped.refused) == (
        ("ghost",),
        ("a field is to be called stage, and there is one already",),
    )
    (step,) = found.steps
    assert [(one.action, one.setting) for one in step.verdicts] == [("quarantine", "tables[0].columns")]
    kit.send([third.value(game="golf", level=4, stage="late"), third.value(game="chess", level=4)])
    kit.run()
    assert [row["stage"] for row in golf(kit)] == [3]
    (row,) = quarantined(kit)
    assert (row["reason"], row["entity"], row["value"], row["kafka_key"]) == ("columns", "golf", None, None)
    assert kit.rows(kit.folder_of("chess")).column("level").to_pylist() == [4]
    assert_each_record_in_one_place(kit)


# Lighter: test_a_schema_that_cannot_have_the_columns_is_told_ahead_and_its_records_wait; what a rule makes of columns is in tests/ingest/reshaping.
@pytest.mark.heavy
def test_policies_see_the_columns_of_the_rule(kit: PipelineKit) -> None:
    first = registered(kit, V2)
    rule = {
        "match": "golf",
        "columns": {"leave": ["email", "mood"]},
        "policies": {"dropped_field": "quarantine"},
    }
    ruled(kit, rule, {"match": "*", "policies": {"dropped_field": "quarantine"}})
    kit.send([first.value(game=game, email="x", mood="y") for game in ("golf", "chess")])
    kit.run()
    third = registered_beside(kit, WITHOUT)
    kit.send([third.value(game=game, level=1) for game in ("golf", "chess")])
    kit.run()
    assert [row["level"] for row in golf(kit)] == [0, 1]
    assert [(row["reason"], row["entity"]) for row in quarantined(kit)] == [("schema_change", "chess")]


# Lighter: test_fail_stops_before_anything_of_the_batch_is_visible (test_evolution.py) stops; what is left out is found nowhere below.
@pytest.mark.heavy
def test_a_run_that_stops_for_new_columns_stops_for_none_that_is_left_out(kit: PipelineKit) -> None:
    first = registered(kit, V1)
    ruled(kit, {"match": "*", "columns": {"leave": ["mood", "phone"]}}, decode={"evolution": "fail"})
    kit.send([first.value(game="golf", level=1)])
    kit.run()
    second = Schema(kit.register(V2), V2)
    kit.send([second.value(game="golf", level=2, mood="up")])
    kit.run()
    assert [row["level"] for row in golf(kit)] == [1, 2]


def test_headers_and_the_kind_of_time_become_columns(kit: PipelineKit) -> None:
    kit.configured(decode={"format": "json"}, route={"field": "game"}, source={"headers": False})
    columns = {
        "take": ["game"],
        "headers": {"trace": "X-Trace", "none": "Y"},
        "timestamp_type": "kafka_timestamp_type",
    }
    ruled(kit, {"match": "golf", "columns": columns})
    producer = Producer({"bootstrap.servers": kit.bootstrap_servers})
    twice: list[tuple[str, str | bytes | None]] = [
        ("X-Trace", b"old"),
        ("X-Trace", "né".encode()),
        ("Z", b"z"),
    ]
    producer.produce(kit.topic, b'{"game":"golf","n":1}', key=b"k", partition=0, headers=twice)
    producer.produce(kit.topic, b'{"game":"golf"}', key=b"k", partition=0)
    assert producer.flush(60) == 0
    kit.run()
    rows = kit.rows(kit.folder_of("golf")).to_pylist()
    found = sorted(rows, key=lambda row: int(row["kafka_offset"]))
    assert [(row["trace"], row["none"], row["kafka_timestamp_type"]) for row in found] == [
        ("né", None, "create_time"),
        (None, None, "create_time"),
    ]
    assert all("n" not in row for row in found)


# Lighter: test_what_is_hidden_is_found_nowhere_under_the_root hashes, and tests/ingest/reshaping has each rule.
@pytest.mark.heavy
def test_one_row_a_key_by_a_hash(kit: PipelineKit, monkeypatch: pytest.MonkeyPatch) -> None:
    kit.configured(decode={"format": "json"}, route={"field": "game"})
    columns = {"hash": hashes("email"), "rename": {"email": "who", "at": "seen"}}
    ruled(
        kit,
        {"match": "golf", "columns": columns, "mode": "upsert", "keys": ["who"], "sequence_by": ["seen"]},
    )
    for at in (1, 3, 2):
        kit.send([json.dumps({"game": "golf", "email": mail, "at": at}).encode() for mail in ("a@x", "b@x")])
        kit.run()
    assert sorted((row["who"], row["seen"]) for row in golf(kit)) == sorted(
        (digest(m), 3) for m in ("a@x", "b@x")
    )
    # By another secret each would have a second row.
    monkeypatch.setenv("HASH_SECRET", f"another {WORD}")
    kit.send([json.dumps({"game": "golf", "email": "a@x", "at": 4}).encode()])
    with pytest.raises((BudgetSpent, CommitImpossible), match="hashes with another secret"):
        kit.run()
    monkeypatch.setenv("HASH_SECRET", WORD)
    kit.run()
    assert sorted(row["seen"] for row in golf(kit)) == [3, 4]
    assert_each_record_in_one_place(kit)


def test_a_tombstone_takes_away_the_row_of_a_key_of_which_only_the_hash_is_known(kit: PipelineKit) -> None:
    kit.configured(decode={"format": "json"}, route={"by": "topic", "field": None, "table": "{entity}"})
    columns = {"key": "hash", "hash": hashes("email")}
    deletes = {"tombstones": "delete"}
    ruled(kit, {"match": "*", "columns": columns, "mode": "upsert", "keys": "kafka_key", "deletes": deletes})
    for key in (b"ann", b"bob"):
        kit.send([b'{"email":"x","n":1}'], key=key)
    kit.run()
    kit.send([b'{"n":2}'], key=b"bob")
    kit.send([None], key=b"ann")
    kit.run()
    rows = rows_of(kit, kit.lake.table_of(kit.topic))
    assert [(bytes(row["kafka_key"]), row["n"]) for row in rows] == [(digest("bob").encode(), 2)]
    assert_each_record_in_one_place(kit)


def test_lost_files_are_written_again_as_they_were_whatever_the_rules_say_by_then(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    kit.configured(decode={"format": "json"}, route={"field": "game"})
    ruled(kit, {"match": "golf", "columns": {"hash": hashes("email"), "constants": {"region": "eu"}}})
    kit.send([json.dumps({"game": "golf", "email": "ann@x.org"}).encode()])
    fail_at("after_manifest")
    with pytest.raises(BudgetSpent, match="failpoint"):
        kit.run()
    fail_at()
    manifest = kit.manifests.last()
    assert manifest is not None
    table = manifest.table(kit.folder_of("golf"))
    kit.lake.root.delete([f"{table.folder}/{file.name}" for file in table.files])
    # Without the secret nobody can make the same hashes.
    ruled(kit, {"match": "golf", "columns": {"constants": {"region": "us"}}})
    with pytest.raises((BudgetSpent, CheckpointMismatch), match="secret"):
        kit.run()
    ruled(kit, {"match": "golf", "columns": {"hash": hashes("game"), "constants": {"region": "us"}}})
    kit.run()
    assert golf(kit) == [{"game": "golf", "email": digest("ann@x.org"), "region": "eu"}]
    assert_each_record_in_one_place(kit)


HIDDEN = ["ann@sekret.org", "inner@sekret.org", "list@sekret.org", "471108151"]
RECORD = {
    "game": "golf",
    "email": HIDDEN[0],
    "pin": int(HIDDEN[3]),
    "person": {"email": HIDDEN[1], "name": "Ann"},
    "people": [{"email": HIDDEN[2], "name": "Bob"}],
    "note": "12",
    "level": 3,
}


def of_format(kit: PipelineKit, kind: str) -> Callable[[dict[str, Any]], bytes]:
    """How a record is made, once its schema is registered where there is one."""
    if kind == "protobuf":
        message = Schema(kit.register(PROTO), PROTO)
        return lambda fields: message.value(**fields)
    if kind == "avro":
        avro = Registered(kit.register(AVRO.text, "AVRO"), "AVRO", AVRO.text)
        return lambda fields: sent_as(avro, **fields)
    if kind == "jsonschema":
        begin = header(kit.register(JSON_SCHEMA, "JSON"))[:-1]
        return lambda fields: begin + json.dumps(fields).encode()
    return lambda fields: json.dumps(fields).encode()


# Of each format without Spark: tests/ingest/worker/test_columns_hidden.py. With and without a registry, by an engine each, here.
@pytest.mark.folder
@pytest.mark.parametrize(
    ("kind", "engine"),
    [
        ("json", "arrow"),
        ("avro", "spark"),
        *(
            pytest.param(kind, engine, marks=pytest.mark.heavy)
            for kind, engine in (
                *((kind, "arrow") for kind in ("protobuf", "avro", "jsonschema", "auto")),
                ("json", "spark"),
            )
        ),
    ],
)
def test_what_is_hidden_is_found_nowhere_under_the_root(kit: PipelineKit, kind: str, engine: str) -> None:
    kit.configured(decode={"format": kind, "engine": engine}, route={"field": "game"})
    columns = {
        "leave": ["person.email", "extra"],
        "hash": hashes("email"),
        "mask": {"pin": {"keep_last": 3}, "people.email": "hidden"},
        "cast": {"note": "int"},
    }
    ruled(kit, {"match": "golf", "columns": columns}, policies={"incompatible_type": "rescue"})
    value = of_format(kit, kind)
    texts = kind in {"json", "jsonschema", "auto"}
    records = [RECORD, {**RECORD, "note": "x"}, {**RECORD, "game": "golf"}]
    odd = [{**RECORD, "email": [HIDDEN[0]], "extra": HIDDEN[1], "pin": {"a": HIDDEN[3]}}] if texts else []
    kit.send([value(fields) for fields in (*records, *odd)])
    whole = value(RECORD)
    kit.send([whole[:-2], b"\0\x77\0\0\0" + whole[5:]])
    kit.run()
    assert sum(kit.rows(kit.folder_of("golf")).column("level").to_pylist()) >= 6
    assert reasons(kit)["columns"] == 1
    found = everything_under(kit.root)
    assert not [raw for raw in HIDDEN if raw in found]
    assert digest(HIDDEN[0]) in found


@pytest.mark.folder
def test_what_is_hidden_is_seen_by_no_other_name_that_its_producer_gives_it(kit: PipelineKit) -> None:
    kit.configured(decode={"format": "avro"}, route={"field": "game"}, limits={"batch_rows": 2})
    rule = {"match": "*", "columns": {"leave": ["email"]}}
    ruled(kit, rule)
    first, second = (
        Registered(kit.register(said.text, "AVRO"), "AVRO", said.text)
        for said in (
            event(0, GAME, one("string", "email")),
            event(0, GAME, one("string", "mail", aliases=["email"])),
        )
    )
    kit.send([sent_as(first, game="golf", email=HIDDEN[0])])
    kit.run()
    (step,) = plan(kit.settings).steps
    assert [(told.action, told.setting) for told in step.verdicts] == [("quarantine", "tables[0].columns")]
    # From the second batch on a run knows what tables do not take, those among them that are not there.
    kit.send([sent_as(second, game=game, mail=HIDDEN[0]) for game in ("golf", "chess")] * 2)
    kit.run()
    assert sorted((row["reason"], row["entity"]) for row in quarantined(kit)) == [
        *[("columns", "chess")] * 2,
        *[("columns", "golf")] * 2,
    ]
    assert HIDDEN[0] not in everything_under(kit.root)
    ruled(kit, {**rule, "columns": {"leave": ["email"], "rename": {"mail": "known"}}})
    kit.send([sent_as(second, game=game, mail="x") for game in ("golf", "chess")])
    kit.run()
    assert [row["known"] for row in golf(kit)] == [None, "x"]
    assert kit.rows(kit.folder_of("chess")).column("known").to_pylist() == ["x"]
    assert_each_record_in_one_place(kit)


def everything_under(root: Path) -> str:
    """All that is in files of a folder, as text: bytes as they are, and what is in those of Parquet."""
    found = []
    for file in sorted(root.rglob("*")):
        if file.is_file():
            found.append(file.read_bytes().decode("latin-1"))
        if file.suffix == ".parquet":
            read = pq.ParquetFile(file)
            found += [str(read.read().to_pylist()), str(read.metadata.to_dict())]
    return "\n".join(found)


# Lighter: test_rows_land_in_their_partitions_and_everybody_reads_them (test_partitions.py); days are made in tests/ingest/reshaping.
@pytest.mark.heavy
def test_a_table_is_in_partitions_by_the_day_of_a_field(kit: PipelineKit) -> None:
    rule = {"match": "golf", "columns": {"days": {"day": "made.at"}}, "partition_by": ["day"]}
    kit.configured(decode={"format": "json"}, route={"field": "game", "table": "{entity}"}, tables=[rule])
    times = ["2026-01-02T23:30:00-02:00", "2026-01-03T10:00:00Z", "soon", None, "2026-01-02T00:00:00Z"]
    kit.send(
        [json.dumps({"game": "golf", "made": {"at": at, "n": n}}).encode() for n, at in enumerate(times)]
    )
    kit.run()
    assert kit.delta("golf").metadata().partition_columns == ["day"]
    found = {row["made"]["n"]: str(row["day"]) for row in rows_of(kit, "golf")}
    assert found == {0: "2026-01-03", 1: "2026-01-03", 3: "None", 4: "2026-01-02"}
    assert reasons(kit) == {"columns": 1}
    assert "no schema" not in str(plan(kit.settings))
