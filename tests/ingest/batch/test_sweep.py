from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.ingest.commits import by_log

from distributary.ingest.batch.sweep import sweep, sweep_batch
from distributary.ingest.parquet.data_file import DataFile, file_name
from distributary.ingest.tables.change import create
from distributary.ingest.tables.log_commit import NativeCommits

GENERATION, OTHER = "a" * 32, "b" * 32
SCHEMA = pa.schema([("n", pa.int64())])


def left(folder: Path, generation: str, batch_id: int) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / file_name(generation, batch_id)
    path.write_bytes(b"rows")
    return path


def below(root: Path, *files: Path) -> list[str]:
    return [str(file.relative_to(root)) for file in files]


def test_only_our_files_of_undecided_batches_go(tmp_path: Path) -> None:
    table = tmp_path / "t"
    create(table, SCHEMA, {})
    orphan, decided = left(table, GENERATION, 3), left(table, GENERATION, 2)
    foreign, named_otherwise = left(table, OTHER, 3), table / "part-0.parquet"
    named_otherwise.write_bytes(b"rows")
    assert sweep(tmp_path, GENERATION, {1, 2}) == below(tmp_path, orphan)
    assert {path.name for path in table.glob("*.parquet")} == {
        decided.name,
        foreign.name,
        named_otherwise.name,
    }


def test_files_of_a_table_never_created_go_too(tmp_path: Path) -> None:
    orphan = left(tmp_path / "new", GENERATION, 0)
    assert sweep(tmp_path, GENERATION, ()) == below(tmp_path, orphan)


def test_a_file_that_a_log_names_stays_even_when_its_manifest_is_lost(tmp_path: Path) -> None:
    table = tmp_path / "t"
    create(table, SCHEMA, {})
    kept = left(table, GENERATION, 5)
    by_log(NativeCommits(), table, [DataFile("t", kept.name, 1, 4, '{"numRecords":1}')], SCHEMA, "app", 5, {})
    assert sweep(tmp_path, GENERATION, ()) == []
    assert kept.exists()


def test_a_file_that_only_an_old_version_names_stays(tmp_path: Path) -> None:
    table = tmp_path / "t"
    create(table, SCHEMA, {})
    kept = left(table, GENERATION, 5)
    log = table / "_delta_log"
    by_log(NativeCommits(), table, [DataFile("t", kept.name, 1, 4, '{"numRecords":1}')], SCHEMA, "app", 5, {})
    remove = f'{{"remove":{{"path":"{kept.name}","deletionTimestamp":1,"dataChange":true}}}}'
    (log / "00000000000000000002.json").write_text(remove)
    assert sweep(tmp_path, GENERATION, ()) == []
    assert kept.exists()


@pytest.mark.parametrize("broken", ["{", '{"metaData":{}}'])
def test_a_table_whose_log_cannot_be_read_is_left_alone(tmp_path: Path, broken: str) -> None:
    kept = left(tmp_path / "t", GENERATION, 1)
    (tmp_path / "t" / "_delta_log").mkdir()
    (tmp_path / "t" / "_delta_log" / "00000000000000000000.json").write_text(broken)
    assert sweep(tmp_path, GENERATION, ()) == sweep_batch(tmp_path, GENERATION, 1, ()) == []
    assert kept.exists()


def test_of_a_decided_batch_only_what_its_manifest_does_not_name_goes(tmp_path: Path) -> None:
    named, orphan, later = (left(tmp_path / "t", GENERATION, batch) for batch in (2, 2, 3))
    elsewhere, foreign = left(tmp_path / "u", GENERATION, 2), left(tmp_path / "u", OTHER, 2)
    assert sweep_batch(tmp_path, GENERATION, 2, {named.name}) == below(tmp_path, orphan, elsewhere)
    assert all(path.exists() for path in (named, later, foreign))
    assert not orphan.exists()


def test_of_a_decided_batch_a_file_that_a_log_names_stays_whatever_its_manifest_says(tmp_path: Path) -> None:
    table = tmp_path / "t"
    create(table, SCHEMA, {})
    committed, orphan = left(table, GENERATION, 5), left(table, GENERATION, 5)
    files = [DataFile("t", committed.name, 1, 4, '{"numRecords":1}')]
    by_log(NativeCommits(), table, files, SCHEMA, "app", 5, {})
    assert sweep_batch(tmp_path, GENERATION, 5, ()) == below(tmp_path, orphan)
    assert committed.exists()
