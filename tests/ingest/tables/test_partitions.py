"""Tables in partitions: made so, appended to by an entry of ours, and read by all with each value in its place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.examples import examples
from tests.ingest.commits import by_log, table_commit

from distributary.errors import CommitImpossible
from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.partitions import unwritable
from distributary.ingest.kafka.columns import table_schema
from distributary.ingest.log_paths import LOG
from distributary.ingest.parquet.buffers import TableBuffers
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.settings.deletes import Deleting
from distributary.ingest.settings.groups import Columns
from distributary.ingest.settings.rule_book import TableSpec
from distributary.ingest.settings.upserts import Upsert
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.change import PlannedChange, TableChanger, create, evolve
from distributary.ingest.tables.commit import commit_tables
from distributary.ingest.tables.known import (
    MadeWith,
    TableBook,
)
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.rows import offenders
from distributary.ingest.tables.state import TableState, fixed_columns, read_state, require_partitions
from distributary.ingest.tables.transaction import GENERATION
from distributary.ingest.upkeep.compaction import compact

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("b", pa.bool_()),
        ("tiny", pa.int8()),
        ("i", pa.int32()),
        ("l", pa.int64()),
    ]
)
BY = ("s", "d", "b", "tiny", "i", "l")
ROWS: list[dict[str, Any]] = [
    {"s": "a b/c=d%20é\\\"'", "d": date(1, 1, 1), "b": True, "tiny": -128, "i": -(2**31), "l": -(2**63)},
    {"s": "日本𠀀", "d": date(9999, 12, 31), "b": False, "tiny": 127, "i": 2**31 - 1, "l": 2**63 - 1},
    {"s": "null", "d": date(1582, 10, 10), "b": None, "tiny": 0, "i": 0, "l": 0},
    {"s": "\n\t\x01", "d": date(1969, 12, 31), "b": True, "tiny": None, "i": None, "l": None},
    dict.fromkeys(BY),
]


def written(
    path: Path, rows: Sequence[dict[str, Any]], by: tuple[str, ...], schema: pa.Schema = SCHEMA
) -> list[DataFile]:
    held = TableBuffers(
        str(path.parent), "0" * 8, 0, 10**9, lambda _: Layout(schema), partitions_of=lambda _: by
    )
    held.add(path.name, pa.RecordBatch.from_pylist([{"n": n, **row} for n, row in enumerate(rows)], schema))
    held.close()
    return held.files


def filled(path: Path, rows: Sequence[dict[str, Any]] = ROWS, by: tuple[str, ...] = BY) -> DeltaTable:
    create(path, SCHEMA, {}, partitions=by)
    assert by_log(NativeCommits(), path, written(path, rows, by), SCHEMA, "app", 0, {})
    return DeltaTable(path)


def expected(rows: Sequence[dict[str, Any]] = ROWS) -> list[dict[str, Any]]:
    return [{"n": n, **row, "s": row["s"] or None} for n, row in enumerate(rows)]


def read(table: DeltaTable) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pyarrow_table().select(SCHEMA.names).sort_by("n").to_pylist()
    return rows


def state_of(path: Path) -> TableState:
    state = read_state(path)
    assert state is not None
    return state


def test_delta_rs_and_duckdb_read_every_type_before_and_after_files_come_together(tmp_path: Path) -> None:
    table = filled(tmp_path / "t")
    assert by_log(NativeCommits(), tmp_path / "t", written(tmp_path / "t", ROWS, BY), SCHEMA, "app", 1, {})
    table.update_incremental()
    twice = [row for row in expected() for _ in range(2)]
    assert table.metadata().partition_columns == list(BY)
    assert read(table) == twice
    dataset = table.to_pyarrow_dataset()
    for row in ROWS:
        chosen = pc.scalar(True)
        for name in BY:
            chosen &= (
                pc.field(name).is_null()
                if row[name] is None
                else pc.field(name) == pa.scalar(row[name], SCHEMA.field(name).type)
            )
        assert dataset.to_table(filter=chosen).num_rows == 2
        assert len(list(dataset.get_fragments(filter=chosen))) <= 2 + 2 * sum(v is None for v in row.values())
    names = ", ".join(SCHEMA.names)
    by_duckdb = duckdb.connect().execute(f"SELECT {names} FROM dataset ORDER BY n").fetchall()  # noqa: S608
    assert by_duckdb == [tuple(row.values()) for row in twice]
    done = compact(files_at(tmp_path / "t"))
    assert (done.compacted, done.made, done.left) == (10, 5, "")
    assert read(DeltaTable(tmp_path / "t")) == twice
    again = compact(files_at(tmp_path / "t"))
    assert (again.compacted, again.left) == (0, ""), "one file a partition is no file too many"


@pytest.mark.spark
def test_spark_reads_every_type_and_only_the_partitions_that_it_is_asked_for(
    tmp_path: Path, spark: SparkSession
) -> None:
    filled(tmp_path / "t")
    frame = spark.read.format("delta").load(str(tmp_path / "t"))
    assert [field.dataType.simpleString() for field in frame.schema] == [
        *("bigint", "string", "date", "boolean", "tinyint", "int", "bigint")
    ]
    found = frame.orderBy("n").collect()
    assert [row.asDict() for row in found] == expected()
    for row in expected()[:-1]:
        assert [one.n for one in frame.where(frame.s == row["s"]).select("n").collect()] == [row["n"]]
        assert [one.n for one in frame.where(f"d = DATE'{row['d']}'").select("n").collect()] == [row["n"]]
    assert [one.n for one in frame.where("s is null").select("n").collect()] == [4]
    spark.sql(f"OPTIMIZE delta.`{tmp_path / 't'}`")
    assert read(DeltaTable(tmp_path / "t")) == expected()


def test_an_entry_says_the_values_of_its_files_and_keeps_them_out_of_statistics(tmp_path: Path) -> None:
    filled(tmp_path / "t", [{"s": "é", "d": date(2026, 1, 2), "b": True}, {"s": ""}], ("d", "s", "b"))
    entry = tmp_path / "t" / LOG / f"{1:020d}.json"
    actions = [json.loads(line) for line in entry.read_text(encoding="utf-8").splitlines()]
    assert actions[0]["commitInfo"]["operationParameters"] == {
        "mode": "Append",
        "partitionBy": '["d", "s", "b"]',
    }
    adds = [action["add"] for action in actions if "add" in action]
    assert [add["partitionValues"] for add in adds] == [
        {"d": "2026-01-02", "s": "é", "b": "true"},
        {"d": None, "s": None, "b": None},
    ]
    assert all(json.loads(add["stats"])["nullCount"] == {"n": 0, "tiny": 1, "i": 1, "l": 1} for add in adds)


TEXTS = st.lists(st.none() | st.text(max_size=12), min_size=1, max_size=6)


@given(TEXTS)
@settings(max_examples=examples(25), deadline=None)
def test_any_text_is_read_as_it_came_and_after_files_came_together(texts: list[str | None]) -> None:
    if unwritable("s", pa.array(texts, pa.string())).any():
        return
    with TemporaryDirectory() as folder:
        path, rows = Path(folder) / "t", [{"s": text} for text in texts * 2]
        create(path, SCHEMA, {}, partitions=("s",))
        for batch in range(2):
            part = rows[batch * len(texts) : (batch + 1) * len(texts)]
            assert by_log(NativeCommits(), path, written(path, part, ("s",)), SCHEMA, "app", batch, {})
        wanted = sorted(text or "" for text in texts * 2)
        for _ in range(2):
            assert sorted(row["s"] or "" for row in read(DeltaTable(path))) == wanted
            done = compact(files_at(path))
            assert not done.left
        assert done.after.files == len({text or None for text in texts})


def test_a_log_checkpoint_keeps_the_values(tmp_path: Path) -> None:
    filled(tmp_path / "t", by=("s", "d"))
    DeltaTable(tmp_path / "t").create_checkpoint()
    for entry in (tmp_path / "t" / LOG).glob("*.json"):
        entry.unlink()
    assert read(DeltaTable(tmp_path / "t")) == expected()


def test_a_table_that_gets_a_column_stays_in_its_partitions(tmp_path: Path) -> None:
    table = filled(tmp_path / "t", by=("s",))
    wider = SCHEMA.append(pa.field("more", pa.string()))
    assert evolve(tmp_path / "t", wider) == ("more",)
    rows = [{"s": "x", "more": "new"}]
    assert by_log(
        NativeCommits(), tmp_path / "t", written(tmp_path / "t", rows, ("s",), wider), wider, "app", 1, {}
    )
    table.update_incremental()
    assert table.metadata().partition_columns == ["s"]
    found = table.to_pyarrow_table().filter(pc.field("s") == "x").to_pylist()
    assert [(row["s"], row["more"]) for row in found] == [("x", "new")]


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_tables_are_made_in_their_partitions_and_copied_only_from_such(tmp_path: Path, vectors: str) -> None:
    columns = Columns(kafka_date="day")
    layout = Layout(pa.schema([("id", pa.string()), ("level", pa.int32())]))
    specs = {
        "a": TableSpec(0, "*", partition_by=("id",)),
        "b": TableSpec(1, "*", partition_by=("day", "level")),
        "c": TableSpec(),
        "d": TableSpec(0, "*", partition_by=("id",)),
    }
    with_vectors = MadeWith({"delta.enableDeletionVectors": vectors}, specs.__getitem__)
    book = TableBook(str(tmp_path), columns, None, 1, made_with=with_vectors)
    planned = [PlannedChange(name, name, True, (), None, None) for name in specs]
    TableChanger(book, None, columns).apply(planned, dict.fromkeys(specs, layout), {})
    found = {name: DeltaTable(tmp_path / name).metadata().partition_columns for name in specs}
    assert found == {"a": ["id"], "b": ["day", "level"], "c": [], "d": ["id"]}
    assert {name: book.states(specs)[name].partitions for name in specs} == {
        name: tuple(by) for name, by in found.items()
    }
    pinned = book.pinned({name: name for name in specs})
    assert {name: one.partitions for name, one in pinned.items()} == {
        name: tuple(by) for name, by in found.items()
    }
    assert pinned["b"].fixed == {"day", "level"}


def test_a_table_that_is_partitioned_otherwise_than_its_rule_says_is_refused_with_the_way_out(
    tmp_path: Path,
) -> None:
    create(tmp_path / "parted", SCHEMA, {}, partitions=("s", "d"))
    create(tmp_path / "whole", SCHEMA, {})
    parted, whole = state_of(tmp_path / "parted"), state_of(tmp_path / "whole")
    for state, by in [(parted, ("s", "d")), (parted, ("d", "s")), (parted, ()), (whole, ())]:
        require_partitions(state, TableSpec(0, "*", partition_by=by), None)
    for state, by, told in [
        (parted, ("s",), "is partitioned by s, d, and"),
        (whole, ("s",), "is not partitioned, and"),
        (whole, ("gone",), "is not partitioned, and"),
    ]:
        with pytest.raises(
            CommitImpossible, match=rf"{told} tables\[0\].partition_by says {by[0]}, .*Take partition_by away"
        ):
            require_partitions(state, TableSpec(0, "*", partition_by=by), None)


def test_a_table_that_another_hand_made_meanwhile_is_held_against_the_rule(tmp_path: Path) -> None:
    columns, layout = Columns(), Layout(pa.schema([("id", pa.string())]))
    create(tmp_path / "t", table_schema(columns, layout), {})
    spec = TableSpec(0, "*", partition_by=("id",))
    book = TableBook(str(tmp_path), columns, None, made_with=MadeWith(spec_of=lambda _: spec))
    change = PlannedChange("t", "t", True, (), None, None)
    with pytest.raises(CommitImpossible, match="is not partitioned, and"):
        TableChanger(book, None, columns).apply([change], {"t": layout}, {})
    with pytest.raises(CommitImpossible, match="is not partitioned, and"):
        book.pinned({"t": "t"})


def test_a_table_that_was_made_by_hand_takes_files_as_they_are(tmp_path: Path) -> None:
    first = pa.Table.from_pylist([{"n": 7, "s": "a", "l": 1}], SCHEMA)
    write_deltalake(tmp_path / "t", first, partition_by=["l", "s"])
    state = state_of(tmp_path / "t")
    assert (state.native, state.partitions, state.native_partitions) == (True, ("l", "s"), ("l", "s"))
    assert fixed_columns(state) == {"l", "s"}
    assert by_log(
        NativeCommits(), tmp_path / "t", written(tmp_path / "t", ROWS, ("l", "s")), SCHEMA, "app", 0, {}
    )
    assert sorted(row["n"] for row in read(DeltaTable(tmp_path / "t"))) == [0, 1, 2, 3, 4, 7]


@pytest.mark.parametrize("dtype", [pa.float64(), pa.decimal128(5, 2), pa.timestamp("us", "UTC")])
def test_a_table_by_other_values_is_left_to_sparks_writer(tmp_path: Path, dtype: pa.DataType) -> None:
    schema = pa.schema([("n", pa.int64()), ("p", dtype)])
    write_deltalake(tmp_path / "t", pa.Table.from_pylist([{"n": 1}], schema), partition_by=["p"])
    state = state_of(tmp_path / "t")
    assert state.why_not.startswith("partitioned by p, which is ")
    assert (state.partitions, state.native_partitions) == (("p",), ())


@pytest.fixture
def commits() -> Iterator[NativeCommits]:
    with closing(NativeCommits()) as made:
        yield made


@pytest.mark.spark
# With and without partitions on either side; the heavy ones have them on one.
@pytest.mark.parametrize(
    ("table", "files"),
    [
        (("s",), ("d", "s")),
        *(pytest.param(*pair, marks=pytest.mark.heavy) for pair in (((), BY), (BY, ()))),
    ],
)
def test_files_in_other_partitions_than_the_table_go_by_sparks_writer_with_all_their_values(
    tmp_path: Path,
    spark: SparkSession,
    commits: NativeCommits,
    table: tuple[str, ...],
    files: tuple[str, ...],
) -> None:
    """As where somebody made the table anew after they were decided."""
    create(tmp_path / "t", SCHEMA, {}, partitions=table)
    told = {GENERATION: "g"}
    one = table_commit(tmp_path / "t", written(tmp_path / "t", ROWS, files), SCHEMA, "app", 0, told)
    with pytest.raises(CommitImpossible, match=r"it is partitioned by .*, and they by"):
        commits.commit(one)
    for new in (True, False):
        assert commit_tables(spark, [one], 1, native=commits) == {"t": new}
        assert read(DeltaTable(tmp_path / "t")) == expected()
    assert DeltaTable(tmp_path / "t").metadata().partition_columns == list(table)


@pytest.mark.spark
def test_a_condition_that_came_later_is_asked_of_all_values(
    tmp_path: Path, spark: SparkSession, commits: NativeCommits
) -> None:
    create(tmp_path / "t", SCHEMA, {}, partitions=("i",))
    one = table_commit(tmp_path / "t", written(tmp_path / "t", ROWS[:2], ("i",)), SCHEMA, "app", 0, {})
    spark.sql(f"ALTER TABLE delta.`{tmp_path / 't'}` ADD CONSTRAINT some CHECK (i > 0 OR s LIKE 'a b%')")
    assert commit_tables(spark, [replace(one, native=False)], 1, native=commits) == {"t": True}
    assert read(DeltaTable(tmp_path / "t")) == expected(ROWS[:2])
    found = offenders(
        spark, written(tmp_path / "t", ROWS, ("i", "s")), state_of(tmp_path / "t"), ("s", "tiny", "n")
    )
    assert sorted(one.offset for one in found) == [2, 3, 4]


def test_a_table_of_which_nothing_but_deletes_came_gets_its_partitions_with_its_columns(
    tmp_path: Path,
) -> None:
    """What has no value, such as a tombstone, lacks the fields, and the table was whole for ever: every later batch was refused."""
    columns, upsert = Columns(kafka_date="day"), Upsert(deletes=Deleting(tombstones=True))
    spec = TableSpec(0, "*", partition_by=("day", "id"), upsert=upsert)
    book = TableBook(str(tmp_path), columns, None, 1, made_with=MadeWith(spec_of=lambda _: spec))
    changer, made = TableChanger(book, None, columns), PlannedChange("t", "t", True, (), None, None)
    grown = [Layout(pa.schema(fields)) for fields in ([], [("n", pa.int32())], [("id", pa.string())])]

    def by() -> list[str]:
        return DeltaTable(tmp_path / "t").metadata().partition_columns

    for layout in grown[:2]:
        changer.apply([made], {"t": layout}, {})
        assert by() == []
        assert book.pinned({"t": "t"})["t"].partitions == ()
        made = replace(made, new=False)
    changer.apply([made], {"t": Layout(pa.schema([*grown[1].columns, *grown[2].columns]))}, {})
    assert by() == ["day", "id"]
    assert book.pinned({"t": "t"})["t"].partitions == ("day", "id")
    assert DeltaTable(tmp_path / "t").schema().to_arrow().names[-2:] == ["n", "id"]


def test_a_table_that_has_the_columns_and_nothing_else_is_given_its_partitions_all_the_same(
    tmp_path: Path,
) -> None:
    """One that got its columns without them stood still for ever."""
    create(tmp_path / "t", SCHEMA, {"delta.enableDeletionVectors": "true"})
    spec = TableSpec(0, "*", partition_by=("s", "i"), upsert=Upsert())
    require_partitions(state_of(tmp_path / "t"), spec, None)
    with pytest.raises(CommitImpossible, match="is not partitioned, and"):
        require_partitions(state_of(tmp_path / "t"), replace(spec, upsert=None), None)
    assert evolve(tmp_path / "t", SCHEMA) == ()
    assert state_of(tmp_path / "t").version == 0
    assert evolve(tmp_path / "t", SCHEMA, partitions=["s", "i"]) == ()
    assert state_of(tmp_path / "t").partitions == ("s", "i")
    assert state_of(tmp_path / "t").layout == SCHEMA
    assert evolve(tmp_path / "t", SCHEMA, partitions=["s", "i"]) == ()
    assert state_of(tmp_path / "t").version == 1


def test_a_table_with_one_row_a_key_that_has_rows_in_no_partition_is_refused(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64())])
    create(tmp_path / "t", schema, {"delta.enableDeletionVectors": "true"})
    spec = TableSpec(0, "*", partition_by=("id",), upsert=Upsert())
    require_partitions(state_of(tmp_path / "t"), spec, None)
    (file,) = written(tmp_path / "t", [{}], (), schema)
    assert by_log(NativeCommits(), tmp_path / "t", [file], schema, "app", 0, {})
    with pytest.raises(CommitImpossible, match="is not partitioned, and"):
        require_partitions(state_of(tmp_path / "t"), spec, None)
    assert evolve(tmp_path / "t", schema, partitions=["n"]) == ()
    assert state_of(tmp_path / "t").partitions == ()
    with pytest.raises(CommitImpossible, match="has rows by now that are in no partition"):
        evolve(tmp_path / "t", schema.append(pa.field("id", pa.string())), partitions=["id"])
