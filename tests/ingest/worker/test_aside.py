from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from tests.ingest.kafka_records import batch, numbered

from distributary.ingest.worker.task import AsideFile


def test_records_are_kept_as_they_came(tmp_path: Path) -> None:
    first, second = batch(numbered([b"a", None])), batch(numbered([b"\xff"]))
    aside = AsideFile(str(tmp_path / "7"))
    aside.add(first)
    aside.add(second)
    (path,) = aside.close()
    assert pq.read_table(path).to_pylist() == [*first.to_pylist(), *second.to_pylist()]


def test_where_nothing_is_set_aside_nothing_is_made(tmp_path: Path) -> None:
    assert AsideFile(str(tmp_path / "7")).close() == []
    assert list(tmp_path.iterdir()) == []


def test_tasks_that_share_the_folder_do_not_meet(tmp_path: Path) -> None:
    files = [AsideFile(str(tmp_path)) for _ in range(2)]
    for file in files:
        file.add(batch(numbered([b"a"])))
    assert len({path for file in files for path in file.close()}) == 2
