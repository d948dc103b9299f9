"""Logs of tables as a loss of power leaves them: read again afterwards, and without what was taken."""

from __future__ import annotations

import json
import struct
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from tests.ingest.commits import by_log
from tests.ingest.tables.test_log_commit import SCHEMA, written

from distributary.errors import CheckpointMismatch, PipelineError
from distributary.ingest.log_paths import LOG, entry_path
from distributary.ingest.storage.opening import files_at
from distributary.ingest.storage.posix import PosixFiles
from distributary.ingest.tables import mending
from distributary.ingest.tables.change import create
from distributary.ingest.tables.log import entry, put_entry
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.mending import mend

APP, BATCHES = "app/events", 4


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Batches 0 to 3 in versions 1 to 4, with a checkpoint of the log at version 3."""
    create(tmp_path / "t", SCHEMA, {})
    commits = NativeCommits()
    for batch in range(BATCHES):
        by_log(commits, tmp_path / "t", [written(tmp_path / "t", [{"a": batch}])], SCHEMA, APP, batch)
        if batch == 2:
            DeltaTable(tmp_path / "t").create_checkpoint()
    return tmp_path / "t"


def mended(table: Path, before: int = BATCHES - 1) -> list[int]:
    """The versions that were taken, where all batches before this one were synced."""
    return mend(files_at(table), lambda app, number: app == APP and number < before)


def values(table: Path) -> list[int]:
    found: list[int] = DeltaTable(table).to_pyarrow_table()["a"].to_pylist()
    return sorted(found)


def emptied(data: bytes) -> bytes:
    return b""


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def cut_behind_a_line(data: bytes) -> bytes:
    return b"".join(data.splitlines(keepends=True)[:-1])


def blank(data: bytes) -> bytes:
    """As blocks that were given to a file and never written: its size is right."""
    return b"\0" * len(data)


def lose(path: Path, damage: Callable[[bytes], bytes]) -> None:
    path.write_bytes(damage(path.read_bytes()))


def test_nothing_is_done_to_a_log_that_is_whole(table: Path) -> None:
    before = {path: path.read_bytes() for path in table.rglob("*") if path.is_file()}
    assert mended(table) == []
    assert {path: path.read_bytes() for path in table.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("damage", [emptied, cut, cut_behind_a_line, blank])
def test_a_commit_that_was_not_synced_is_out_again_and_can_be_repeated(
    table: Path, damage: Callable[[bytes], bytes]
) -> None:
    lose(table / entry_path(4), damage)
    assert mended(table) == [4]
    assert values(table) == [0, 1, 2]
    assert DeltaTable(table).transaction_version(APP) == 2
    assert by_log(NativeCommits(), table, [written(table, [{"a": 3}])], SCHEMA, APP, 3)
    assert values(table) == [0, 1, 2, 3]
    assert mended(table, BATCHES) == []


@pytest.mark.parametrize("damage", [emptied, cut, blank])
def test_a_commit_whose_files_were_taken_is_out_again(table: Path, damage: Callable[[bytes], bytes]) -> None:
    last = json.loads((table / entry_path(4)).read_text().splitlines()[-1])["add"]["path"]
    lose(table / last, damage)
    assert mended(table) == [4]
    assert values(table) == [0, 1, 2]


def test_rows_that_delta_rs_put_in_the_place_of_others_are_out_again_where_any_line_of_that_is_missing(
    table: Path,
) -> None:
    """As upkeep does with old batches of the ledger: what is left of its entry took rows away and brought none."""
    instead = pa.Table.from_pylist([{"a": 9}], SCHEMA)
    write_deltalake(table, instead, mode="overwrite", predicate="a >= 1")
    assert values(table) == [0, 9]
    whole = (table / entry_path(BATCHES + 1)).read_bytes()
    lines = whole.splitlines(keepends=True)
    assert len(lines) == 5
    for kept in range(1, len(lines)):
        (table / entry_path(BATCHES + 1)).write_bytes(b"".join(lines[:kept]))
        assert mended(table, BATCHES) == [BATCHES + 1]
        assert values(table) == [0, 1, 2, 3]
    (table / entry_path(BATCHES + 1)).write_bytes(whole)
    assert mended(table, BATCHES) == []
    assert values(table) == [0, 9]


@pytest.mark.parametrize("damage", [emptied, cut, blank])
@pytest.mark.parametrize("name", ["00000000000000000003.checkpoint.parquet", "_last_checkpoint"])
def test_a_checkpoint_of_the_log_that_cannot_be_read_is_done_without(
    table: Path, name: str, damage: Callable[[bytes], bytes]
) -> None:
    lose(table / "_delta_log" / name, damage)
    assert mended(table) == []
    assert values(table) == [0, 1, 2, 3]
    assert not (table / "_delta_log" / "_last_checkpoint").exists()


def test_a_checkpoint_that_holds_what_was_taken_goes_with_it(table: Path) -> None:
    DeltaTable(table).create_checkpoint()
    lose(table / entry_path(4), emptied)
    assert mended(table) == [4]
    assert values(table) == [0, 1, 2]
    assert DeltaTable(table).transaction_version(APP) == 2


def test_a_checkpoint_without_which_nothing_could_be_read_stays(table: Path) -> None:
    DeltaTable(table).create_checkpoint()
    for version in (0, 1):
        (table / entry_path(version)).unlink()
    (table / "_delta_log" / "00000000000000000003.checkpoint.parquet").unlink()
    lose(table / entry_path(4), emptied)
    assert mended(table) == [4]
    assert values(table) == [0, 1, 2, 3]


@pytest.mark.parametrize("damage", [emptied, cut, cut_behind_a_line])
def test_a_compaction_that_was_not_synced_takes_no_row_with_it(
    table: Path, damage: Callable[[bytes], bytes]
) -> None:
    DeltaTable(table).optimize.compact()
    lose(table / entry_path(5), damage)
    assert mended(table, BATCHES) == [5]
    assert values(table) == [0, 1, 2, 3]


@pytest.mark.parametrize("damage", [emptied, blank])
def test_a_compaction_whose_file_was_taken_takes_no_row_with_it(
    table: Path, damage: Callable[[bytes], bytes]
) -> None:
    before = set(table.glob("*.parquet"))
    DeltaTable(table).optimize.compact()
    (compacted,) = set(table.glob("*.parquet")) - before
    lose(compacted, damage)
    assert mended(table, BATCHES) == [5]
    assert values(table) == [0, 1, 2, 3]


@pytest.mark.parametrize("lines", [1, 2, 3])
def test_rows_written_anew_whose_entry_is_cut_behind_a_line_are_neither_lost_nor_twice(
    table: Path, lines: int
) -> None:
    DeltaTable(table).optimize.compact()
    DeltaTable(table).delete("a = 0")
    assert values(table) == [1, 2, 3]
    lose(table / entry_path(6), lambda data: b"".join(data.splitlines(keepends=True)[:lines]))
    assert mended(table, BATCHES) == ([6] if lines < 3 else [])
    assert values(table) == ([0, 1, 2, 3] if lines < 3 else [1, 2, 3])


@pytest.mark.parametrize("lines", [2, 3, 4])
def test_rows_appended_by_spark_whose_entry_is_cut_behind_a_line_come_again(table: Path, lines: int) -> None:
    adds = [action for version in (1, 2) for action in entry(files_at(table), version) if "add" in action]
    info = {
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": "[]"},
        "operationMetrics": {"numFiles": "3", "numOutputRows": "2"},
    }
    actions: list[Mapping[str, Any]] = [
        {"commitInfo": info},
        {"txn": {"appId": APP, "version": BATCHES}},
        *adds,
    ]
    assert put_entry(table, 5, actions[:lines])
    assert mended(table, BATCHES) == ([5] if lines < 4 else [])


def test_what_a_later_version_made_of_a_commit_that_was_taken_goes_with_it(table: Path) -> None:
    DeltaTable(table).optimize.compact()
    lose(table / entry_path(4), emptied)
    assert mended(table) == [5, 4]
    assert by_log(NativeCommits(), table, [written(table, [{"a": 3}])], SCHEMA, APP, 3)
    assert values(table) == [0, 1, 2, 3]


def test_what_a_later_version_made_of_a_compaction_that_was_taken_goes_with_it(table: Path) -> None:
    DeltaTable(table).optimize.compact()
    DeltaTable(table).delete("a = 0")
    lose(table / entry_path(5), emptied)
    assert mended(table, BATCHES) == [6, 5]
    assert values(table) == [0, 1, 2, 3]


def test_a_later_version_that_has_nothing_of_what_was_taken_stays(table: Path) -> None:
    DeltaTable(table).delete("a = 0")
    DeltaTable(table).delete("a = 1")
    lose(table / entry_path(5), emptied)
    assert mended(table, BATCHES) == [5]
    assert values(table) == [0, 2, 3]


def test_what_others_did_since_the_power_came_back_stays(table: Path) -> None:
    lose(table / entry_path(4), emptied)
    opened = DeltaTable(table)
    opened.optimize.compact()
    opened.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert mended(table) == [4]
    assert values(table) == [0, 1, 2]


def test_what_a_version_removed_that_goes_with_another_has_to_be_there(table: Path) -> None:
    """Two commits that were not synced, of one the entry is lost and of the other the file, and somebody compacted both."""
    by_log(NativeCommits(), table, [written(table, [{"a": 4}])], SCHEMA, APP, 4)
    added = json.loads((table / entry_path(5)).read_text().splitlines()[-1])["add"]["path"]
    DeltaTable(table).optimize.compact()
    lose(table / entry_path(4), emptied)
    lose(table / added, emptied)
    assert mended(table) == [6, 5, 4]
    assert values(table) == [0, 1, 2]


def test_where_mending_ends_half_way_it_goes_on(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    DeltaTable(table).optimize.compact()
    lose(table / entry_path(4), emptied)
    put = PosixFiles.put

    def once(files: PosixFiles, path: str, data: bytes) -> None:
        monkeypatch.setattr(PosixFiles, "put", failing)
        put(files, path, data)

    def failing(files: PosixFiles, path: str, data: bytes) -> None:
        raise OSError

    monkeypatch.setattr(PosixFiles, "put", once)
    with pytest.raises(OSError):
        mended(table)
    monkeypatch.setattr(PosixFiles, "put", put)
    assert mended(table) == [4]
    assert values(table) == [0, 1, 2]


# A file of vectors, of which one is asked for.
VECTOR = b"v" * 40
VECTORS = (
    b"\1abc" + struct.pack(">i", len(VECTOR)) + VECTOR + struct.pack(">I", zlib.crc32(VECTOR)) + b"other"
)


@pytest.mark.parametrize(
    ("content", "lost"),
    [
        (None, True),
        (b"", True),
        (VECTORS, False),
        (VECTORS[:-5], False),
        (VECTORS[:-6], True),
        (blank(VECTORS), True),
        (VECTORS[:30] + bytes(27), True),
    ],
    ids=["gone", "emptied", "whole", "whole but for another", "cut off", "blank", "its end blank"],
)
def test_a_deletion_whose_vector_was_taken_is_out_again(
    table: Path, content: bytes | None, lost: bool
) -> None:
    """https://github.com/delta-io/delta/blob/master/PROTOCOL.md#deletion-vectors has this descriptor, of this file."""
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40}
    (added,) = [action["add"] for action in entry(files_at(table), 4) if "add" in action]
    actions = [
        {"remove": {"path": added["path"], "dataChange": True}},
        {"add": {**added, "deletionVector": vector}},
    ]
    assert put_entry(table, 5, actions)
    name = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    (table / "ab").mkdir()
    if content is not None:
        (table / "ab" / name).write_bytes(content)
    assert mended(table, BATCHES) == ([5] if lost else [])


