"""`distributary plan` on a real registry, real Delta tables and the checkpoint that real batches left."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from tests.ingest.avro_records import GAME, event, one, sent_as
from tests.ingest.batches import decided, known, settled_by
from tests.ingest.kafka_records import TOPIC, numbered
from tests.ingest.pipelines import checkpoint, keep, make_table, settings

from distributary import cli
from distributary.codecs.base import load_codec
from distributary.ingest.checkpoint.folder import PINS
from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.columns.growth import extend
from distributary.ingest.columns.safe_names import CHANGES_TABLE
from distributary.ingest.pins import PinnedRecord, RecordKey
from distributary.ingest.schemas.pinned import PinsStore
from distributary.producer_sim.stack.local import LocalStack
from distributary.registry.base import Schema
from distributary.registry.confluent.options import RegistryOptions
from distributary.registry.confluent.registry import ConfluentRegistry

pytestmark = pytest.mark.stack

EMPTY, OTHER = pa.schema([]), pa.schema([("gone", pa.int64())])
NULLABLE: dict[str, Any] = {"default": None}
V1 = event(0, GAME, one("int", "level"))
V2 = event(0, GAME, one("int", "level"), one(["null", "string"], "season", **NULLABLE))
V3 = event(0, GAME, one("long", "level"), one(["null", "string"], "season", **NULLABLE))


@dataclass
class World:
    """A pipeline's files, and a registry to register its schemas in."""

    folder: Path
    registry: ConfluentRegistry
    url: str
    topic: str = field(default_factory=lambda: f"plan-{uuid4().hex[:8]}")
    last: Manifest | None = None
    pinned: dict[RecordKey, Schema] = field(default_factory=dict)

    def file(self, **groups: Any) -> Path:
        """The settings, with these groups besides."""
        given = {
            "name": "games",
            "source": {"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "topics": [self.topic]},
            "registry": {"url": self.url, "retry_seconds": 0.5},
            "decode": {"format": "avro"},
            "route": {"field": "game", "table": "{entity}"},
            "sink": {"root": "./lake"},
            "checkpoint": "./checkpoint",
        }
        for name, group in groups.items():
            given[name] = {**given.get(name, {}), **group}  # type: ignore[dict-item]
        path = self.folder / "games.yaml"
        path.write_text(yaml.safe_dump(given), encoding="utf-8")
        return path

    def register(self, schema: Schema, subject: str = "") -> Schema:
        """The schema with the id that it got."""
        schema_id = self.registry.register(subject or f"{self.topic}-value", schema.text, schema.type)
        return Schema(schema_id, schema.type, schema.text)

    def ingest(self, *sent: tuple[Schema, dict[str, Any]]) -> None:
        """A batch of these records, its tables made and its manifest written."""
        batch_id = self.last.batch_id + 1 if self.last else 0
        chosen = settings(
            self.folder, route={"field": "game", "table": "{entity}"}, decode={"format": "avro"}
        )
        # A checkpoint knows every schema that it ever used.
        self.pinned |= {(schema.id, ()): schema for schema, _ in sent}
        records = tuple(PinnedRecord(key, schema) for key, schema in self.pinned.items())
        batch = settled_by(
            chosen,
            self.folder,
            numbered([sent_as(schema, **fields) for schema, fields in sent]),
            id=batch_id,
            codec="avro",
            records=records,
            route=chosen.route,
            known=known(self.folder, self.last.entities) if self.last else {},
            met=self.last.met if self.last else {},
        )
        offsets = {TOPIC: {0: (0, len(sent))}}
        self.last = decided(self.folder, batch, offsets, self.last.entities if self.last else {}, chosen)
        keep(checkpoint(self.folder), self.last)
        for record in records:
            PinsStore(checkpoint(self.folder)).write(record.key, record.schema)

    def ledger(self) -> set[tuple[Any, ...]]:
        """The changes that the last batch told, but for the column of rescued values, which comes by itself."""
        assert self.last is not None
        (files,) = [table.files for table in self.last.tables if table.folder == CHANGES_TABLE]
        rows = [
            row
            for one_ in files
            for row in pq.ParquetFile(self.folder / "lake" / CHANGES_TABLE / one_.name).read().to_pylist()
        ]
        names = ("table", "old_schema_id", "schema_id", "kind", "column", "decision")
        return {tuple(row[name] for name in names) for row in rows if row["column"] != "_rescued_data"}

    def schema_file(self, schema: Schema) -> Path:
        """The schema in a file."""
        path = self.folder / "offered.avsc"
        path.write_text(schema.text, encoding="utf-8")
        return path


@pytest.fixture
def world(tmp_path: Path, stack: LocalStack) -> Iterator[World]:
    """No table and no schema yet."""
    options = RegistryOptions(url=stack.registry_url, latest_cache_seconds=0)
    with ConfluentRegistry(options) as registry:
        yield World(tmp_path, registry, stack.registry_url)


NO_SCHEMAS = [
    ("next.avsc", "no schema", "no Avro schema: Expecting value: line 1 column 1"),
    (
        "next.avsc",
        '{"type": "record", "name": "E", "fields": [{"name": "a", "type": "whole"}]}',
        "the type 'whole'",
    ),
    ("next.proto", 'syntax = "proto3";\nmessage {', "schema.proto:2:9"),
    ("next.json", '{"type": "object",', "no JSON (Expecting property name"),
    ("next.json", "[]", "an object"),
]

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """What the command ends with and prints: exit code, standard output, standard error."""

    def command(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(["plan", *map(str, arguments)])
        printed = capsys.readouterr()
        return int(str(ended.value.code)), printed.out, printed.err

    return command


def test_a_kept_schema_that_cannot_be_used_any_more_is_told_and_the_others_are_planned_for(
    world: World, run: Run
) -> None:
    first, second = world.register(V1), world.register(V2)
    world.ingest(
        (first, {"game": "golf", "level": 1}), (second, {"game": "quest", "level": 2, "season": "s"})
    )
    rmtree(world.folder / "checkpoint" / PINS)
    pins = PinsStore(checkpoint(world.folder))
    pins.write((first.id, ()), Schema(first.id, "AVRO", '{"type": "whole"}'))
    pins.write((second.id, ()), second)
    code, out, err = run(world.file())
    assert code == 0
    assert f"schema {first.id} is kept in the checkpoint" in out + err and "to quarantine" in out + err
    (step,) = [one for one in json.loads(run(world.file(), "--json")[1])["steps"] if "quest" in one["tables"]]
    assert step["to_id"] == second.id


def test_a_schema_is_planned_for_from_the_first_one_on(world: World, run: Run) -> None:
    code, out, _ = run(world.file())
    assert (code, f"{world.topic}-value: no schema yet" in out, "all will be created" in out) == (
        0,
        True,
        True,
    )
    first = world.register(V1)
    code, out, err = run(world.file())
    assert (code, err) == (0, "")
    assert "all will be created" in out

    world.ingest((first, {"game": "golf", "level": 1}), (first, {"game": "quest", "level": 2}))
    code, out, _ = run(world.file())
    assert code == 0
    assert f"2 tables (golf, quest): up to date with schema {first.id} (games.Event)" in out

    second = world.register(V2)
    assert run(world.file())[0] == 0
    (step,) = json.loads(run(world.file(), "--json")[1])["steps"]
    assert step == {
        "tables": ["golf", "quest"],
        "subject": f"{world.topic}-value",
        "record": "games.Event",
        "unmet": False,
        "from_id": first.id,
        "to_id": second.id,
        "to_version": 2,
        "decision_needed": False,
        "changes": [
            {
                "class": "added",
                "column": "season",
                "before": "",
                "after": "string",
                "table_type": "string",
                "decision": "add",
                "decision_needed": False,
                "setting": "policies.new_field",
                "detail": "",
            }
        ],
    }
    for groups in ({"policies": {"new_field": "fail"}}, {"decode": {"evolution": "fail"}}):
        assert run(world.file(**groups))[0] == 3

    # One of the tables goes ahead of the other.
    world.ingest((second, {"game": "golf", "level": 1, "season": "s"}))
    third = world.register(V3)
    code, out, _ = run(world.file(), "--json")
    assert code == 3
    told = json.loads(out)
    assert told["decision_needed"] is True
    assert {
        (*step["tables"], step["from_id"]): {
            (c["class"], c["column"], c["decision"]) for c in step["changes"]
        }
        for step in told["steps"]
    } == {
        ("golf", second.id): {("widened", "level", "rescue")},
        ("quest", first.id): {("widened", "level", "rescue"), ("added", "season", "add")},
    }
    assert told["subjects"][0] == {
        "subject": f"{world.topic}-value",
        "version": 3,
        "id": third.id,
        "type": "AVRO",
        "offered": False,
        "level": "BACKWARD",
        "accepted": None,
        "messages": [],
    }
    code, out, err = run(world.file())
    assert code == 3
    assert (
        "  ! widened            level int -> bigint: values without a place go to the rescued column" in out
    )
    # How a version came to be registered, the registry does not tell.
    assert " ".join(err.split()) == "error: 2 changes to 2 tables to decide about"

    # What was told is what comes of it, and then there is nothing to decide any more.
    wide = {"level": 2**40, "season": "s"}
    world.ingest(*((third, {"game": game, **wide}) for game in ("golf", "quest")))
    assert world.ledger() == {
        (table, step["from_id"], step["to_id"], change["class"], change["column"], change["decision"])
        for step in told["steps"]
        for table in step["tables"]
        for change in step["changes"]
    }
    assert run(world.file())[0] == 0


def test_a_schema_is_planned_for_before_it_is_registered(world: World, run: Run) -> None:
    first = world.register(V1)
    world.ingest((first, {"game": "golf", "level": 1}))
    before = world.registry.versions(f"{world.topic}-value")
    code, out, _ = run(world.file(), "--schema", world.schema_file(V2))
    assert (code, "the schema offered, AVRO, compatibility BACKWARD; the registry accepts it" in out) == (
        0,
        True,
    )
    assert f"1 table (golf): schema {first.id} -> the schema offered (games.Event)" in out

    unrouted = event(0, one("int", "level"), one("string", "title", default="", aliases=["game"]))
    code, out, _ = run(world.file(), "--schema", world.schema_file(unrouted), "--json")
    (step,) = json.loads(out)["steps"]
    change = step["changes"][0]
    assert (code, step["to_id"]) == (3, None)
    assert (change["class"], change["decision"], change["setting"]) == (
        "renamed",
        "quarantine",
        "policies.no_entity",
    )

    code, out, err = run(world.file(), "--schema", world.schema_file(V3))
    assert (code, "the registry accepts it" in out) == (3, True)
    assert " ".join(err.split()) == (
        f"error: 1 change to 1 table to decide about; the registry accepts {world.topic}-value (BACKWARD), "
        "the tables cannot take it as it is"
    )

    refused = event(0, GAME, one({"type": "array", "items": "int"}, "level"))
    code, out, err = run(world.file(), "--schema", world.schema_file(refused))
    assert code == 3
    assert "the registry refuses it" in out
    assert "! changed" in out
    assert "the registry refuses the schema for" in " ".join(err.split())
    assert world.registry.versions(f"{world.topic}-value") == before


def test_tables_of_unknown_history_are_held_against_all_that_may_come(world: World, run: Run) -> None:
    codec = load_codec("avro")
    layout = extend(extend(EMPTY, codec.reader(V1, ()).schema, frozenset()), OTHER, frozenset())
    make_table(world.folder, "golf", layout, "golf")
    world.register(V3)
    code, out, _ = run(world.file(), "--json")
    (step,) = json.loads(out)["steps"]
    assert (code, step["from_id"]) == (3, None)
    assert {(c["class"], c["column"], c["decision"]) for c in step["changes"]} == {
        ("added", "season", "add"),
        ("widened", "level", "rescue"),
        ("dropped", "gone", "keep"),
    }


def test_a_table_that_cannot_be_looked_at_is_not_taken_for_fine(world: World, run: Run) -> None:
    world.ingest(
        (first := world.register(V1), {"game": "golf", "level": 1}), (first, {"game": "quest", "level": 1})
    )
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["notInvented"],
        "writerFeatures": ["notInvented"],
    }
    entry = world.folder / "lake" / "quest" / "_delta_log" / f"{1:020}.json"
    entry.write_text(json.dumps({"protocol": protocol}), encoding="utf-8")
    code, out, _ = run(world.file(), "--json")
    told = json.loads(out)
    assert (code, told["decision_needed"], list(told["tables_not_read"])) == (3, True, ["quest"])
    assert [step["tables"] for step in told["steps"]] == [["golf"]]
    assert "1 table could not be looked at" in " ".join(run(world.file())[2].split())


def test_each_event_type_of_a_topic_goes_on_by_itself(world: World, run: Run) -> None:
    login, buy = event(0, GAME, one("int", "a"), name="Login"), event(0, GAME, one("int", "c"), name="Buy")
    subjects = [f"{world.topic}-games.{name}" for name in ("Login", "Buy")]
    old_login, old_buy = (
        world.register(schema, subject) for schema, subject in zip((login, buy), subjects, strict=True)
    )
    world.ingest(
        (old_login, {"game": "golf", "a": 1}),
        (old_buy, {"game": "golf", "c": 1}),
        (old_login, {"game": "quest", "a": 1}),
    )
    better = event(0, GAME, one("int", "c"), one(["null", "int"], "d", **NULLABLE), name="Buy")
    new_buy = world.register(better, subjects[1])
    code, out, _ = run(world.file(registry={"subjects": subjects}), "--json")
    assert code == 0
    assert {
        (*step["tables"], step["record"], step["from_id"], step["to_id"], len(step["changes"]))
        for step in json.loads(out)["steps"]
    } == {
        ("golf", "quest", "games.Login", old_login.id, old_login.id, 0),
        ("golf", "games.Buy", old_buy.id, new_buy.id, 1),
    }
    # Watched or not, the tables are what they are.
    code, out, err = run(world.file(registry={"subjects": [subjects[1]]}), "--json")
    assert not err, err
    assert code == 0
    assert json.loads(out)["tables_without_subject"] == ["quest"]
    rmtree(world.folder / "checkpoint")
    code, out, _ = run(world.file(registry={"subjects": subjects}))
    assert code == 0
    assert out.count("nobody knows what they met") == 3


def test_a_second_record_type_that_the_tables_cannot_take_needs_a_decision(world: World, run: Run) -> None:
    first = world.register(V1)
    buy = event(0, GAME, one("string", "level"), one("long", "amount"), name="Purchase")
    subjects = [f"{world.topic}-value", f"{world.topic}-purchases"]
    second = world.register(buy, subjects[1])
    watched = {"subjects": subjects}
    world.ingest((first, {"game": "golf", "level": 1}))
    code, out, err = run(world.file(registry=watched))
    assert (code, " ".join(err.split())) == (3, "error: 1 change to 1 table to decide about")
    told = f"no table has met schema {second.id} (games.Purchase); if its records go to 1 table (golf):"
    lines = out.splitlines()
    assert lines[lines.index(told) + 1].startswith("    added              amount bigint: ")
    assert lines[lines.index(told) + 2].startswith("  ! changed            level int -> string: records")

    offered = world.schema_file(event(0, one("int", "game")))
    code, out, _ = run(world.file(registry=watched), "--schema", offered, "--subject", subjects[1])
    assert code == 3
    assert f"1 table (golf): schema {first.id} -> the schema offered (games.Event)" in out

    by_record = {"by": "record", "field": None}
    code, out, _ = run(world.file(registry=watched, route=by_record))
    assert code == 0
    assert f"no table has met schema {second.id} (games.Purchase): its tables are created" in out


def test_what_cannot_be_planned_is_said_in_words(world: World, run: Run) -> None:
    world.register(V1)
    offered = world.schema_file(V2)
    nowhere = {"registry": {"url": "http://127.0.0.1:1"}}
    for groups, arguments, code, said in (
        ({}, ("--schema", world.folder / "no.avsc"), 2, "no.avsc cannot be read"),
        ({}, ("--schema", offered, "--subject", "other"), 2, "does not watch the subject 'other'"),
        ({}, ("--subject", "other"), 2, "give it by --schema"),
        (nowhere, (), 1, "127.0.0.1:1"),
    ):
        ended, out, err = run(world.file(**groups), *arguments)
        assert (ended, out) == (code, "")
        assert said in " ".join(err.split())


@pytest.mark.parametrize(("name", "text", "why"), NO_SCHEMAS)
def test_a_file_that_holds_no_schema_is_wrong_usage(
    world: World, run: Run, name: str, text: str, why: str
) -> None:
    world.register(V1)
    file = world.folder / name
    file.write_text(text, encoding="utf-8")
    code, out, err = run(
        world.file(), "--schema", file, "--json", *(() if file.suffix != ".json" else ("--type", "JSON"))
    )
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {file}: ")
    assert why in err
