from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.ingest.kafka_records import (
    IDS,
    PINNED,
    TOPIC,
    Sent,
    aside_rows,
    batch,
    body,
    folder,
    numbered,
    pins,
    rows_of,
    value,
)

from distributary.codecs.protobuf.codec import ProtobufReader
from distributary.ingest import pins as reasons
from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.pins import PinnedRecord, PinnedTable, Pins, Verdict
from distributary.ingest.settings.groups import NamedTable, Policies
from distributary.ingest.worker.demux import Demultiplexer, demultiplex
from distributary.ingest.worker.report import TaskReport, total
from distributary.producer_sim.formats.corruption import HEADER, framed
from distributary.registry.base import Schema

REFUSED = (99, (0,))
CONSTRAINT = Verdict("constraint", "score > 0")
NARROW = pa.schema([("game_name", pa.string()), ("score", pa.int32())])
KNOWN = {
    folder("narrow"): PinnedTable("narrow", Layout(NARROW)),
    folder("known"): PinnedTable("known", Layout(pa.schema([]))),
}


def demuxed(by: Pins, *batches: Sequence[Sent]) -> TaskReport:
    task = Demultiplexer(by)
    for records in batches:
        task.take(batch(records))
    return task.finish()


# --- every record is in exactly one place ---


@dataclass(frozen=True)
class Fate:
    """A record, and where it must end: a quarantine reason, a table's folder, or one of the words below."""

    record: Sent
    place: str
    entity: str | None = None


DROPPED, ALREADY, ASKED, NEW = "dropped", "already", "asked", "new"
ENTITIES = ["known", "narrow", "Denied", "new 1", "new_2", "NEW_2", "Ünew"]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[dict[str, Any], list[Fate], list[int]]:
    """Changes to pins, records with what must become of them, and how they are cut into batches."""
    changes: dict[str, Any] = {
        "worker_bytes": draw(st.sampled_from([1, 5_000, 2**24])),
        "new_tables": draw(st.integers(0, 4)),
        "schemas_final": draw(st.booleans()),
        "tables_final": draw(st.booleans()),
        "grow": draw(st.booleans()),
        "known": KNOWN,
        "denied": frozenset({folder("Denied")}),
        "refused": {REFUSED: reasons.unknown_schema(99)},
        "policies": Policies(
            wider_type="quarantine",
            no_entity=draw(st.sampled_from(["quarantine", "drop"])),
            new_field="rescue",
        ),
    }
    ends = {table: draw(st.integers(0, 12)) for table in (folder("known"), folder("new 1"), QUARANTINE_TABLE)}
    changes["already"] = {table: {TOPIC: {0: end}} for table, end in ends.items() if end}
    kinds = draw(
        st.lists(st.tuples(st.sampled_from([*KINDS]), st.integers(0, 1), st.integers(0, 9)), max_size=40)
    )
    rejected = draw(st.sets(st.tuples(st.integers(0, 1), st.integers(0, 20)), max_size=4))
    changes["rejected"] = {(TOPIC, *place): CONSTRAINT for place in rejected}
    nexts, fates = [0, 0], []
    for kind, partition, number in kinds:
        content, place, entity = KINDS[kind](number, changes)
        record = Sent(content, nexts[partition], partition)
        nexts[partition] += 1
        place = CONSTRAINT.reason if (partition, record.offset) in rejected else place
        fates.append(Fate(record, _unless_there(place, entity, record, ends), entity))
    cuts = draw(st.lists(st.integers(0, len(fates)), max_size=4))
    return changes, fates, [0, *sorted(cuts), len(fates)]


def _unless_there(place: str, entity: str | None, record: Sent, ends: dict[str, int]) -> str:
    if record.partition or place in (DROPPED, ASKED):
        return place
    table = place if place in KNOWN else folder(entity or "") if place == NEW else QUARANTINE_TABLE
    return ALREADY if place != NEW and record.offset < ends.get(table, 0) else place


