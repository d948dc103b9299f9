"""Changes as Debezium sends them, on the real broker: the tables are what the database is, whatever became of the runs."""

from __future__ import annotations

import json
import random
import signal
import struct
from collections.abc import Callable, Iterable
from datetime import timezone
from typing import Any

import pytest
from tests.debezium import Change, Database
from tests.debezium_formats import COLUMNS, FORMATS
from tests.ingest.e2e.handmade import header, reasons
from tests.ingest.e2e.keyed import counted, rows_of
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.planted import said

from distributary.errors import PolicyStopped
from distributary.ingest.erasure.erase import Wanted, erase
from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack]

TABLES = ("customers", "orders")


def capturing(kit: PipelineKit, rule: dict[str, Any] | None = None, **more: Any) -> PipelineKit:
    """The pipeline for changes, with one rule for all tables."""
    given = {"match": "*", "mode": "upsert", "keys": "kafka_key"} if rule is None else rule
    decode = {"format": "json", "envelope": "debezium", "evolution": "inline", **more.pop("decode", {})}
    return kit.configured(decode=decode, route={"field": None, "table": "{entity}"}, tables=[given], **more)


def send(kit: PipelineKit, changes: Iterable[Change], value: Callable[[Any], bytes] | None = None) -> None:
    """Send changes, as JSON or as `value` makes them."""
    with kit.together():
        for change in changes:
            body = change.json if value is None or change.value is None else value(change.value)
            kit.send([body], key=change.key_bytes, partition=change.row % 2)


def changed(database: Database, seed: int, count: int = 30) -> list[Change]:
    """So many changes of a few rows, of both tables."""
    chosen, found = random.Random(seed), list[Change]()
    for _ in range(count):
        table = chosen.choice(TABLES)
        rows, drawn = database.tables.setdefault(table, {}), chosen.random()
        id_ = chosen.randrange(8)
        if id_ not in rows or drawn < 0.5:
            found += database.put(table, id_, name=chosen.choice("abcde"), score=chosen.randrange(100))
        elif drawn < 0.8:
            found += database.delete(table, id_)
        else:
            # It may not take a key that is there.
            found += database.move(table, id_, chosen.randrange(100, 200))
    return found


def held(kit: PipelineKit, table: str) -> dict[int, dict[str, Any]]:
    """The rows as the database would have them."""
    rows = rows_of(kit, table)
    found = {row["id"]: {name: row[name] for name in ("id", "name", "score")} for row in rows}
    assert len(found) == len(rows), "a key has two rows"
    return found


def assert_current(kit: PipelineKit, database: Database) -> None:
    for table in TABLES:
        assert held(kit, table) == database.tables[table]
    found = verify(kit.settings).differences
    assert not found, "\n".join(map(str, found))


# Lighter: test_errors_at_each_step_bring_each_change_once has changes of each kind.
@pytest.mark.heavy
def test_tables_are_what_the_database_is_however_the_stream_is_cut(kit: PipelineKit) -> None:
    database = Database()
    capturing(kit, limits={"batch_rows": 25})
    first = changed(database, 1)
    send(kit, first)
    kit.run()
    assert_current(kit, database)
    snapshot = [change for table in TABLES for change in database.snapshot(table)]
    second = changed(database, 2)
    send(kit, [*snapshot, *second])
    kit.run()
    assert_current(kit, database)
    # A connector that starts over sends what it is not sure of once more.
    send(kit, second)
    kit.run()
    assert_current(kit, database)
    every = [*first, *snapshot, *second, *second]
    told = counted(kit)
    assert told["read"] == len(every)
    assert told["dropped"] == sum(change.value is None for change in every)
    assert told["quarantined"] == 0
    assert min(told["updated"], told["deleted"], told["inserted"], told["older"]) > 0


def test_records_that_are_no_rows_are_counted_and_those_that_cannot_be_are_kept(kit: PipelineKit) -> None:
    database = Database()
    capturing(kit)
    (change,) = database.put("customers", 1, name="a", score=1)
    assert change.value is not None
    others: list[dict[str, Any]] = [
        {"ts_ms": 1_700_000_000_000},
        {"status": "BEGIN", "id": "571", "ts_ms": 1, "event_count": None, "data_collections": None},
        {"source": change.value["source"], "ddl": "ALTER TABLE customers", "tableChanges": []},
        {**change.value, "op": "m", "after": None, "message": {"prefix": "p", "content": "YQ=="}},
        {**change.value, "op": "t", "after": None},
        {**change.value, "op": "u", "after": None},
        {"id": 1, "name": "it stands in no envelope"},
    ]
    send(kit, [change])
    kit.send([json.dumps(one).encode() for one in others])
    kit.run()
    assert held(kit, "customers") == database.tables["customers"]
    (row,) = kit.rows("ledger_batches").to_pylist()
    left_out = {"heartbeat": 1, "transaction": 1, "schema_record": 1, "message": 1}
    refused = {"truncate": 1, "no_row": 1, "no_envelope": 1}
    assert json.loads(row["rows_by_reason"]) == {**left_out, **refused}
    assert reasons(kit) == refused


