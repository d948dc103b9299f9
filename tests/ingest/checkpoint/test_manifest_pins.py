from __future__ import annotations

import base64
import json
from dataclasses import MISSING, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.ingest.batches import decided, demuxed, generation, settled
from tests.ingest.kafka_records import PINNED, TOPIC, folder, numbered, pins, rows_of, value
from tests.ingest.reshaping.test_shape import WORD, rule

from distributary.codecs.base import Enveloped
from distributary.errors import CheckpointMismatch
from distributary.ingest import pins as reasons
from distributary.ingest.checkpoint import manifest_pins as decisions
from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.checkpoint.manifest_json import EXPECTING, SHAPED, from_json, to_json
from distributary.ingest.columns.clustering import ClusterBy
from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.expectations.given import Expectation
from distributary.ingest.pins import (
    BatchId,
    PinnedRecord,
    PinnedSchemas,
    PinnedTable,
    PinnedTables,
    Pins,
    RecordKey,
    Turn,
    Verdict,
)
from distributary.ingest.reshaping.rule import Secret
from distributary.ingest.routing.conditions import ReadCondition
from distributary.ingest.routing.tree import Call, Field, Literal
from distributary.ingest.settings.groups import NamedTable, Policies, Route
from distributary.ingest.settings.patterns import Pattern
from distributary.ingest.settings.rule_book import FitRules, TableSpec
from distributary.ingest.settings.upserts import Upsert
from distributary.ingest.storage.opening import files_at
from distributary.ingest.worker.report import TaskReport
from distributary.producer_sim.formats.corruption import framed
from distributary.registry.base import Guid, Schema

VALUES = st.sampled_from(
    [
        value(1, game_name="golf", score=1),
        value(2, game_name="golf", season="s"),
        value(3, game_name="Quest!"),
        value(1, game_name="denied"),
        value(2, score=3),
        framed(99, b""),
        framed(98, b""),
        b"\x7f",
        None,
    ]
)


def contents(by: Pins, report: TaskReport) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table; in the quarantine without what differs from pass to pass."""
    tables = {written.file.table for written in report.files.written}
    return {table: rows_of(by, report, table) for table in tables}


# As the secret of its hashes is, which stays.
MASKED = rule(hash=["score"], leave=["country"], rename={"level": "stage"}, constants={"region": "eu"})


def through_text(manifest: Manifest) -> Manifest:
    return from_json(json.loads(json.dumps(to_json(manifest))))


def golf_by(by: tuple[str, ...]) -> PinnedTable:
    """The golf's table in these partitions, whose columns are too few for most records."""
    types = {"season": pa.string(), "country": pa.string(), "level": pa.int32()}
    layout = Layout(pa.schema([("game_name", pa.string()), *((name, types[name]) for name in by)]))
    return PinnedTable("golf", layout, frozenset(by), by)


@given(
    st.lists(VALUES, min_size=1, max_size=12),
    st.booleans(),
    st.sets(st.integers(0, 11), max_size=2),
    st.integers(0, 4),
    st.booleans(),
)
@settings(max_examples=examples(20), deadline=None)
def test_a_batch_is_written_again_just_the_same_from_its_manifest(
    values: list[bytes | None], named: bool, rejected: set[int], already: int, grow: bool
) -> None:
    """Even by a worker that by then knows more schemas and more tables, and by settings that say something else."""
    with TemporaryDirectory() as name:
        root, records = Path(name), numbered(values)
        own = ("add", "rescue", "ignore")[already % 3]
        # The first version has no season.
        by = (("season",), ("country", "level"), ())[already % 3]
        changes: dict[str, Any] = {
            "records": PINNED[:2],
            "refused": {(99, (0,)): reasons.unknown_schema(99)},
            "denied": frozenset({folder("denied")}),
            "rejected": {(TOPIC, 0, offset): Verdict("constraint", "x") for offset in rejected},
            "already": {
                table: {TOPIC: {0: already}} for table in (folder("golf"), QUARANTINE_TABLE, "bronze")
            },
            "policies": Policies(no_entity=NamedTable(table="strays") if named else "quarantine"),
            "grow": grow,
            "vetoed": {folder("quest"): {PINNED[1].key: Verdict("schema_change", "x")}},
            "known": {folder("golf"): golf_by(by)},
            "specs": (
                TableSpec(
                    0,
                    "quest",
                    upsert=Upsert(("game_name",), ("season",), update="present") if rejected else None,
                ),
                TableSpec(1, "g*", partition_by=by, reshape=MASKED if already % 2 else None),
            ),
            "patterns": (Pattern("quest", folds=True), Pattern("g*", folds=True)),
            # What keeps records as they came, of which an earlier checkpoint may have some.
            "by_topic": {TOPIC: "bronze"} if already else {},
            "headers": bool(already),
            "fits": {1: FitRules(Policies.model_validate({"new_field": own}), own == "add", widens=False)},
        }
        first = settled(root, records, **changes)
        manifest = through_text(decided(root, first, {TOPIC: {0: (0, len(records))}}))
        other = Policies(no_entity="drop", new_field="ignore", wider_type="quarantine")
        known = TableSpec(0, "other", reshape=replace(MASKED, ops=()))
        told = {"specs": (known,), "patterns": (Pattern("other", folds=True),)}
        later = pins(root, policies=other, id=99, generation=generation(root).id, **told)
        again = decisions.from_manifest(manifest, later)
        report = demuxed(again, records)
        assert contents(again, report) == contents(first.pins, first.report)
        assert (report.counts.rows, report.counts.quarantined) == (
            first.report.counts.rows,
            first.report.counts.quarantined,
        )
        assert not report.questions.waiting


