from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.ingest.merge.test_upsert import COLUMNS, row, values
from tests.ingest.merge.upserted import Upserted, ordered_by

from distributary.ingest.log_paths import entry_path
from distributary.ingest.merge import attempts, live_files
from distributary.ingest.merge.attempts import KnownFiles, Version
from distributary.ingest.merge.rule import MergeRule
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables import log_commit
from distributary.ingest.tables.commit import make_lasting
from distributary.ingest.tables.log import entry_tag, put_entry


@pytest.fixture
def table(tmp_path: Path) -> Upserted:
    table = Upserted.made(tmp_path, COLUMNS, MergeRule(("id",), ordered_by("seq")))
    for seq in range(6):
        table.merge([row(key, seq, str(seq)) for key in range(seq, 9)], files=2)
    return table


def at(table: Upserted, version: int) -> dict[str, object]:
    return {name: add.get("deletionVector") for name, add in live_files.read(table.place, version)}


def newest(table: Upserted) -> int:
    return table.commits.state(table.place).version


def test_a_checkpoint_tells_what_the_entries_before_it_did(table: Upserted, tmp_path: Path) -> None:
    version, before = newest(table), at(table, newest(table))
    assert before
    DeltaTable(tmp_path / "players").create_checkpoint()
    for number in range(version + 1):
        (tmp_path / "players" / entry_path(number)).unlink()
    assert at(table, version) == before


def test_a_checkpoint_that_nobody_tells_of_is_found(table: Upserted, tmp_path: Path) -> None:
    version, before = newest(table), at(table, newest(table))
    DeltaTable(tmp_path / "players").create_checkpoint()
    log = tmp_path / "players" / "_delta_log"
    (log / entry_path(1).rpartition("/")[2]).unlink()
    (log / "_last_checkpoint").unlink()
    assert at(table, version) == before
    (log / "_last_checkpoint").write_text("{")
    assert at(table, version) == before


def test_a_checkpoint_in_parts_counts_when_all_of_them_are_there(table: Upserted, tmp_path: Path) -> None:
    version, before = newest(table), at(table, newest(table))
    DeltaTable(tmp_path / "players").create_checkpoint()
    log = tmp_path / "players" / "_delta_log"
    (whole,) = log.glob("*.checkpoint.parquet")
    rows = pq.read_table(whole)
    whole.unlink()
    half = rows.num_rows // 2
    for number, part in ((1, rows.slice(0, half)), (2, rows.slice(half))):
        pq.write_table(part, log / f"{version:020d}.checkpoint.{number:010d}.{2:010d}.parquet")
    assert at(table, version) == before
    for number in range(version + 1):
        (tmp_path / "players" / entry_path(number)).unlink()
    assert at(table, version) == before
    (log / f"{version:020d}.checkpoint.{1:010d}.{2:010d}.parquet").unlink()
    with pytest.raises(FileNotFoundError):
        at(table, version)


# The classic one is in `make test`.
@pytest.mark.parametrize("kind", ["classic", pytest.param("v2", marks=pytest.mark.heavy)])
def test_checkpoints_of_spark_are_read(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t"
    frame = spark.range(0, 1000, 1, 3).selectExpr("id", "id % 7 AS v")
    told = {
        "delta.enableDeletionVectors": "true",
        "delta.checkpointInterval": "2",
        "delta.checkpointPolicy": kind,
    }
    frame.write.format("delta").options(**told).save(str(path))
    for number in range(2):
        spark.sql(f"DELETE FROM delta.`{path}` WHERE v = {number}")  # noqa: S608
    place = files_at(path)
    version = DeltaTable(path).version()
    before = live_files.read(place, version)
    names = {name: add["deletionVector"]["cardinality"] for name, add in before}
    checkpoint = max(int(file.name[:20]) for file in (path / "_delta_log").glob("[0-9]*.checkpoint.*"))
    assert checkpoint
    for number in range(checkpoint + 1):
        (path / entry_path(number)).unlink()
    after = live_files.read(place, version)
    assert {name: add["deletionVector"]["cardinality"] for name, add in after} == names
    assert len(names) == 3


def test_what_is_known_follows_entries_and_is_dropped_where_one_was_replaced(table: Upserted) -> None:
    known = KnownFiles(entry_tag)

    def version(number: int) -> Version:
        return Version(table.place, number, entry_tag(table.place, number))

    first = known.at(version(2))
    assert known.at(version(4)) is first
    assert dict(first) == dict(live_files.read(table.place, 4))
    # An older one is asked for by nobody, but it is no newer one.
    assert dict(known.at(version(3))) == dict(live_files.read(table.place, 3))
    kept = known.at(version(4))
    content = table.place.read(entry_path(4))
    table.place.put(entry_path(4), content)
    assert known.at(version(5)) is not kept


def test_a_table_that_was_overwritten_is_read_anew(table: Upserted) -> None:
    place = table.place
    before = values(table)
    newest_entry = entry_path(newest(table))
    # Another entry takes the place of the last one, with the same transaction and no files.
    batch = [line for line in place.read(newest_entry).splitlines() if line.startswith(b'{"txn"')]
    place.put(newest_entry, b"\n".join([*batch, b'{"commitInfo":{"timestamp":1,"operation":"OTHER"}}\n']))
    table.commits.forget(place)
    assert values(table) != before
    table.merge([row(5, 5, "5"), row(6, 9, "9")])
    assert values(table)[5] == "5"
    assert values(table)[6] == "9"


def test_rows_are_merged_again_whose_entry_was_replaced_before_anybody_looked_at_it(
    table: Upserted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the entry said of files was kept for that of the other writer, and each row was found to be there already."""
    before = values(table)

    def put(place: Files, version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
        new = put_entry(place, version, actions)
        place.put(entry_path(version), b'{"commitInfo":{"timestamp":1,"operation":"OTHER"}}\n')
        return new

    part = table.part([row(5, 9, "9"), row(10, 1, "new")])
    with monkeypatch.context() as patch:
        patch.setattr(log_commit, "put_entry", put)
        assert table.commits.commit(part)
    assert make_lasting(table.root, [part], table.commits) == [part]
    assert table.commits.commit(part)
    assert make_lasting(table.root, [part], table.commits) == []
    assert values(table) == {**before, 5: "9", 10: "new"}


def test_a_table_comes_to_be_known_while_another_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables are committed to side by side."""
    monkeypatch.setattr(attempts, "_MOST_FILES", 0)
    versions = list[Version]()
    for number in range(3):
        table = Upserted.made(tmp_path / str(number), COLUMNS, MergeRule(("id",), ordered_by("seq")))
        table.merge([row(1, 1, "a")])
        versions.append(Version(table.place, 1, entry_tag(table.place, 1)))
    known, late = KnownFiles(entry_tag), threading.Thread(target=lambda: known.at(versions[2]))

    class Meanwhile(dict[str, Any]):
        """Lets the other thread go on for as long as it can, once, where the first one looks which came first."""

        def __iter__(self) -> Iterator[str]:
            found = super().__iter__()
            if late.ident is None:
                late.start()
                late.join(0.5)
            return found

    monkeypatch.setattr(known, "_known", Meanwhile())
    for version in versions[:2]:
        assert len(known.at(version)) == 1
    late.join()
    assert len(known.at(versions[2])) == 1