POINTS = ("after_manifest", "amid_merge", "between_commits", "before_ledger")


def test_errors_at_each_step_bring_each_change_once(kit: PipelineKit, fail_at: Callable[..., None]) -> None:
    database = Database()
    capturing(kit, supervisor={"failures": {"max": len(POINTS), "first_wait_seconds": 0}})
    send(kit, changed(database, 3))
    kit.run()
    send(kit, changed(database, 4))
    fail_at(*(f"{point}:3" for point in POINTS))
    assert kit.run().summary.failures > 0
    assert_current(kit, database)


# Runs that are killed over rows that no database sent are in `make test`.
@pytest.mark.heavy
def test_a_killed_run_is_brought_to_its_end(kit: PipelineKit) -> None:
    database = Database()
    capturing(kit, {"match": "*", "mode": "upsert", "keys": ["id"]}, limits={"commit_threads": 1})
    send(kit, changed(database, 5))
    kit.run()
    send(kit, changed(database, 6))
    killed = kit.run_apart("amid_merge:3=kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    kit.run()
    assert_current(kit, database)


# Lighter: test_an_inferred_schema_is_that_of_the_rows_and_grows_with_them (tests/codecs/envelope/test_codec.py), and a run in test_formats.py.
@pytest.mark.heavy
def test_a_column_that_is_added_at_the_source_is_added_here(kit: PipelineKit) -> None:
    database = Database()
    capturing(kit)
    send(kit, database.put("customers", 1, name="a", score=1))
    kit.run()
    send(kit, database.put("customers", 2, name="b", score=2, city="Ulm"))
    kit.run()
    assert {row["id"]: row["city"] for row in rows_of(kit, "customers")} == {1: None, 2: "Ulm"}
    columns = set(rows_of(kit, "customers")[0])
    assert {"id", "name", "score", "city", "__op", "__source_position"} <= columns
    assert not columns & {"before", "after", "source", "op", "__source_table"}


def test_each_change_is_a_row_of_a_table_that_is_appended_to(kit: PipelineKit) -> None:
    database = Database(full=True)
    keep = ["op", "before", "source_ts", "source_table"]
    capturing(kit, {"match": "*", "mode": "append"}, decode={"envelope": {"kind": "debezium", "keep": keep}})
    send(kit, database.put("customers", 1, name="a", score=1))
    send(kit, database.put("customers", 1, name="b", score=1))
    send(kit, database.delete("customers", 1))
    kit.run()
    rows = sorted(rows_of(kit, "customers"), key=lambda row: row["__source_position"])
    assert [row["__op"] for row in rows] == ["c", "u", "d"]
    assert [row["name"] for row in rows] == ["a", "b", "b"]
    assert [row["__before"] and json.loads(row["__before"])["name"] for row in rows] == [None, "a", "b"]
    assert {row["__source_table"] for row in rows} == {"customers"}

    # The update that made the row another one's keeps what it was before, and so does one that comes later.
    done = erase(kit.settings, Wanted("name = 'a'"))
    assert {one.table: one.rows for one in done.tables if one.rows} == {"customers": 2}
    assert [row["__op"] for row in rows_of(kit, "customers")] == ["d"]
    capturing(
        kit,
        {"match": "*", "mode": "append"},
        decode={"envelope": {"kind": "debezium", "keep": keep}},
        erased=["name = 'a'"],
    )
    send(kit, database.put("customers", 2, name="a", score=1))
    send(kit, database.put("customers", 2, name="c", score=1))
    send(kit, database.delete("customers", 2))
    kit.run()
    assert sorted(row["name"] for row in rows_of(kit, "customers")) == ["b", "c"]
    assert '"a"' not in str(rows_of(kit, "customers"))


def test_a_table_that_was_emptied_stops_the_run_where_that_is_asked_for(kit: PipelineKit) -> None:
    database = Database()
    capturing(kit, decode={"envelope": {"kind": "debezium", "truncate": "stop"}})
    (change,) = database.put("customers", 1, name="a", score=1)
    assert change.value is not None
    send(kit, [change])
    kit.run()
    kit.send([json.dumps({**change.value, "op": "t", "after": None}).encode()])
    with pytest.raises(PolicyStopped, match=r"/0/\d+ says that its table was emptied"):
        kit.run()
    capturing(kit, decode={"envelope": {"kind": "debezium", "truncate": "ignore"}})
    kit.run()
    assert held(kit, "customers") == database.tables["customers"]
    assert reasons(kit) == {}


# The way through the pipeline is the same for each; what their readers give is in `make test` for all of them.
# Lighter: test_errors_at_each_step_bring_each_change_once has changes of each kind.
@pytest.mark.heavy
@pytest.mark.parametrize(
    "format_", ["avro", *(pytest.param(one, marks=pytest.mark.heavy) for one in ("jsonschema", "protobuf"))]
)
def test_tables_are_what_the_database_is_by_a_registered_schema_that_grows(
    kit: PipelineKit, format_: str
) -> None:
    form = FORMATS[format_]
    database = Database("mysql")
    capturing(kit, decode={"format": format_})

    def registered(**columns: str) -> Callable[[Any], bytes]:
        text = form.schema("mysql", {**COLUMNS, **columns}).text
        schema_id = kit.register(text, form.type)
        before = header(schema_id, form.path) if form.path else struct.pack(">bI", 0, schema_id)
        return lambda value: before + form.body(text, value)

    send(kit, changed(database, 7), registered())
    kit.run()
    assert_current(kit, database)
    first = changed(database, 8)
    send(kit, [*first, *database.put("orders", 3, name="b", score=2, city="Ulm")], registered(city="string"))
    kit.run()
    assert held(kit, "customers") == database.tables["customers"]
    cities = {row["id"]: row["city"] for row in rows_of(kit, "orders")}
    assert cities == {id_: row.get("city") for id_, row in database.tables["orders"].items()}
    assert cities[3] == "Ulm"
    assert not reasons(kit)
    answered, output = said(kit, "plan", str(kit.settings_file))
    assert answered == 0, output
    assert "after" not in output


# Lighter: tests/ingest/merge/test_changes_of_a_database.py has those of each connector, test_errors_at_each_step_bring_each_change_once a run.
@pytest.mark.heavy
def test_documents_of_mongodb_are_rows_by_their_records_own_key(kit: PipelineKit) -> None:
    database = Database("mongodb")
    capturing(kit)
    send(kit, changed(database, 9))
    kit.run()
    assert_current(kit, database)


# Lighter: test_each_table_has_its_own_types_and_only_one_grows infers a schema an entity, and all others here have the envelope.
@pytest.mark.heavy
def test_each_tables_rows_have_a_schema_of_their_own(kit: PipelineKit) -> None:
    database = Database()
    capturing(kit, decode={"schema_per": "entity"})
    send(kit, database.put("customers", 1, name="a", score=1))
    send(kit, database.put("orders", 1, name=7, score="much"))
    kit.run()
    send(kit, database.delete("orders", 1))
    send(kit, database.put("orders", 2, name=8, score="little", at=5))
    kit.run()
    assert held(kit, "customers") == database.tables["customers"]
    assert [(row["id"], row["name"], row["score"], row["at"]) for row in rows_of(kit, "orders")] == [
        (2, 8, "little", 5)
    ]


# Lighter: test_errors_at_each_step_bring_each_change_once has changes of each kind.
@pytest.mark.heavy
def test_tables_tell_what_the_database_was_when(kit: PipelineKit) -> None:
    database = Database()
    rule = {"match": "*", "mode": "history", "keys": "kafka_key"}
    envelope = {"kind": "debezium", "keep": ["op", "source_ts"]}
    capturing(kit, rule, decode={"envelope": envelope}, limits={"batch_rows": 25})
    were = dict[Any, dict[str, dict[int, dict[str, Any]]]]()
    for seed in range(3):
        changes = changed(database, seed, 12)
        send(kit, changes)
        kit.run()
        moment = max(change.value["source"]["ts_ms"] for change in changes if change.value is not None)
        were[moment] = {
            table: {id_: dict(row) for id_, row in rows.items()} for table, rows in database.tables.items()
        }
    for table in TABLES:
        rows = rows_of(kit, table)
        for moment, tables in were.items():
            at = {
                row["id"]: {name: row[name] for name in ("id", "name", "score")}
                for row in rows
                if true_at(row, moment)
            }
            assert at == tables[table]
        assert {row["id"] for row in rows if row["is_current"]} == database.tables[table].keys()
    found = verify(kit.settings).differences
    assert not found, "\n".join(map(str, found))


def true_at(row: dict[str, Any], moment: int) -> bool:
    since, until = (
        None if at is None else at.replace(tzinfo=timezone.utc).timestamp() * 1000
        for at in (row["valid_from"], row["valid_to"])
    )
    assert since is not None
    return bool(since <= moment and (until is None or until > moment))
