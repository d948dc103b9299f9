"""Records of tables in partitions, in a worker: each is in a file of its own values, and what has no place there is told."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.ingest.kafka_records import Sent, batch, folder, numbered, pins, rows_of, value
from tests.ingest.worker.test_demux import demuxed

from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.pins import PinnedTable, Pins
from distributary.ingest.settings.groups import Columns
from distributary.ingest.settings.patterns import Pattern
from distributary.ingest.settings.rule_book import TableSpec
from distributary.ingest.worker.demux import demultiplex
from distributary.ingest.worker.gathering import gather
from distributary.ingest.worker.report import TaskReport, total

GOLF, QUEST = folder("golf"), folder("quest")


def by(root: Path, *fields: str, **changes: Any) -> Pins:
    """Pins by which the quest's table is partitioned, and the golf's is not."""
    return pins(
        root,
        specs=(TableSpec(0, "quest", partition_by=fields),),
        patterns=(Pattern("quest", folds=True),),
        **changes,
    )


def counted(report: TaskReport, table: str) -> Counter[tuple[tuple[str, str | None], ...]]:
    found = Counter[tuple[tuple[str, str | None], ...]]()
    for written in report.files.written:
        if written.file.table == table:
            found[written.file.partition] += written.file.rows
    return found


def refused(of: Pins, report: TaskReport) -> list[tuple[int, str, str]]:
    rows = rows_of(of, report, QUARANTINE_TABLE)
    return [(row["kafka_offset"], row["reason"], row["detail"]) for row in rows]


SENT = numbered(
    [
        value(1, game_name=game, country=country, level=level)
        for game in ("golf", "quest")
        for country, level in (("de", 1), ("fr", 1), ("de", 1), ("", 2), ("de", 2))
    ]
)
EXPECTED = {
    (("country", "de"), ("level", "1")): 2,
    (("country", "fr"), ("level", "1")): 1,
    (("country", None), ("level", "2")): 1,
    (("country", "de"), ("level", "2")): 1,
}


@pytest.mark.parametrize("worker_bytes", [1, 2**24])
@pytest.mark.parametrize("ships", [True, False])
def test_each_partition_has_files_of_its_own(tmp_path: Path, worker_bytes: int, ships: bool) -> None:
    of = by(tmp_path, "country", "level", worker_bytes=worker_bytes)
    report = gathered(of, SENT) if ships else demuxed(of, SENT)
    assert counted(report, GOLF) == {(): 5}
    assert counted(report, QUEST) == EXPECTED
    assert report.counts.rows == {GOLF: 5, QUEST: 5}
    rows = rows_of(of, report, QUEST)
    assert sorted(row["kafka_offset"] for row in rows) == [5, 6, 7, 8, 9]
    assert not any({"country", "level"} & row.keys() for row in rows)
    layouts = {written.layout for written in report.files.written if written.file.table == QUEST}
    assert all({"country", "level"} <= set(layout.names) for layout in layouts)


def gathered(of: Pins, records: list[Sent]) -> TaskReport:
    tasks = (records[:3], records[3:])
    shipped = [row for part in tasks for row in demultiplex(of, ships=True)(iter([batch(part)]))]
    return total(row["report"][0].as_py() for row in gather(of)(iter(shipped)))


def test_the_day_in_kafka_is_a_column_of_all_and_a_partition_of_some(tmp_path: Path) -> None:
    of = by(tmp_path, "day", columns=Columns(kafka_date="day"))
    report = demuxed(of, SENT)
    day = {row["kafka_ts"].date() for row in rows_of(of, report, QUEST)}
    assert len(day) == 1
    assert counted(report, QUEST) == {(("day", next(iter(day)).isoformat()),): 5}
    assert {row["day"] for row in rows_of(of, report, GOLF)} == day


@pytest.mark.parametrize(
    ("field", "why"),
    [
        ("gone", "its schema has no field gone, by which its table is partitioned"),
        ("position", "field position is nested, and tables are partitioned by strings, integers, booleans"),
        ("duration_s", "field duration_s is of type double, and tables are partitioned by strings, integers"),
    ],
)
def test_a_field_that_no_table_can_be_partitioned_by_is_told_of_each_record(
    tmp_path: Path, field: str, why: str
) -> None:
    of = by(tmp_path, "country", field)
    report = demuxed(of, SENT)
    assert report.counts.rows == {GOLF: 5}
    found = refused(of, report)
    assert [(offset, reason) for offset, reason, _ in found] == [(n, "partition") for n in range(5, 10)]
    assert all(detail.startswith(why) for _, _, detail in found)


def test_a_record_is_held_against_its_own_schema_whatever_others_brought(tmp_path: Path) -> None:
    """So that the order of records, and what a task has met before, say nothing of it."""
    records = [value(version, game_name="quest") for version in (1, 2, 1, 2)]
    known = {QUEST: PinnedTable("quest", Layout(pa.schema([("season", pa.string())])))}
    for changes in ({}, {"known": known}):
        of = by(tmp_path / str(len(changes)), "season", **changes)
        report = demuxed(of, numbered(records))
        assert [offset for offset, _, _ in refused(of, report)] == [0, 2]
        assert report.counts.rows == {QUEST: 2}


def test_values_that_no_partition_can_have_are_told_without_them(tmp_path: Path) -> None:
    of = by(tmp_path, "country")
    texts = ["de", "__HIVE_DEFAULT_PARTITION__", "x" * 300]
    report = demuxed(of, numbered([value(1, game_name="quest", country=text) for text in texts]))
    why = "field country has a value that no partition can have"
    assert refused(of, report) == [(1, "partition", why), (2, "partition", why)]
    assert counted(report, QUEST) == {(("country", "de"),): 1}


def test_a_table_that_another_hand_partitioned_takes_records_that_lack_the_column(tmp_path: Path) -> None:
    layout = Layout(pa.schema([("season", pa.string()), ("country", pa.string())]))
    there = ("season", "kafka_partition")
    known = {QUEST: PinnedTable("quest", layout, frozenset(there), there)}
    of = pins(tmp_path, known=known)
    report = demuxed(of, numbered([value(1, game_name="quest"), value(2, game_name="quest", season="7")]))
    assert counted(report, QUEST) == {
        (("season", None), ("kafka_partition", "0")): 1,
        (("season", "7"), ("kafka_partition", "0")): 1,
    }


def test_a_partitions_column_keeps_its_type_where_others_become_wider(tmp_path: Path) -> None:
    narrow = Layout(pa.schema([("level", pa.int16()), ("score", pa.int32())]))
    known = {QUEST: PinnedTable("quest", narrow, frozenset(["level"]), ("level",))}
    of = by(tmp_path, "level", known=known, widen=True)
    report = demuxed(of, numbered([value(1, game_name="quest", level=7, score=3)]))
    (wish,) = report.files.wishes
    assert [wish.layout.columns.field(name).type for name in ("level", "score")] == [pa.int16(), pa.int64()]
    assert counted(report, QUEST) == {(("level", "7"),): 1}
