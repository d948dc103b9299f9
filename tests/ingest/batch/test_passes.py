from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.ingest.batches import demuxed
from tests.ingest.kafka_records import batch, numbered, pins, task_report, value

from distributary.ingest.batch import passes
from distributary.ingest.batch.passes import Workers, discard
from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.pins import Pins, Verdict
from distributary.ingest.storage.contract import Files
from distributary.ingest.worker.demux import demultiplex
from distributary.ingest.worker.gathering import gather
from distributary.ingest.worker.report import TaskReport, WrittenFile


def pins_for(place: Files, tmp_path: Path) -> Pins:
    """Pins whose tables are in this place."""
    by = pins(tmp_path)
    return replace(by, batch=replace(by.batch, root=place.below("lake")))


def names(root: Files) -> list[str]:
    return [info.path for folder in root.folders() for info in root.list(folder)]


def test_an_attempt_that_is_given_up_leaves_no_file_and_no_folder(place: Files, tmp_path: Path) -> None:
    by = pins_for(place, tmp_path)
    report = demuxed(by, numbered([value(1, game_name="golf"), b""]))
    assert len(names(by.batch.root)) == 2
    discard(by.batch.root, report)
    discard(by.batch.root, report)
    assert list(by.batch.root.folders()) == []


def test_a_task_that_fails_amid_its_records_leaves_no_part_of_a_file(place: Files, tmp_path: Path) -> None:
    by = pins_for(place, tmp_path)
    by = replace(by, rules=replace(by.rules, worker_bytes=1))

    def records() -> Iterator[pa.RecordBatch]:
        for _ in range(3):
            yield batch(numbered([value(1, game_name="golf"), value(1, game_name="quest")]))
        raise RuntimeError("Kafka is gone")

    with pytest.raises(RuntimeError, match="Kafka is gone"):
        list(demultiplex(by)(records()))
    assert names(by.batch.root) == []


def test_partitions_count_as_tables_do_once_batches_have_them(tmp_path: Path) -> None:
    by, workers = pins(tmp_path), Workers(slots=10, headers={}, arrow_rows=100, most_files=50)
    layout = Layout(pa.schema([]))

    def written(*days: str) -> TaskReport:
        # Two tasks with a file each.
        names = [(day, task) for day in days for task in range(2)]
        files = [DataFile("golf", f"{day}-{task}", 1, 1, "", (("day", day),)) for day, task in names]
        return task_report(written=[WrittenFile("golf", file, layout) for file in files])

    assert not workers.ships(by)
    workers.spread.note(written(*"abcde"))
    assert not workers.ships(by)
    workers.spread.note(written(*"abcdefghijkl"))
    assert workers.ships(by)
    # Of a few records that waited.
    workers.spread.note(written("a"))
    assert workers.ships(by)
    workers.spread.note(written("a"))
    assert not workers.ships(by)


def test_files_of_tables_to_keep_stay(tmp_path: Path) -> None:
    by = pins(tmp_path)
    report = demuxed(by, numbered([value(1, game_name="golf"), b""]))
    discard(by.batch.root, report, keep=lambda table: table == QUARANTINE_TABLE)
    assert [path.parent.name for path in Path(by.batch.root.url).rglob("*.parquet")] == [QUARANTINE_TABLE]


# What becomes of such a batch's files is in test_runner.py.
@pytest.mark.parametrize("speculates", ["true", "false"])
def test_where_spark_speculates_any_task_may_have_been_done_twice(
    spark: SparkSession, tmp_path: Path, speculates: str
) -> None:
    """Whoever lost against his copy left files, and is asked for no report."""
    session = spark.newSession()
    # Otherwise Spark takes it for the whole session alone, before that begins.
    session.conf.set("spark.sql.legacy.setCommandRejectsSparkCoreConfs", "false")
    session.conf.set("spark.speculation", speculates)
    records = session.createDataFrame(pa.Table.from_batches([batch(numbered([value(1, game_name="golf")]))]))
    report = Workers(2, {}, 100).run(records, pins(tmp_path))
    assert report.retried is (speculates == "true")
    assert [written.file.rows for written in report.files.written] == [1]


def test_where_what_was_shuffled_is_lost_tasks_were_done_twice(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a stage that is done again count from their first attempt, and have left files all the same."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    places = [
        str(place)
        for place in jvm.org.apache.spark.SparkEnv.get().blockManager().diskBlockManager().localDirsString()
    ]
    lost = str(tmp_path / "lost")

    def losing(pins: Pins) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            if not os.path.exists(lost):
                Path(lost).touch()
                for place in places:
                    for file in Path(place).glob("*/shuffle_*"):
                        file.unlink(missing_ok=True)
                raise OSError("as with a machine that is gone")
            yield from gather(pins)(batches)

        return run

    monkeypatch.setattr(passes, "gather", losing)
    records = spark.createDataFrame(pa.Table.from_batches([batch(numbered([value(1, game_name="golf")]))]))
    workers = Workers(2, {}, 100, most_files=-1)
    report = workers.run(records, pins(tmp_path))
    assert report.retried
    assert [written.file.rows for written in report.files.written] == [1]
    assert not workers.run(records, pins(tmp_path)).retried


@pytest.mark.parametrize("most_files", [2_000, 0], ids=["written", "brought together"])
def test_what_workers_are_given_leaves_nothing_on_a_disk_however_large_it_is(
    spark: SparkSession, tmp_path: Path, most_files: int
) -> None:
    """A session has a pass or two for each batch, for months, and schemas of megabytes."""
    folder = Path(spark.sparkContext._temp_dir)  # where Spark puts what is large
    before = {*folder.iterdir()}
    refused = {(number, (0,)): Verdict("unusable_schema", "x" * 10_000) for number in range(1_000, 1_300)}
    records = spark.createDataFrame(pa.Table.from_batches([batch(numbered([value(1, game_name="golf")]))]))
    report = Workers(2, {}, 100, most_files).run(records, pins(tmp_path, refused=refused))
    assert [written.file.rows for written in report.files.written] == [1]
    assert {*folder.iterdir()} == before