def test_a_record_that_cannot_have_its_columns_is_refused_for_that_again(tmp_path: Path) -> None:
    """Though its entity has no table, since no record of it has landed."""
    changes: dict[str, Any] = {
        "specs": (TableSpec(0, "golf", reshape=rule(rename={"level": "score"}, cast={"country": "int"})),),
        "patterns": (Pattern("golf", folds=True),),
    }
    records = numbered([value(1, game_name=game, score=1) for game in ("golf", "quest")])
    first = settled(tmp_path, records, **changes)
    assert first.report.counts.quarantined == {"columns": 1}
    manifest = through_text(decided(tmp_path, first, {TOPIC: {0: (0, 2)}}))
    again = decisions.from_manifest(manifest, pins(tmp_path, id=99, generation=generation(tmp_path).id))
    assert contents(again, demuxed(again, records)) == contents(first.pins, first.report)


def test_files_that_are_written_again_tell_the_bounds_of_what_their_tables_are_clustered_by(
    tmp_path: Path,
) -> None:
    changes: dict[str, Any] = {
        "specs": (TableSpec(0, "golf", cluster_by=ClusterBy(("score", "a.b"))), TableSpec(1, "quest")),
        "patterns": (Pattern("golf", folds=True), Pattern("quest", folds=True)),
    }
    records = numbered([value(1, game_name="golf", score=1)])
    manifest = through_text(decided(tmp_path, settled(tmp_path, records, **changes), {TOPIC: {0: (0, 1)}}))
    again = decisions.from_manifest(manifest, pins(tmp_path, id=99, generation=generation(tmp_path).id))
    by = again.rules.tables.of("golf").cluster_by
    assert by is not None
    assert by.fields == ("score", "a.b")
    assert again.rules.tables.of("quest").cluster_by is None
    assert again.rules.tables.of("other").cluster_by is None


def test_what_tables_expected_is_expected_again_whatever_the_settings_say_by_now(tmp_path: Path) -> None:
    expects = (Expectation("low", "score < 5", "quarantine"), Expectation("some", "score is not null"))
    changes: dict[str, Any] = {
        "specs": (TableSpec(0, "golf", expects=expects), TableSpec(1, "quest")),
        "patterns": (Pattern("golf", folds=True), Pattern("quest", folds=True)),
        "conditions": {
            "score < 5": ReadCondition(Call("<", (Field(("score",)), Literal(5)))),
            "score is not null": ReadCondition(Call("is not null", (Field(("score",)),))),
        },
    }
    records = numbered([value(1, game_name="golf", score=score) for score in (1, 7)])
    manifest = through_text(decided(tmp_path, settled(tmp_path, records, **changes), {TOPIC: {0: (0, 2)}}))
    assert to_json(manifest)["format"] == EXPECTING
    assert manifest.counts.quarantined == {"expectation": 1}
    assert manifest.counts.expected == {"silver_golf_events": {"low": (1, 1), "some": (2, 0)}}
    now = {"specs": (TableSpec(0, "golf"),), "patterns": (Pattern("golf", folds=True),)}
    again = decisions.from_manifest(manifest, pins(tmp_path, **now)).rules.tables
    assert (again.expects("golf"), again.expects("quest")) == (expects, ())
    assert again.conditions == changes["conditions"]