def _good(number: int, changes: dict[str, Any]) -> tuple[bytes, str, str]:
    entity, version = ENTITIES[number % len(ENTITIES)], 1 + number % 3
    place = folder(entity) if folder(entity) in KNOWN else "table_limit" if entity == "Denied" else NEW
    return value(version, event_id=f"e{number}", game_name=entity, score=number), place, entity


def _too_wide(number: int, changes: dict[str, Any]) -> tuple[bytes, str, str]:
    return value(1, game_name="narrow", score=2**31 + number), "wider_type", "narrow"


def _unknown(number: int, changes: dict[str, Any]) -> tuple[bytes, str, None]:
    place = "unasked_schema" if changes["schemas_final"] else ASKED
    return framed(900 + number, body(1, game_name="known")), place, None


def _nameless(number: int, changes: dict[str, Any]) -> tuple[bytes, str, None]:
    dropped = changes["policies"].no_entity == "drop"
    return value(1 + number % 3, score=number), DROPPED if dropped else "no_entity", None


KINDS: dict[str, Any] = {
    "good": _good,
    "also good": _good,
    "too wide": _too_wide,
    "unknown": _unknown,
    "nameless": _nameless,
    "tombstone": lambda n, c: (None, DROPPED, None),
    "empty": lambda n, c: (b"", "no_header", None),
    "magic": lambda n, c: (b"\x7f" + bytes(n + 4), "bad_magic", None),
    "cut": lambda n, c: (HEADER.pack(0, 11)[: 1 + n % 4], "truncated_header", None),
    "malformed": lambda n, c: (value(1 + n % 3, game_name="known") + b"\x0f", "malformed", None),
    "refused": lambda n, c: (framed(99, b""), "unknown_schema", None),
}


@given(worlds())
@settings(max_examples=examples(30), deadline=None)
def test_every_record_ends_in_exactly_one_place_and_the_counts_say_so(
    world: tuple[dict[str, Any], list[Fate], list[int]],
) -> None:
    changes, fates, cuts = world
    with TemporaryDirectory() as root:
        by = pins(Path(root), **changes)
        records = [fate.record for fate in fates]
        report = demuxed(by, *(records[a:b] for a, b in pairwise(cuts)))
        found = dict(_places(by, report))
        waiting = {(row["partition"], row["offset"]) for row in aside_rows(Path(root), report)}
        _check_counts(by, report)
        _check_new_tables(by, fates, found, waiting)
        for fate in fates:
            where = (fate.record.partition, fate.record.offset)
            if fate.place in (DROPPED, ALREADY):
                assert where not in found
                assert where not in waiting
            elif fate.place == ASKED:
                assert where in waiting
                assert where not in found
            elif fate.place in KNOWN:
                assert found[where] == fate.place
            elif fate.place != NEW:
                assert found[where] == fate.place, fate
        spans = report.counts.spans.items()
        assert {place[1]: span.count for place, span in spans} == Counter(r.partition for r in records)
        assert report.counts.dropped.total() == sum(fate.place == DROPPED for fate in fates)
        on_disk = {str(path) for path in Path(by.batch.root.url).rglob("*.parquet")}
        assert on_disk == {f"{by.batch.root}/{w.file.table}/{w.file.name}" for w in report.files.written}


def _places(by: Pins, report: TaskReport) -> Iterator[tuple[tuple[int, int], str]]:
    """Where each record was written, by its coordinates; fails for one that was written twice."""
    seen: set[tuple[int, int]] = set()
    for table in {written.file.table for written in report.files.written}:
        for row in rows_of(by, report, table):
            where = (row["kafka_partition"], row["kafka_offset"])
            assert where not in seen
            seen.add(where)
            yield where, row["reason"] if table == QUARANTINE_TABLE else table


