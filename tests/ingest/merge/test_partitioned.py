"""Tables in partitions with one row a key: a newer row is in the partition of its own values, wherever the row was that it replaces."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from tests.ingest.merge.test_upsert import START
from tests.ingest.merge.upserted import PLACE, PRESENT, Upserted, make, ordered_by, written

from distributary.errors import CommitImpossible
from distributary.ingest.merge import live_files
from distributary.ingest.merge.counts import MergeCounts
from distributary.ingest.merge.rule import Deletes, MergeRule, memory_folder
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.commit import commit_tables
from distributary.ingest.upkeep.compaction import compact

COLUMNS = [
    ("id", pa.int64()),
    ("seq", pa.int64()),
    ("country", pa.string()),
    ("a", pa.string()),
    ("gone", pa.bool_()),
]


def made(root: Path, rule: MergeRule | None = None, by: tuple[str, ...] = ("country",)) -> Upserted:
    rule = rule or MergeRule(("id",), ordered_by("seq"))
    return Upserted.made(root, COLUMNS, rule, deletes=rule.deletes is not None, partitions=by)


def row(
    key: int,
    seq: int,
    country: str | None,
    a: str | None = None,
    present: tuple[str, ...] | None = None,
    **more: Any,
) -> dict[str, Any]:
    place = {"topic": "t", "partition": 0, "offset": seq, "ts": START}
    return {**place, "id": key, "seq": seq, "country": country, "a": a, PRESENT: present, **more}


def files(table: Upserted) -> list[tuple[str, int]]:
    """Of each file in force its partition, and how many rows of it are the table's."""
    live = live_files.read(table.place, table.batch + 1)
    return sorted(
        (
            add["partitionValues"]["country"] or "",
            json.loads(add["stats"])["numRecords"] - add.get("deletionVector", {}).get("cardinality", 0),
        )
        for _, add in live
    )


def countries(table: Upserted) -> dict[int, tuple[str | None, str | None]]:
    return {key: (found["country"], found["a"]) for key, found in table.by_key().items()}