def test_hashes_are_made_again_with_the_secret_that_they_were_made_with_alone(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "specs": (TableSpec(0, "golf", reshape=MASKED),),
        "patterns": (Pattern("golf", folds=True),),
    }
    records = numbered([value(1, game_name="golf", score=1)])
    manifest = through_text(decided(tmp_path, settled(tmp_path, records, **changes), {TOPIC: {0: (0, 1)}}))
    written = json.dumps(to_json(manifest))
    assert to_json(manifest)["format"] == SHAPED
    assert WORD not in written
    assert MASKED.secret is not None
    assert MASKED.secret.fingerprint in written
    other = replace(MASKED, secret=Secret(b"another one of 16"))
    for specs in ((), (TableSpec(0, "golf", reshape=other),)):
        patterns = (Pattern("golf", folds=True),) * len(specs)
        with pytest.raises(CheckpointMismatch, match="a secret that its hashes were made with"):
            decisions.from_manifest(manifest, pins(tmp_path, specs=specs, patterns=patterns))
    again = decisions.from_manifest(manifest, pins(tmp_path, **changes))
    assert again.rules.tables.reshape("golf") == MASKED


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ({"truncate": "quarantine"}, {"truncate": "ignore"}),
        ({"truncate": "ignore"}, {"truncate": "quarantine"}),
        ({"truncate": "quarantine"}, {"truncate": "stop"}),
        ({"keep": ("op", "source_ts")}, {"keep": ("op",)}),
        ({"keep": ("op",)}, {"keep": ("op", "source_ts")}),
    ],
)
def test_what_was_taken_of_envelopes_is_taken_again_whatever_the_settings_say_by_then(
    tmp_path: Path, was: dict[str, Any], now: dict[str, Any]
) -> None:
    def of(said: dict[str, Any]) -> dict[str, Any]:
        return {
            "codec": Enveloped("json", "debezium", **{"keep": ("op",), **said}),
            "records": (PinnedRecord((1, ()), Schema(1, "STRUCT", text)),),
            "route": Route(field="__source_table", table="t_{entity}"),
        }

    def envelope(op: str, id_: int | None = None) -> bytes:
        row = None if id_ is None else {"id": id_}
        source = {"connector": "postgresql", "lsn": 1, "ts_ms": 1_700_000_000_000, "table": "customers"}
        return json.dumps({"op": op, "source": source, "before": None, "after": row}).encode()

    text = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
    records = numbered([envelope("c", 1), envelope("t"), envelope("u", 2)])
    first = settled(tmp_path, records, **of(was))
    manifest = through_text(decided(tmp_path, first, {TOPIC: {0: (0, len(records))}}))
    again = decisions.from_manifest(
        manifest, pins(tmp_path, id=99, generation=generation(tmp_path).id, **of(now))
    )
    report = demuxed(again, records)
    assert contents(again, report) == contents(first.pins, first.report)
    assert (report.counts.rows, report.counts.quarantined, report.stops) == (
        first.report.counts.rows,
        first.report.counts.quarantined,
        [],
    )


def test_decisions_in_memory_are_read_like_those_from_a_file(tmp_path: Path) -> None:
    changes = {"already": {"t": {TOPIC: {0: 5}}}, "rejected": {(TOPIC, 0, 1): Verdict("constraint", "x")}}
    whole = settled(tmp_path, numbered([value(1, game_name="golf")]), **changes)
    manifest: Manifest = decided(tmp_path, whole, {TOPIC: {0: (0, 1)}})
    for one in (manifest, through_text(manifest)):
        again = decisions.from_manifest(one, pins(tmp_path))
        assert again.tables.already == changes["already"]
        assert again.turn.rejected == changes["rejected"]
        assert (again.batch.id, again.batch.generation) == (whole.pins.batch.id, whole.pins.batch.generation)


# A layout, as a manifest keeps it.
A = pa.schema([pa.field("a", pa.int64())])