def _check_counts(by: Pins, report: TaskReport) -> None:
    written: Counter[str] = Counter()
    for one in report.files.written:
        written[one.file.table] += one.file.rows
        assert one.file.rows
    assert {row["pipeline"] for row in rows_of(by, report, QUARANTINE_TABLE)} <= {"games"}
    quarantined = Counter(row["reason"] for row in rows_of(by, report, QUARANTINE_TABLE))
    assert quarantined == report.counts.quarantined
    assert written.pop(QUARANTINE_TABLE, 0) == report.counts.quarantined.total()
    assert written == report.counts.rows
    assert len(aside_rows(Path(by.batch.root.url).parent, report)) == report.questions.waiting
    assert report.questions.waiting == report.questions.records.total() + report.questions.newcomers.total()
    places = report.counts.rows.total() + report.counts.quarantined.total() + report.counts.dropped.total()
    assert places + report.counts.already + report.questions.waiting == sum(
        span.count for span in report.counts.spans.values()
    )


def _check_new_tables(
    by: Pins, fates: list[Fate], found: dict[tuple[int, int], str], waiting: set[tuple[int, int]]
) -> None:
    """An entity that is new is wanted for all of its records or for none, and no more than there is room for."""
    admitted = set()
    for name in {folder(fate.entity) for fate in fates if fate.place == NEW and fate.entity}:
        mine = [fate for fate in fates if fate.place == NEW and folder(fate.entity or "") == name]
        # Where the last word is spoken, a record without a table goes to quarantine, which may have it already.
        refused = by.turn.tables_final and not any(folder_found == name for folder_found in found.values())
        end = by.tables.already.get(QUARANTINE_TABLE if refused else name, {}).get(TOPIC, {}).get(0, 0)
        fresh = [f.record for f in mine if f.record.partition or f.record.offset >= end]
        if not fresh:
            continue
        places = {found.get((record.partition, record.offset)) for record in fresh}
        assert len(places) <= 1
        if places == {None}:
            assert not by.turn.tables_final
            assert {(record.partition, record.offset) for record in fresh} <= waiting
        elif places:
            assert places in ({name}, {"table_limit"})
            admitted |= places & {name}
    assert len(admitted) <= by.tables.new_tables


# --- what becomes of one kind of record ---


def test_a_row_has_its_coordinates_its_schemas_id_and_the_columns_of_its_version(tmp_path: Path) -> None:
    by = pins(tmp_path)
    report = demuxed(
        by, numbered([value(1, game_name="golf", score=5), value(2, game_name="golf", season="s")])
    )
    first, second = rows_of(by, report, folder("golf"))
    assert (first["kafka_topic"], first["kafka_partition"], first["kafka_offset"]) == (TOPIC, 0, 0)
    assert (first["schema_id"], first["score"], first["kafka_key"]) == (IDS[1], 5, b"gamer")
    assert (first["season"], second["season"], second["schema_id"]) == (None, "s", IDS[2])
    assert report.counts.decoded == {IDS[1]: 1, IDS[2]: 1}


def test_a_table_that_grows_is_reported_with_the_first_record_that_brought_it(tmp_path: Path) -> None:
    values = [
        value(1, game_name="a"),
        value(1, game_name="b"),
        value(2, game_name="b"),
        value(2, game_name="b"),
    ]
    report = demuxed(pins(tmp_path), numbered(values))
    grown = [(growth.table, growth.schema_id, growth.first) for growth in report.files.growths]
    assert grown == [
        (folder("a"), IDS[1], (TOPIC, 0, 0)),
        (folder("b"), IDS[1], (TOPIC, 0, 1)),
        (folder("b"), IDS[2], (TOPIC, 0, 2)),
    ]


def test_files_written_before_a_table_grew_lack_only_the_new_columns(tmp_path: Path) -> None:
    by = pins(tmp_path, worker_bytes=1)
    report = demuxed(
        by, numbered([value(1, game_name="a")]), [Sent(value(2, game_name="a", season="s"), offset=1)]
    )
    assert len(report.files.written) == 2
    assert {tuple(written.layout.names) for written in report.files.written} == {
        tuple(report.files.written[0].layout.names)
    }
    rows = rows_of(by, report, folder("a"))
    assert ["season" in row for row in rows] == [False, True]


