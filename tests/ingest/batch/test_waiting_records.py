from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from errno import EACCES
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.ingest.kafka_records import batch, numbered, value

from distributary.ingest.batch.waiting_records import (
    _read,
    emptied,
    forget_waiting,
    place_aside,
    waiting_records,
)
from distributary.ingest.kafka.records import RAW_SCHEMA, TEXT
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.storage.posix import PosixFiles
from distributary.ingest.worker.task import AsideFiles

SENT = numbered([value(2, game_name="golf"), b"\xff", None, value(3, game_name="quest")])


def taken_up(spark: SparkSession, aside: Files) -> list[dict[str, object]]:
    """What a worker gets of the records that two tasks set aside."""
    names = []
    for half in (SENT[:3], SENT[3:]):
        files = AsideFiles(aside)
        files.add(batch(half))
        names += files.close()
    records = waiting_records(spark, aside, names)
    assert records.count() == len(SENT)

    def seen(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    return sorted((row.asDict() for row in records.mapInArrow(seen, records.schema).collect()), key=_offset)


def _offset(row: dict[str, object]) -> int:
    found = row["offset"]
    assert isinstance(found, int)
    return found


@pytest.mark.parametrize("folder", ["aside/7", "of [prod] {a,b}*/7"])
def test_records_set_aside_are_taken_up_as_they_were(spark: SparkSession, place: Files, folder: str) -> None:
    found = taken_up(spark, place.below(folder))
    wanted = batch(SENT).to_pylist()
    assert [row["value"] and bytes(row["value"]) for row in found] == [row["value"] for row in wanted]  # type: ignore[call-overload]
    assert [row["offset"] for row in found] == [0, 1, 2, 3]
    assert [row["topic"] for row in found] == [row["topic"] for row in wanted]
    # Where Spark adds up bytes after each row, a list that is null has it go through all rows before.
    assert [(row["headers"], row["every_header"]) for row in found] == [([], [])] * 4


@pytest.mark.parametrize("others", ["EXCEPTION", "LEGACY"])
def test_records_of_any_time_are_taken_up_whatever_a_session_takes_others_times_for(
    spark: SparkSession, tmp_path: Path, others: str
) -> None:
    """Spark 3.5 ends over times before 1900 unless it is told; a session that a caller brought may say anything."""
    own = spark.newSession()
    own.conf.set("spark.sql.parquet.datetimeRebaseModeInRead", others)
    old = datetime(1500, 2, 28, tzinfo=timezone.utc)
    records = batch(SENT)
    times = pa.array([old] * len(SENT), RAW_SCHEMA.field("ts").type)
    files = AsideFiles(PosixFiles(tmp_path))
    files.add(records.set_column(records.schema.names.index("ts"), RAW_SCHEMA.field("ts"), times))
    found = waiting_records(own, PosixFiles(tmp_path), files.close()).selectExpr("unix_micros(ts) AS ts")
    assert {row["ts"] for row in found.collect()} == {int(old.timestamp()) * 10**6}


@pytest.mark.parametrize("keys", [False, True], ids=["records", "records with the texts of their keys"])
def test_a_worker_reads_the_files_whose_names_it_is_given(place: Files, *, keys: bool) -> None:
    names = []
    for half in (SENT[:3], SENT[3:]):
        files, records = AsideFiles(place), batch(half)
        files.add(records.append_column(TEXT, pa.array(["k"] * len(half))) if keys else records)
        names += files.close()
    found = [one for name in reversed(names) for one in _read(place, name)]
    assert {one.schema for one in found} == {RAW_SCHEMA}
    assert pa.Table.from_batches(found).sort_by("offset").to_pylist() == batch(SENT).to_pylist()


def test_records_wait_in_the_checkpoint_or_beside_tables_in_a_store(place: Files, tmp_path: Path) -> None:
    checkpoint = files_at(tmp_path / "checkpoint")
    aside = place_aside(checkpoint, place, "g1")
    assert aside == (place.below("_aside/g1") if place.remote else checkpoint.below("aside"))


def test_only_what_this_pipeline_left_is_forgotten(place: Files) -> None:
    mine, other = place.below("_aside/g1"), place.below("_aside/g2")
    for aside in (mine, other):
        for one in ("7-a", "7-b"):
            files = AsideFiles(aside.below(one))
            files.add(batch(SENT))
            files.close()
    emptied(mine.below("7-a"))
    assert [list(aside.folders()) for aside in (mine, other)] == [["7-b"], ["7-a", "7-b"]]
    forget_waiting(mine)
    forget_waiting(place.below("nothing"))
    assert [list(aside.folders()) for aside in (mine, other)] == [[], ["7-a", "7-b"]]


def test_what_runs_before_left_goes_however_deep_it_is_and_keeps_no_start_from_going_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    aside, unlink = PosixFiles(tmp_path), os.unlink
    for path in ("0-a/_temporary/0/part", "0-a/rows.parquet", "loose.parquet", "1-b/others"):
        aside.put(path, b"payload")

    def refused(path: str) -> None:
        if path.endswith("others"):
            raise PermissionError(EACCES, "Permission denied", path)
        unlink(path)

    monkeypatch.setattr(os, "unlink", refused)
    forget_waiting(aside)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["others"]
    assert "cannot be deleted" in caplog.text and "1-b/others" in caplog.text
