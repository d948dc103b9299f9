"""Rows that several tasks ship, and one writes: the same rows as if each had written its own, in fewer files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.ingest.batches import demuxed
from tests.ingest.kafka_records import (
    PINNED,
    TEMPLATE,
    Sent,
    batch,
    folder,
    numbered,
    pins,
    rows_of,
    value,
)
from tests.ingest.pipelines import rules_for, settings, table_book

from distributary.files import machine
from distributary.ingest.batch.objections import Objections
from distributary.ingest.batch.written_layouts import layouts
from distributary.ingest.columns.growth import holds
from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.pins import PinnedRecord, PinnedTable, Pins
from distributary.ingest.settings.groups import Route
from distributary.ingest.storage.posix import PosixFiles
from distributary.ingest.worker import gathering
from distributary.ingest.worker.demux import demultiplex
from distributary.ingest.worker.gathering import gather, row_of, shipment
from distributary.ingest.worker.report import TaskReport, total
from distributary.producer_sim.formats.corruption import framed
from distributary.registry.base import Schema

GOLF, QUEST = folder("golf"), folder("quest")

# Two tasks' records: tables that both have, versions of their schema that only one has, and what no table takes.
TASKS = (
    [value(1, game_name="golf", score=1), value(1, game_name="quest"), b"\x7f", None],
    [value(2, game_name="golf", season="s"), value(3, game_name="golf"), value(2, score=3)],
)


def sent(tasks: Sequence[Sequence[bytes | None]] = TASKS) -> list[list[Sent]]:
    """Each task's records; no two stand at the same place."""
    every = numbered([one for task in tasks for one in task])
    cuts = [0]
    for task in tasks:
        cuts.append(cuts[-1] + len(task))
    return [every[start:end] for start, end in pairwise(cuts)]


def shipped(by: Pins, tasks: Sequence[Sequence[Sent]]) -> Iterator[pa.RecordBatch]:
    """What the tasks yield, as another task gets it."""
    for records in tasks:
        for half in (records[:2], records[2:]):
            yield from demultiplex(by, ships=True)(iter([batch(half)]) if half else iter([]))


def gathered(by: Pins, tasks: Sequence[Sequence[Sent]]) -> TaskReport:
    reports = gather(by)(shipped(by, tasks))
    return total(bytes(report["report"][0].as_py()) for report in reports)


def written_apart(by: Pins, tasks: Sequence[Sequence[Sent]]) -> TaskReport:
    report = TaskReport()
    for records in tasks:
        report.add(demuxed(by, records))
    return report


def by_place(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """In one order, and without the columns that are null, which not every file has."""
    kept = [{name: value for name, value in row.items() if value is not None} for row in rows]
    return sorted(kept, key=lambda row: int(row["kafka_offset"]))


@pytest.mark.parametrize("known", [True, False])
def test_what_is_brought_together_is_what_each_task_would_have_written(tmp_path: Path, known: bool) -> None:
    one, other = pins(tmp_path / "one"), pins(tmp_path / "other")
    if known:
        first = layouts(demuxed(one, numbered([value(1, game_name="golf")])), one)
        tables = {GOLF: PinnedTable("golf", first[GOLF])}
        one, other = (replace(by, tables=replace(by.tables, known=tables)) for by in (one, other))
    apart, together = written_apart(one, sent()), gathered(other, sent())
    assert together.counts == apart.counts
    assert layouts(together, other) == layouts(apart, one)
    for table in {written.file.table for written in apart.files.written}:
        assert by_place(rows_of(other, together, table)) == by_place(rows_of(one, apart, table))
    files = [written.file.table for written in together.files.written]
    assert sorted(files) == sorted({GOLF, QUEST, QUARANTINE_TABLE}), "one file a table"
    assert {written.entity for written in together.files.written} == {"golf", "quest", None}


def test_rows_of_a_new_table_that_has_no_columns_but_kafkas_are_brought_together_too(tmp_path: Path) -> None:
    ping = Schema(21, "PROTOBUF", 'syntax = "proto3"; message Ping {}')
    records = (PinnedRecord((21, (0,)), ping),)
    by = pins(tmp_path, records=records, route=Route(by="record", table=TEMPLATE))
    tasks = sent([[framed(21, b"")] * 3, [framed(21, b"")]])
    report = gathered(by, tasks)
    assert [(one.file.table, one.file.rows) for one in report.files.written] == [(folder("Ping"), 4)]
    assert report.counts.rows == {folder("Ping"): 4}


def test_much_of_one_table_in_one_task_is_written_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "_LARGE_BYTES", 1)
    by = pins(tmp_path)
    report = gathered(by, sent())
    assert sum(written.file.rows for written in report.files.written if written.file.table == GOLF) == 3
    assert all(batch["folder"][0].as_py() is None for batch in shipped(pins(tmp_path / "x"), sent()))


def test_columns_that_do_not_go_together_are_left_for_the_driver_to_see(tmp_path: Path) -> None:
    by = pins(tmp_path, records=PINNED[:1])
    number, text = (Layout(pa.schema([("x", kind)])) for kind in (pa.int64(), pa.string()))
    kafka = gathering._columns(by, GOLF, "golf", Layout(pa.schema([]))).columns
    chunks = []
    for layout, content in ((number, 1), (text, "a"), (number, 2)):
        nulls = {field.name: [None] for field in kafka}
        rows = pa.RecordBatch.from_pydict(
            {**nulls, "x": [content]}, schema=gathering._columns(by, GOLF, "golf", layout).columns
        )
        chunks.append(shipment([row_of(by, GOLF, "golf", layout, [rows])]))
    report = total(bytes(found["report"][0].as_py()) for found in gather(by)(iter(chunks)))
    assert sorted(written.file.rows for written in report.files.written) == [1, 2]
    wanted = layouts(report, by)[GOLF]
    assert [holds(wanted, written.layout) for written in report.files.written].count(False) == 1
    again = Objections(rules_for(settings(tmp_path)), table_book(tmp_path), {}).objection(report, by)
    assert again is not None, "the batch is begun again with columns that all go with"


def test_a_task_that_fails_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    by = pins(tmp_path)
    by = replace(by, rules=replace(by.rules, worker_bytes=1))

    def chunks() -> Iterator[pa.RecordBatch]:
        yield from shipped(by, sent())
        raise RuntimeError("a neighbour is gone")

    with pytest.raises(RuntimeError, match="a neighbour is gone"):
        list(gather(by)(chunks()))
    assert [path for path in (tmp_path / "lake").rglob("*") if path.name.startswith(".")] == []


@pytest.mark.parametrize("elsewhere", [True, False])
def test_what_is_written_on_another_machine_than_the_drivers_is_synced_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    by = pins(tmp_path, machine="another" if elsewhere else machine())
    synced: list[str] = []
    monkeypatch.setattr(PosixFiles, "sync", lambda files, paths: synced.extend(paths))
    report = gathered(by, sent())
    named = {f"{written.file.table}/{written.file.name}" for written in report.files.written}
    assert set(synced) == (named if elsewhere else set())