def test_records_whose_values_are_all_refused_write_no_file(tmp_path: Path) -> None:
    by = pins(tmp_path, known=KNOWN, policies=Policies(wider_type="quarantine"))
    report = demuxed(by, numbered([value(1, game_name="narrow", score=2**40)]))
    assert [written.file.table for written in report.files.written] == [QUARANTINE_TABLE]
    assert report.counts.quarantined == {"wider_type": 1}
    assert not report.counts.rows


def test_a_policy_that_says_fail_is_reported_for_the_driver(tmp_path: Path) -> None:
    by = pins(tmp_path, known=KNOWN, policies=Policies(wider_type="fail"))
    report = demuxed(by, numbered([value(1, game_name="narrow")]))
    assert len(report.stops) == 1
    assert report.stops[0].startswith(f"table {folder('narrow')}: ")


def test_a_record_type_that_a_table_does_not_take_goes_to_quarantine_from_this_table_alone(
    tmp_path: Path,
) -> None:
    verdict = Verdict("schema_change", "field x is gone")
    vetoed = {folder("golf"): {PINNED[1].key: verdict}, folder("quest"): {PINNED[2].key: verdict}}
    by = pins(tmp_path, vetoed=vetoed)
    values = [value(version, game_name=game) for game in ("golf", "quest") for version in (1, 2, 2)]
    report = demuxed(by, numbered(values))
    assert report.counts.quarantined == {"schema_change": 2}
    assert report.counts.rows == {folder("golf"): 1, folder("quest"): 3}
    assert {one: set(tables) for one, tables in report.sightings.met.items()} == {
        PINNED[0].key: {folder("golf"), folder("quest")},
        PINNED[1].key: {folder("quest")},
    }
    told = rows_of(by, report, QUARANTINE_TABLE)
    assert {(row["entity"], row["detail"]) for row in told} == {("golf", "field x is gone")}


def test_rescued_values_are_in_the_rescued_column_and_the_layout_has_it(tmp_path: Path) -> None:
    by = pins(tmp_path, known=KNOWN, grow=False, policies=Policies(new_field="rescue"))
    report = demuxed(by, numbered([value(1, game_name="narrow", score=2**40, level=3)]))
    (row,) = rows_of(by, report, folder("narrow"))
    assert row["score"] is None
    assert json.loads(row["_rescued_data"])["score"] == 2**40
    assert report.files.written[0].layout.names == [*NARROW.names, "_rescued_data"]


def test_a_table_without_anything_rescued_is_written_beside_one_with_it(tmp_path: Path) -> None:
    tables = {folder(name): PinnedTable(name, Layout(NARROW)) for name in ("narrow", "fine")}
    by = pins(tmp_path, known=tables, policies=Policies(new_field="ignore"), grow=False)
    news = [value(1, game_name="narrow", score=2**40), value(1, game_name="fine", score=1)]
    report = demuxed(by, numbered(news))
    (kept,), (narrowed,) = (rows_of(by, report, folder(name)) for name in ("fine", "narrow"))
    assert (kept["score"], "_rescued_data" in kept) == (1, False)
    assert json.loads(narrowed["_rescued_data"]) == {"score": 2**40}


def test_a_known_table_that_may_not_grow_stays_as_it_is_beside_a_new_one_with_the_same_columns(
    tmp_path: Path,
) -> None:
    """Both share their layout until the second version comes."""
    first = demuxed(pins(tmp_path / "before"), numbered([value(1, game_name="old")]))
    tables = {folder("old"): PinnedTable("old", first.files.written[0].layout)}
    for order in (["old", "new"], ["new", "old"]):
        by = pins(tmp_path / order[0], known=tables, grow=False, policies=Policies(new_field="rescue"))
        news = [value(1, game_name=name) for name in order] + [value(2, game_name=name) for name in order]
        report = demuxed(by, numbered(news))
        layouts = {written.entity: written.layout.names for written in report.files.written}
        assert "season" not in layouts["old"]
        assert "season" in layouts["new"]


