"""Rows that are marked by one program and read by another, and others that write to the table meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession
from tests.ingest.merge.test_upsert import COLUMNS, row
from tests.ingest.merge.upserted import Upserted, cleaned_up, ordered_by

from distributary.errors import TableAhead
from distributary.ingest.merge import live_files, vectors
from distributary.ingest.merge.attempts import Attempts
from distributary.ingest.merge.counts import MergeCounts
from distributary.ingest.merge.rule import MergeRule
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.commit import make_lasting
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.transaction import Transaction

MANY = 3000


@pytest.fixture
def table(tmp_path: Path) -> Upserted:
    table = Upserted.made(tmp_path, COLUMNS, MergeRule(("id",), ordered_by("seq")))
    table.merge([row(key, 1, "a") for key in range(MANY)], files=2)
    table.merge([row(key, 2, "b") for key in range(0, MANY, 3)], files=2)
    table.merge([row(key, 3, "c") for key in range(0, MANY, 5)])
    return table


def expected() -> list[tuple[int, str]]:
    return [(key, "c" if not key % 5 else "b" if not key % 3 else "a") for key in range(MANY)]


def by_spark(spark: SparkSession, path: Path) -> list[tuple[int, str]]:
    return sorted((one.id, one.v) for one in spark.read.format("delta").load(str(path)).collect())


def by_delta_rs(path: Path) -> list[tuple[int, str]]:
    rows = pa.table(QueryBuilder().register("t", DeltaTable(path)).execute("SELECT id, v FROM t").read_all())
    return sorted(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))


def own(table: Upserted) -> list[tuple[int, str]]:
    return sorted((one["id"], one["v"]) for one in table.rows())


@pytest.mark.parametrize("checkpoint", [False, True])
def test_delta_rs_reads_what_was_merged(table: Upserted, tmp_path: Path, checkpoint: bool) -> None:
    if checkpoint:
        DeltaTable(tmp_path / "players").create_checkpoint()
    assert by_delta_rs(tmp_path / "players") == expected() == own(table)


def test_merges_go_on_from_a_checkpoint_of_delta_rs(table: Upserted, tmp_path: Path) -> None:
    DeltaTable(tmp_path / "players").create_checkpoint()
    for entry in sorted((tmp_path / "players" / "_delta_log").glob("*.json"))[:-1]:
        entry.unlink()
    later = Upserted(table.root, table.schema, table.rule, batch=table.batch)
    assert later.merge([row(0, 4, "d"), row(1, 0, "z")]) == MergeCounts(updated=1, older=1)
    assert by_delta_rs(tmp_path / "players") == [(0, "d"), *expected()[1:]]


@contextmanager
def meanwhile(rival: Callable[[], Any]) -> Iterator[list[int]]:
    """Inside, somebody does something between the first look at a table and the commit; how many looks there were."""
    looked, times = Attempts.actions, list[int]()

    def late(self: Attempts, *given: Any) -> Any:
        found = looked(self, *given)
        times.append(len(times))
        if len(times) == 1:
            rival()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Attempts, "actions", late)
        yield times


@pytest.mark.parametrize(
    "keys",
    [
        [Decimal(10**30 + 7 * n) for n in range(5)],
        [Decimal("1234567890123456.1234") + n * Decimal("0.0001") for n in range(5)],
        [Decimal("99999999999.99") - n * Decimal("0.01") for n in range(5)],
    ],
    ids=["beyond a long", "beyond a double", "within one"],
)
def test_keys_that_are_decimals_are_found_in_what_delta_rs_compacted(
    tmp_path: Path, keys: list[Decimal]
) -> None:
    """Its statistics tell decimals by rounded numbers, or by none that they have."""
    scale = -int(keys[0].as_tuple().exponent)
    digits = {0: 38, 4: 20, 2: 13}[scale]
    columns = [("id", pa.decimal128(digits, scale)), *COLUMNS[1:]]
    table = Upserted.made(tmp_path, columns, MergeRule(("id",), ordered_by("seq")))
    for some in (keys[:3], keys[3:]):
        table.merge([{**row(0, 1, "a"), "id": key} for key in some])
    DeltaTable(tmp_path / "players").optimize.compact()
    found = [table.merge([{**row(0, 2, "b"), "id": key}]) for key in keys]
    assert found == [MergeCounts(updated=1)] * len(keys)
    assert sorted(table.by_key()) == sorted(keys)


def test_a_compaction_between_look_and_commit_is_looked_at_anew(table: Upserted, tmp_path: Path) -> None:
    path = tmp_path / "players"
    with meanwhile(DeltaTable(path).optimize.compact) as times:
        assert table.merge([row(0, 4, "d"), row(MANY, 1, "new")]) == MergeCounts(updated=1, inserted=1)
    assert len(times) == 2
    assert own(table) == by_delta_rs(path) == [(0, "d"), *expected()[1:], (MANY, "new")]
    named = {vectors.file_of(add["deletionVector"]) for _, add in _live(table) if "deletionVector" in add}
    written = {
        name for name in table.place.names() if name.startswith("deletion_vector_0123abcd-0000-0000-0003")
    }
    assert written <= named


def test_whoever_merges_until_the_log_was_cleaned_up_takes_nothing_from_who_was_first(
    table: Upserted,
) -> None:
    """Both runs finish one batch, and the one behind goes on: what it wrote for that batch is in the table."""
    part = table.part([row(0, 4, "d")])

    def by_the_next_run() -> None:
        assert NativeCommits().commit(part)
        for key in range(3):
            table.merge([row(MANY + key, 1, "new")])
        cleaned_up(table)

    with meanwhile(by_the_next_run), pytest.raises(TableAhead):
        NativeCommits().commit(part)
    assert own(table) == [(0, "d"), *expected()[1:], *((MANY + key, "new") for key in range(3))]


def test_a_merge_that_lasted_until_the_log_was_cleaned_up_is_made_behind_what_is_there(
    table: Upserted,
) -> None:
    def by_others() -> None:
        part = table.part([row(MANY, 1, "new")])
        for batch in range(100, 103):
            told = Transaction("rival/events", batch)
            assert NativeCommits().commit(replace(part, transaction=told))
        cleaned_up(table)

    part = table.part([row(0, 4, "d")])
    with meanwhile(by_others):
        assert table.commit(part) == MergeCounts(updated=1)
    assert own(table) == [(0, "d"), *expected()[1:], (MANY, "new")]


def test_vectors_that_were_purged_before_anybody_synced_them_are_not_needed(
    table: Upserted, tmp_path: Path
) -> None:
    """As by `OPTIMIZE` and `VACUUM` between a run that died before its ledger's row and the next start."""
    part = table.part([row(0, 4, "d")])
    table.commit(part)
    DeltaTable(tmp_path / "players").optimize.compact()
    table.place.delete([name for name in table.place.names() if name.startswith("deletion_vector_")])
    start = NativeCommits()
    assert not start.commit(part)
    assert make_lasting(table.root, [part], start, there=[part.table]) == []
    assert own(table) == [(0, "d"), *expected()[1:]]