def test_a_file_that_a_later_version_removed_is_not_missed(table: Path) -> None:
    opened = DeltaTable(table)
    opened.optimize.compact()
    opened.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert mended(table) == []
    assert values(table) == [0, 1, 2, 3]


@pytest.mark.parametrize("damage", [emptied, cut_behind_a_line, blank])
def test_a_table_that_was_being_made_is_none(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    create(tmp_path / "t", SCHEMA, {})
    lose(tmp_path / "t" / entry_path(0), damage)
    lose(tmp_path / "t" / entry_path(0), cut_behind_a_line)
    assert mended(tmp_path / "t") == [0]
    assert create(tmp_path / "t", SCHEMA, {}) is not None


def test_where_taking_away_what_was_being_made_ends_half_way_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(tmp_path / "t", SCHEMA, {})
    by_log(NativeCommits(), tmp_path / "t", [written(tmp_path / "t", [{"a": 0}])], SCHEMA, APP, 0)
    for version in (0, 1):
        lose(tmp_path / "t" / entry_path(version), emptied)
    delete = PosixFiles.delete

    def half(files: PosixFiles, paths: Iterable[str]) -> None:
        delete(files, [next(iter(paths))])
        raise OSError

    with monkeypatch.context() as patch, pytest.raises(OSError):
        patch.setattr(PosixFiles, "delete", half)
        mended(tmp_path / "t", 0)
    mended(tmp_path / "t", 0)
    assert create(tmp_path / "t", SCHEMA, {}) is not None


def test_of_two_starts_that_find_a_table_half_made_neither_takes_away_what_the_other_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of two pipelines with one ledger: one is about to take the damaged beginning away, and the other mends, makes and fills it."""
    table = tmp_path / "t"
    create(table, SCHEMA, {})
    lose(table / entry_path(0), emptied)
    delete = PosixFiles.delete

    def other() -> None:
        mended(table, 0)
        create(table, SCHEMA, {})
        by_log(NativeCommits(), table, [written(table, [{"a": 0}])], SCHEMA, APP, 0)

    rival = threading.Thread(target=other)

    def late(files: PosixFiles, paths: Iterable[str]) -> None:
        wanted = list(paths)
        if wanted and threading.current_thread() is not rival and not rival.ident:
            rival.start()
            # Either it is done, or it waits for who is here.
            rival.join(2)
        delete(files, wanted)

    monkeypatch.setattr(PosixFiles, "delete", late)
    assert mended(table, 0) == [0]
    rival.join(30)
    assert not rival.is_alive()
    assert values(table) == [0]


def test_a_start_that_stands_still_amid_mending_keeps_nobody_from_tables_that_are_whole(table: Path) -> None:
    with PosixFiles(table).locked(LOG, 0):
        assert mended(table) == []


def test_a_start_that_stands_still_amid_mending_is_told_of(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mending, "_MOST_WAITED_SECONDS", 0.1)
    lose(table / entry_path(BATCHES), emptied)
    with PosixFiles(table).locked(LOG, 0), pytest.raises(PipelineError, match="may be standing still"):
        mended(table)
    assert mended(table) == [BATCHES]


def test_sums_that_hadoop_keeps_of_a_file_go_where_they_are_not_whole(table: Path) -> None:
    sums = table / "_delta_log" / f".{entry_path(4).rpartition('/')[2]}.crc"
    size = (table / entry_path(4)).stat().st_size
    whole = b"crc\0" + struct.pack(">i", 512) + b"sums" * -(-size // 512)
    for content, stays in ((whole, True), (whole[:9], False), (blank(whole), False)):
        sums.write_bytes(content)
        mended(table)
        assert sums.exists() is stays


def test_a_version_that_is_gone_from_amid_a_log_is_told(table: Path) -> None:
    (table / "_delta_log" / "00000000000000000003.checkpoint.parquet").unlink()
    (table / entry_path(3)).unlink()
    with pytest.raises(CheckpointMismatch, match="version 3 of its log is gone, and later ones are there"):
        mended(table)


def test_a_log_whose_beginning_is_damaged_is_told(tmp_path: Path) -> None:
    create(tmp_path / "t", SCHEMA, {})
    by_log(NativeCommits(), tmp_path / "t", [written(tmp_path / "t", [{"a": 0}])], SCHEMA, APP, 0)
    lose(tmp_path / "t" / entry_path(0), emptied)
    with pytest.raises(CheckpointMismatch, match="the first version of its log is damaged"):
        mended(tmp_path / "t", 0)


def test_only_what_was_not_synced_is_looked_at(table: Path) -> None:
    lose(table / entry_path(1), emptied)
    assert mended(table) == []
    assert pa.table(DeltaTable(table).get_add_actions(flatten=True)).num_rows == BATCHES


def test_a_log_to_which_nothing_happened_is_not_listed(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[str] = []
    names = PosixFiles.names

    def noted(files: PosixFiles, folder: str = "", after: str = "") -> Iterator[str]:
        listed.append(folder)
        return names(files, folder, after)

    monkeypatch.setattr(PosixFiles, "names", noted)
    assert mended(table, BATCHES) == []
    assert not listed
    # A newer checkpoint than the one that is told of may be a broken one.
    (table / "_delta_log" / "00000000000000000004.checkpoint.parquet").write_bytes(b"")
    assert mended(table, BATCHES) == []
    assert listed
    assert values(table) == [0, 1, 2, 3]


# Lighter: test_nothing_is_done_to_a_log_that_is_whole.
@pytest.mark.heavy
@pytest.mark.spark
def test_files_that_a_shallow_clone_has_elsewhere_are_not_missed(spark: SparkSession, tmp_path: Path) -> None:
    origin, clone = tmp_path / "origin ä", tmp_path / "clone"
    spark.range(20).write.format("delta").save(str(origin))
    spark.sql(f"CREATE TABLE delta.`{clone}` SHALLOW CLONE delta.`{origin}`")
    spark.range(20, 25).write.format("delta").mode("append").save(str(clone))
    spark.sql(f"DELETE FROM delta.`{clone}` WHERE id = 3")  # noqa: S608 - the path of a test
    entry_of_all = [json.loads(line) for line in (clone / entry_path(0)).read_text().splitlines()]
    elsewhere = [action["add"]["path"] for action in entry_of_all if "add" in action]
    assert elsewhere and all(path.startswith("file:/") and path[6] != "/" for path in elsewhere)
    assert mend(files_at(clone), lambda after, committed: False) == []
    spark.catalog.clearCache()
    assert spark.read.format("delta").load(str(clone)).count() == 24