def test_records_without_an_entity_go_to_the_table_that_is_named_for_them(tmp_path: Path) -> None:
    by = pins(tmp_path, new_tables=0, policies=Policies(no_entity=NamedTable(table="strays")))
    report = demuxed(by, numbered([value(1, score=1), value(1, score=2)]))
    assert [row["score"] for row in rows_of(by, report, "strays")] == [1, 2]
    assert report.counts.rows == {"strays": 2}


def test_only_so_many_questions_are_reported_the_most_frequent_ones_first(tmp_path: Path) -> None:
    values = [framed(900 + number, b"") for number in (1, 2, 2, 3, 3, 3)]
    report = demuxed(pins(tmp_path, max_questions=2), numbered(values))
    assert list(report.questions.records.items()) == [((903, (0,)), 3), ((902, (0,)), 2)]
    assert report.questions.waiting == 6


def test_rows_set_aside_are_placed_by_the_next_pass(tmp_path: Path) -> None:
    by = pins(tmp_path, records=PINNED[:1])
    first = demuxed(by, numbered([value(1, game_name="a"), value(2, game_name="a", season="s")]))
    second = Demultiplexer(pins(tmp_path, count_input=False, schemas_final=True))
    raw = pa.RecordBatch.from_pylist(aside_rows(tmp_path, first), batch([]).schema)
    second.take(raw)
    report = second.finish()
    assert not report.counts.spans
    assert [row["season"] for row in rows_of(by, report, folder("a"))] == ["s"]


def test_an_empty_batch_is_no_trouble(tmp_path: Path) -> None:
    report = demuxed(pins(tmp_path, rejected={(TOPIC, 0, 0): CONSTRAINT}), [])
    assert report == TaskReport()


def test_quarantine_rows_that_are_all_in_already_write_no_file(tmp_path: Path) -> None:
    by = pins(tmp_path, already={QUARANTINE_TABLE: {TOPIC: {0: 5}}})
    report = demuxed(by, numbered([b"", b"\x7f"]))
    assert (report.files.written, report.counts.already) == ([], 2)


def test_spark_is_given_one_report_a_task(tmp_path: Path) -> None:
    by = pins(tmp_path)
    run = demultiplex(by)
    rows = [*run([batch(numbered([value(1, game_name="a")]))]), *run([])]
    whole = total(row.column("report")[0].as_py() for row in rows)
    assert len(rows) == 2
    assert whole.counts.rows == {folder("a"): 1}


def test_a_payload_that_kills_its_decoder_is_found_and_the_others_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = ProtobufReader.decode

    def fragile(self: ProtobufReader, payloads: Any) -> Any:
        if any(b"poison" in payload for payload in payloads.to_pylist()):
            os.kill(os.getpid(), signal.SIGKILL)
        return decode(self, payloads)

    monkeypatch.setattr(ProtobufReader, "decode", fragile)
    by = pins(tmp_path, guarded=True)
    values = [value(1, game_name="a", device="poison" if n in (3, 7) else "ok") for n in range(9)]
    report = demuxed(by, numbered(values))
    assert report.counts.quarantined == {"killed_worker": 2}
    dead = [row["kafka_offset"] for row in rows_of(by, report, QUARANTINE_TABLE)]
    assert dead == [3, 7]
    assert report.counts.rows == {folder("a"): 7}


@pytest.mark.parametrize(("check", "wanted"), [("types", {}), ("schema", {"invalid": 1})])
def test_records_are_held_to_all_of_their_schema_where_settings_ask_for_it(
    tmp_path: Path, check: str, wanted: dict[str, int]
) -> None:
    text = '{"type":"object","properties":{"game_name":{"type":"string"},"level":{"type":"integer","minimum":1}}}'
    by = pins(
        tmp_path,
        codec="jsonschema",
        check=check,
        records=(PinnedRecord((5, ()), Schema(5, "JSON", text)),),
    )
    values = [b'\0\0\0\0\5{"game_name":"chess","level":%d}' % level for level in (1, 0)]
    report = demuxed(by, numbered(values))
    assert report.counts.quarantined == wanted
    assert sum(report.counts.rows.values()) == 2 - sum(wanted.values())