def written_by_the_first_version() -> bytes:
    """The bytes of a manifest that a release wrote before schemas of keys and met record types were kept."""
    decisions = {
        "records": [[11, [0]]],
        "refused": [[[99, [0]], ["unknown_schema", "the registry knows no schema 99"]]],
        "rejected": [[[TOPIC, 0, 3], ["constraint", "x"]]],
        "already": {"t": {TOPIC: {"0": 5}}},
        "grow": True,
        "guarded": False,
    }
    value = {
        "format": 1,
        "batch_id": 4,
        "generation": "g",
        "created_at": "",
        "code_version": "0.1.0",
        "offsets": {},
        "counts": {"read": {}, "rows": {}, "quarantined": {}, "dropped": {}, "already": 0},
        "pins": {"schemas": [[11, "aa"]], "settings": "bb", "decisions": decisions},
        "entities": {"T": "t"},
        "layouts": {"k": base64.b64encode(A.serialize()).decode()},
        "tables": [
            {
                "folder": "t",
                "role": "events",
                "app_id": "g/events",
                "layout": "k",
                "native": True,
                "files": [],
            }
        ],
    }
    return json.dumps(value).encode()


# Everything open, and all of it otherwise than in the manifest.
OPEN = {
    "refused": {(7, ()): Verdict("r", "")},
    "known": {"u": PinnedTable("U", Layout(A))},
    "met": {"u": ((7, ()),)},
    "already": {"u": {TOPIC: {0: 9}}},
    "grow": False,
    "widen": True,
    "admitted": frozenset({"u"}),
    "denied": frozenset({"t"}),
    "new_tables": 9,
    "proposals_refused": frozenset({b"r"}),
    "rejected": {(TOPIC, 0, 9): Verdict("r", "")},
    "vetoed": {"t": {(7, ()): Verdict("r", "")}},
    "guarded": True,
    "count_input": False,
    "generation": "h",
    "id": 9,
}


def test_nothing_of_a_batch_is_as_the_pins_of_today_have_it(tmp_path: Path) -> None:
    manifest = from_json(json.loads(written_by_the_first_version()))
    own = {one.name for part in (PinnedSchemas, PinnedTables, Turn, BatchId) for one in fields(part)}
    # What is the same for every batch, or final in every replay, or where files go now.
    assert own - OPEN.keys() == {
        "records",
        "root",
        "machine",
        "aside",
        "made_for",
        "pipeline",
        "schemas_final",
        "inferred_final",
        "tables_final",
    }
    again = decisions.from_manifest(manifest, pins(tmp_path, **OPEN))
    assert again == decisions.from_manifest(manifest, pins(tmp_path))
    assert [pinned.key for pinned in again.schemas.records] == [(11, (0,))]
    assert again.tables == PinnedTables(
        known={"t": PinnedTable("T", Layout(A))},
        met={},
        already={"t": {TOPIC: {0: 5}}},
        grow=True,
        widen=False,
        admitted=frozenset(),
        denied=frozenset(),
        new_tables=0,
    )
    assert again.turn == Turn(
        schemas_final=True,
        inferred_final=True,
        proposals_refused=frozenset(),
        tables_final=True,
        rejected={(TOPIC, 0, 3): Verdict("constraint", "x")},
        vetoed={},
        guarded=False,
        count_input=True,
    )
    assert again.batch == BatchId(
        files_at(tmp_path / "lake"), files_at(tmp_path / "aside"), "g", 4, 7, "games", ""
    )


@pytest.mark.parametrize("part", [BatchId, PinnedSchemas, PinnedTables, Turn, Pins])
def test_no_part_that_is_decided_for_a_batch_can_be_left_out(part: type[Any]) -> None:
    assert all(one.default is MISSING and one.default_factory is MISSING for one in fields(part))


def test_refused_types_are_written_in_an_order_of_their_own() -> None:
    keys: list[RecordKey] = [(Guid("b"), ()), (10, (1,)), (10, (0,)), (Guid("a"), ())]
    refused = {key: Verdict("r", "") for key in keys}
    assert [key for key, _ in decisions.sorted_refused(refused)] == [
        (10, (0,)),
        (10, (1,)),
        ("a", ()),
        ("b", ()),
    ]