def test_a_row_moves_to_the_partition_of_its_newer_record(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.merge([row(1, 1, "de"), row(2, 1, "de"), row(3, 1, None)])
    assert table.merge([row(1, 2, "fr", "x"), row(3, 0, "de")]) == MergeCounts(updated=1, older=1)
    assert countries(table) == {1: ("fr", "x"), 2: ("de", None), 3: (None, None)}
    assert files(table) == [("", 1), ("de", 1), ("fr", 1)]


def test_who_reads_by_the_log_finds_each_row_in_its_partition(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.merge([row(1, 1, "de"), row(2, 1, "a/b=c %20")])
    table.merge([row(1, 2, "a/b=c %20"), row(3, 2, "de")])
    delta = DeltaTable(tmp_path / table.folder)
    assert delta.metadata().partition_columns == ["country"]
    asked = QueryBuilder().register("t", delta)
    for country, keys in (("a/b=c %20", [1, 2]), ("de", [3])):
        found = pa.table(asked.execute(f"SELECT id FROM t WHERE country = '{country}' ORDER BY id"))  # noqa: S608
        assert found["id"].to_pylist() == keys
    assert countries(table) == {1: ("a/b=c %20", None), 2: ("a/b=c %20", None), 3: ("de", None)}


def test_what_is_brought_together_between_two_batches_stays_in_its_partition(tmp_path: Path) -> None:
    table = made(tmp_path)
    for seq in range(4):
        table.merge([row(key, seq, country) for key, country in ((1, "de"), (2, "fr"), (3 + seq, "de"))])
    done = compact(files_at(tmp_path).below(table.folder))
    assert done.compacted > 2
    assert table.merge([row(3, 9, "fr", "moved"), row(1, 0, "it")]) == MergeCounts(updated=1, older=1)
    found = countries(table)
    assert found[3] == ("fr", "moved")
    assert (found[1], found[2]) == (("de", None), ("fr", None))


def test_a_row_that_is_made_of_several_is_in_the_partition_of_what_it_became(tmp_path: Path) -> None:
    table = made(tmp_path, MergeRule(("id",), ordered_by("seq"), "present"))
    every = ("country", "a")
    table.merge([row(key, 1, "de", "old", every) for key in (1, 2, 3)])
    counts = table.merge(
        [
            row(1, 2, "fr", present=("country",)),
            row(2, 2, "it", present=("country",)),
            row(2, 3, "it", "new", every),
        ]
    )
    assert counts == MergeCounts(updated=2, duplicate=1)
    assert countries(table) == {1: ("fr", "old"), 2: ("it", "new"), 3: ("de", "old")}
    assert files(table) == [("de", 1), ("fr", 1), ("it", 1)]


def test_a_row_that_is_marked_as_deleted_stays_in_its_partition(tmp_path: Path) -> None:
    memory = files_at(tmp_path).below(memory_folder("players"))
    table = made(tmp_path, MergeRule(("id",), ordered_by("seq"), deletes=Deletes(memory, mark="gone")))
    table.merge([row(1, 1, "de", gone=False), row(2, 1, "fr", gone=False)])
    # A batch of deletes alone has no file of any partition.
    assert table.merge([], [row(1, 2, None)]) == MergeCounts(deleted=1)
    assert {key: (one["country"], one["gone"]) for key, one in table.by_key().items()} == {
        1: ("de", True),
        2: ("fr", False),
    }


def test_deletes_alone_take_rows_out_of_any_partition(tmp_path: Path) -> None:
    memory = files_at(tmp_path).below(memory_folder("players"))
    table = made(tmp_path, MergeRule(("id",), ordered_by("seq"), deletes=Deletes(memory)))
    table.merge([row(1, 1, "de"), row(2, 1, "fr")])
    assert table.merge([], [row(2, 2, None), row(1, 0, None)]) == MergeCounts(deleted=1, older=1)
    assert countries(table) == {1: ("de", None)}


@pytest.mark.parametrize("by", [("id",), ("seq",), ("id", "seq")])
def test_keys_and_what_orders_them_may_be_in_no_file(tmp_path: Path, by: tuple[str, ...]) -> None:
    table = made(tmp_path, by=by)
    table.merge([row(key, 1, "de") for key in range(3)])
    counts = table.merge([row(1, 2, "fr"), row(2, 0, "fr"), row(9, 1, "it")])
    assert counts == MergeCounts(inserted=1, updated=1, older=1)
    assert countries(table) == {0: ("de", None), 1: ("fr", None), 2: ("de", None), 9: ("it", None)}


def test_partitions_of_other_keys_are_not_opened(tmp_path: Path) -> None:
    table = made(tmp_path, by=("id",))
    table.merge([row(key, 1, "de") for key in range(3)])
    for name, add in live_files.read(table.place, 1):
        if add["partitionValues"]["id"] != "1":
            table.place.delete([name])
    assert table.merge([row(1, 2, "fr")]) == MergeCounts(updated=1)


def test_files_of_other_partitions_than_the_table_has_are_never_appended(tmp_path: Path) -> None:
    """As where somebody made the table anew after they were decided."""
    table = made(tmp_path, by=())
    part = table.part([row(1, 1, "de")])
    anew = Upserted(table.root, table.schema, table.rule, folder="other", partitions=("country",))
    make(table.root.below("other"), table.schema, partitions=("country",))
    staged = written(table.root, "other", pa.Table.from_pylist([row(1, 1, "de")], table.schema), 0)
    with pytest.raises(CommitImpossible, match=r"it is partitioned by country, and they by nothing"):
        anew.commits.commit(replace(part, table="other", place=anew.place, files=[staged]))


def bare(root: Path, *, lacking: int = 0) -> Upserted:
    """A table in no partitions without so many of its last columns, whose next batches are in partitions."""
    rule = MergeRule(("id",), ordered_by("seq"))
    table = Upserted.made(root, COLUMNS[: len(COLUMNS) - lacking], rule, deletes=True)
    table.partitions = ("country",)
    return table


def with_all_columns(table: Upserted) -> Upserted:
    table.schema = pa.schema([*table.schema, *COLUMNS[len(table.schema) - len(PLACE) :]])
    return table


@pytest.mark.parametrize("lacking", [0, 3])
def test_a_table_that_lost_its_partitions_before_its_first_row_is_given_them_again(
    tmp_path: Path, lacking: int
) -> None:
    """Another writer's entry took the place of the one that brought them, after the batch was decided; or it got the columns without them since."""
    table = bare(tmp_path, lacking=lacking)
    deletes = [{key: value for key, value in row(1, 1, None).items() if key != PRESENT}]
    assert commit_tables(None, [table.decided([], deletes)], 1) == {table.folder: True}
    batch = with_all_columns(table).decided([row(2, 2, "de", "x")])
    assert commit_tables(None, [batch], 1) == {table.folder: True}
    assert commit_tables(None, [batch], 1) == {table.folder: False}
    assert DeltaTable(tmp_path / table.folder).metadata().partition_columns == ["country"]
    assert countries(table) == {2: ("de", "x")}


def test_one_that_another_pipeline_had_is_given_partitions_and_no_columns(tmp_path: Path) -> None:
    whole = bare(tmp_path / "whole")
    assert commit_tables(None, [whole.decided([row(1, 1, "de")])], 1) == {whole.folder: True}
    assert DeltaTable(tmp_path / "whole" / whole.folder).metadata().partition_columns == ["country"]
    other = bare(tmp_path / "other", lacking=3)
    with pytest.raises(CommitImpossible, match="country"):
        commit_tables(None, [with_all_columns(other).decided([row(1, 1, "de")])], 1)
    assert DeltaTable(tmp_path / "other" / other.folder).version() == 0


def test_one_that_has_rows_in_no_partition_takes_none_that_are_in_some(tmp_path: Path) -> None:
    table = bare(tmp_path)
    table.partitions = ()
    table.merge([row(1, 1, "de")])
    table.partitions = ("country",)
    with pytest.raises(CommitImpossible, match="it is partitioned by nothing, and they by country"):
        commit_tables(None, [table.decided([row(2, 2, "de")])], 1)