# Lighter: test_a_compaction_between_look_and_commit_is_looked_at_anew has another rival, test_what_spark_marked_is_marked_here Spark's marks.
@pytest.mark.heavy
def test_a_merge_by_hand_between_look_and_commit_is_looked_at_anew(
    spark: SparkSession, table: Upserted, tmp_path: Path
) -> None:
    path = tmp_path / "players"
    by_hand = (
        f"MERGE INTO delta.`{path}` t USING (SELECT explode(array(0, 1, {MANY})) AS id) s ON t.id = s.id "  # noqa: S608
        "WHEN MATCHED THEN UPDATE SET v = 'by hand', seq = 7 WHEN NOT MATCHED THEN INSERT (id, seq, v) VALUES (s.id, 7, 'by hand')"
    )
    rows = [row(0, 6, "older"), row(1, 8, "newer"), row(2, 5, "d"), row(MANY, 8, "newer")]
    with meanwhile(lambda: spark.sql(by_hand)) as times:
        assert table.merge(rows) == MergeCounts(updated=3, older=1)
    assert len(times) == 2
    now = [(0, "by hand"), (1, "newer"), (2, "d"), *expected()[3:], (MANY, "newer")]
    assert by_spark(spark, path) == now == by_delta_rs(path)


def _live(table: Upserted) -> live_files.LiveFiles:
    return live_files.read(table.place, table.commits.state(table.place).version)


def test_spark_reads_what_was_merged(spark: SparkSession, table: Upserted, tmp_path: Path) -> None:
    assert by_spark(spark, tmp_path / "players") == expected()


def test_what_spark_marked_is_marked_here(spark: SparkSession, table: Upserted, tmp_path: Path) -> None:
    path = tmp_path / "players"
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 7 = 0")  # noqa: S608
    left = [(key, value) for key, value in expected() if key % 7]
    assert own(table) == left
    assert table.merge([row(7, 1, "back"), row(8, 9, "new")]) == MergeCounts(inserted=1, updated=1)
    now = sorted({**dict(left), 7: "back", 8: "new"}.items())
    assert by_spark(spark, path) == now == by_delta_rs(path)


# Lighter: test_what_spark_marked_is_marked_here, and delta-rs' compaction between look and commit.
@pytest.mark.heavy
def test_what_spark_rewrote_is_found_again(spark: SparkSession, table: Upserted, tmp_path: Path) -> None:
    path = tmp_path / "players"
    spark.sql(f"OPTIMIZE delta.`{path}`")
    assert table.merge([row(0, 4, "d")]) == MergeCounts(updated=1)
    spark.sql(f"UPDATE delta.`{path}` SET v = 'by hand', seq = 10 WHERE id IN (0, 1)")  # noqa: S608
    assert table.merge([row(0, 9, "older"), row(1, 11, "newer")]) == MergeCounts(older=1, updated=1)
    now = [(0, "by hand"), (1, "newer"), *expected()[2:]]
    assert by_spark(spark, path) == now == own(table)
    spark.sql(f"REORG TABLE delta.`{path}` APPLY (PURGE)")
    assert table.merge([row(2, 2, "e")]) == MergeCounts(updated=1)
    assert by_spark(spark, path) == [*now[:2], (2, "e"), *now[3:]]


def test_a_vector_of_spark_is_read_and_written_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark.range(0, 200_000, 1, 1).write.format("delta").option("delta.enableDeletionVectors", "true").save(
        str(path)
    )
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 3 = 0 OR id BETWEEN 70000 AND 90000 OR id = 199999")  # noqa: S608
    gone = [n for n in range(200_000) if not n % 3 or 70_000 <= n <= 90_000 or n == 199_999]
    ((_, add),) = live_files.read(files_at(path), 1)
    found = vectors.read(files_at(path), add["deletionVector"])
    assert found.tolist() == gone
    assert vectors.decoded(vectors.encoded(np.array(gone, dtype=np.uint32))).tolist() == gone
