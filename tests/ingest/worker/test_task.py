from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.ingest.kafka_records import batch, numbered

from distributary.ingest.storage.contract import Files
from distributary.ingest.worker import task
from distributary.ingest.worker.task import AsideFiles, tally


def test_names_are_counted() -> None:
    counts: Counter[str] = Counter()
    tally(counts, ["a", "b"], [2, 1])
    tally(counts, ["b", "c"], [3, 1])
    assert counts == Counter({"b": 4, "a": 2, "c": 1})


def test_what_comes_often_is_kept_however_late_it_comes() -> None:
    counts: Counter[int] = Counter()
    for start in range(0, 200_000, 20_000):
        tally(counts, range(start, start + 20_000), [1] * 20_000)
    tally(counts, [-1], [50])
    tally(counts, range(200_000, 240_000), [1] * 40_000)
    assert len(counts) <= 20_000
    assert counts.most_common(1) == [(-1, 50)]


def test_of_long_names_no_more_are_kept_than_the_driver_can_hold_of_all_tasks() -> None:
    counts: Counter[str] = Counter()
    for start in range(0, 2_000, 500):
        names = [f"{number:06}" * 3_000 for number in range(start, start + 500)]
        tally(counts, ["often", *names], [100, *[1] * 500])
    assert sum(map(len, counts)) <= 2 * task._MOST_LETTERS
    assert counts.most_common(1) == [("often", 400)]


def test_records_are_kept_as_they_came(tmp_path: Path) -> None:
    first, second = batch(numbered([b"a", None])), batch(numbered([b"\xff"]))
    aside = AsideFiles(str(tmp_path / "7"))
    aside.add(first)
    aside.add(second)
    (name,) = aside.close()
    assert pq.read_table(tmp_path / "7" / name).to_pylist() == [*first.to_pylist(), *second.to_pylist()]


def test_where_nothing_is_set_aside_nothing_is_made(tmp_path: Path) -> None:
    assert AsideFiles(str(tmp_path / "7")).close() == []
    assert list(tmp_path.iterdir()) == []


def test_tasks_that_share_the_folder_do_not_meet(tmp_path: Path) -> None:
    files = [AsideFiles(str(tmp_path)) for _ in range(2)]
    for file in files:
        file.add(batch(numbered([b"a"])))
    assert len({name for file in files for name in file.close()}) == 2


def test_a_long_row_of_records_is_cut_into_files_that_fit_into_memory(
    place: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "_ASIDE_BYTES", 1_000)
    files, sent = AsideFiles(place.below("7")), [batch(numbered([b"x" * 700, bytes([n])])) for n in range(9)]
    for records in sent:
        files.add(records)
    names = files.close()
    assert len(names) > 1
    assert names == files.close()
    read = [pq.read_table(pa.BufferReader(place.read(f"7/{name}"))) for name in names]
    assert pa.concat_tables(read).to_pylist() == pa.Table.from_batches(sent).to_pylist()


def test_records_that_are_alike_are_cut_by_what_they_take_in_memory_and_not_on_a_disk(
    place: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "_ASIDE_BYTES", 100_000)
    files = AsideFiles(place.below("7"))
    for _ in range(9):
        files.add(batch(numbered([b"x" * 60_000])))
    read = [pq.read_table(pa.BufferReader(place.read(f"7/{name}"))) for name in files.close()]
    assert sum(rows.num_rows for rows in read) == 9
    assert max(rows.nbytes for rows in read) < 200_000


def test_what_is_given_up_leaves_nothing(place: Files) -> None:
    files = AsideFiles(place.below("7"))
    files.add(batch(numbered([b"a"])))
    files.abandon()
    assert list(place.list("7")) == []
