from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.ingest.commits import by_log

from distributary.errors import BadSchema, CommitImpossible
from distributary.ingest.columns.layout import Layout
from distributary.ingest.parquet.data_file import DataFile, file_name
from distributary.ingest.parquet.statistics import statistics
from distributary.ingest.tables.change import create, evolve
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.state import read_state

WIDE = {b"distributary.source": b"A b"}
NESTED = {b"distributary.source": b"X!"}
LAYOUT = pa.schema(
    [
        pa.field("kafka_offset", pa.int64()),
        pa.field("a_b", pa.string(), metadata=WIDE),
        pa.field("s", pa.struct([pa.field("x", pa.int32(), metadata=NESTED)])),
        pa.field("l", pa.list_(pa.field("element", pa.struct([("y", pa.string())])))),
        pa.field("m", pa.map_(pa.string(), pa.struct([("z", pa.string())]))),
        pa.field("ts", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("us")),
        pa.field("money", pa.decimal128(20, 0)),
    ]
)
GROWN = pa.schema(
    [
        pa.field("kafka_offset", pa.int64()),
        pa.field(
            "s",
            pa.struct([("x", pa.int32()), pa.field("x2", pa.struct([("q", pa.int64())]), metadata=NESTED)]),
        ),
        pa.field("l", pa.list_(pa.field("element", pa.struct([("y", pa.string()), ("y2", pa.string())])))),
        pa.field("m", pa.map_(pa.string(), pa.struct([("z", pa.string()), ("z2", pa.int32())]))),
        pa.field("new", pa.bool_(), metadata=WIDE),
    ]
)


def written(path: Path, rows: pa.Table) -> DataFile:
    name = file_name("0" * 32, 0)
    pq.write_table(rows, path / name, compression="zstd")
    text = statistics(pq.read_metadata(path / name), Layout(rows.schema))
    return DataFile(path.name, name, rows.num_rows, (path / name).stat().st_size, text)


def test_there_is_no_state_without_a_table(tmp_path: Path) -> None:
    (tmp_path / "folder" / "_delta_log").mkdir(parents=True)
    assert read_state(tmp_path / "nothing") is None
    assert read_state(tmp_path / "folder") is None
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("name", ["plain", "with space", "ünïcode"])
def test_a_layout_comes_back_with_its_sources_and_properties(tmp_path: Path, name: str) -> None:
    create(tmp_path / name, LAYOUT, {"distributary.entity": "chess"})
    state = read_state(tmp_path / name)
    assert state is not None
    assert state.layout.equals(LAYOUT, check_metadata=True)
    assert (state.place.url, state.native, state.why_not, state.conditions.checks, state.version) == (
        str(tmp_path / name),
        True,
        "",
        (),
        0,
    )
    assert state.properties == {
        "delta.checkpointInterval": "25",
        "delta.logRetentionDuration": "interval 2 days",
        "distributary.entity": "chess",
    }


def test_every_field_becomes_nullable(tmp_path: Path) -> None:
    strict = pa.schema(
        [pa.field("s", pa.struct([pa.field("x", pa.int32(), nullable=False)]), nullable=False)]
    )
    create(tmp_path / "t", strict, {})
    state = read_state(tmp_path / "t")
    assert state is not None and state.native


@pytest.mark.parametrize(
    "field",
    [
        pa.field("u", pa.uint32()),
        pa.field("n", pa.timestamp("ns")),
        pa.field("d", pa.duration("us")),
        pa.field("empty", pa.struct([])),
        pa.field("a b", pa.string()),
        pa.field("inner", pa.struct([("x;", pa.string())])),
        pa.field("many", pa.list_(pa.uint64())),
        pa.field("", pa.string()),
    ],
)
def test_what_delta_cannot_store_is_refused_and_no_table_made(tmp_path: Path, field: pa.Field) -> None:
    with pytest.raises(BadSchema, match="cannot be stored"):
        create(tmp_path / "t", pa.schema([field]), {})
    assert read_state(tmp_path / "t") is None
    create(tmp_path / "t", LAYOUT, {})
    with pytest.raises(BadSchema, match="cannot be stored"):
        evolve(tmp_path / "t", pa.schema([field]))
    assert DeltaTable(tmp_path / "t").version() == 0


def test_columns_are_added_in_structs_lists_and_maps_too_and_only_once(tmp_path: Path) -> None:
    create(tmp_path / "t", LAYOUT, {})
    assert evolve(tmp_path / "t", GROWN) == ("s.x2", "l.element.y2", "m.value.z2", "new")
    assert evolve(tmp_path / "t", GROWN) == ()
    state = read_state(tmp_path / "t")
    assert state is not None
    assert state.version == 1
    assert state.layout.names == [*LAYOUT.names, "new"]
    assert state.layout.field("new").metadata == WIDE
    inner = state.layout.field("s").type
    assert (inner.field("x").metadata, inner.field("x2").metadata) == (NESTED, NESTED)
    assert [f.name for f in state.layout.field("l").type.value_type] == ["y", "y2"]
    assert [f.name for f in state.layout.field("m").type.item_type] == ["z", "z2"]


def test_a_column_of_another_type_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    create(tmp_path / "t", LAYOUT, {})
    with pytest.raises(CommitImpossible, match=r"column s\.x is int32 in the table and string in the files"):
        evolve(tmp_path / "t", pa.schema([("s", pa.struct([("x", pa.string())])), ("new", pa.string())]))
    assert DeltaTable(tmp_path / "t").version() == 0


def test_a_table_that_is_gone_cannot_be_evolved(tmp_path: Path) -> None:
    with pytest.raises(CommitImpossible, match="is gone"):
        evolve(tmp_path / "t", LAYOUT)


def test_creating_what_is_there_adds_what_it_lacks(tmp_path: Path) -> None:
    create(tmp_path / "t", LAYOUT, {"distributary.entity": "chess"})
    create(tmp_path / "t", LAYOUT, {"distributary.entity": "go"})
    create(tmp_path / "t", GROWN, {})
    state = read_state(tmp_path / "t")
    assert state is not None
    assert (state.version, state.properties["distributary.entity"]) == (1, "chess")


@pytest.mark.parametrize("trial", range(10))
def test_of_many_who_create_one_table_none_undoes_another(tmp_path: Path, trial: int) -> None:
    together = threading.Barrier(8)

    def work(i: int) -> None:
        together.wait()
        create(tmp_path / "t", pa.schema([*LAYOUT, pa.field(f"own_{i}", pa.string())]), {})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    state = read_state(tmp_path / "t")
    assert state is not None
    assert set(state.layout.names) == {*LAYOUT.names, *(f"own_{i}" for i in range(8))}, trial
    operations = [commit["operation"] for commit in DeltaTable(tmp_path / "t").history()]
    assert operations.count("CREATE TABLE") == 1


def test_a_copy_has_the_columns_of_another_table_and_is_one_of_its_own(tmp_path: Path) -> None:
    first = create(tmp_path / "first", LAYOUT, {"distributary.entity": "chess"})
    copy = create(tmp_path / "c d", LAYOUT, {"distributary.entity": "go"}, like=first)
    assert copy == read_state(tmp_path / "c d")
    assert copy is not None
    assert copy.layout.equals(LAYOUT, check_metadata=True)
    assert copy.properties == {
        "delta.checkpointInterval": "25",
        "delta.logRetentionDuration": "interval 2 days",
        "distributary.entity": "go",
    }
    assert DeltaTable(tmp_path / "c d").metadata().id != DeltaTable(tmp_path / "first").metadata().id


def test_a_table_that_is_there_is_no_copy_of_another(tmp_path: Path) -> None:
    first = create(tmp_path / "first", GROWN, {})
    create(tmp_path / "t", LAYOUT, {"distributary.entity": "chess"})
    assert create(tmp_path / "t", GROWN, {}, like=first) is None
    state = read_state(tmp_path / "t")
    assert state is not None
    assert (state.version, state.properties["distributary.entity"]) == (1, "chess")
    assert "new" in state.layout.names


@pytest.mark.parametrize("trial", range(5))
def test_of_many_who_copy_one_table_one_is_first(tmp_path: Path, trial: int) -> None:
    first = create(tmp_path / "first", LAYOUT, {})
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: create(tmp_path / "t", LAYOUT, {}, like=first), range(8)))
    assert len([state for state in made if state is not None]) == 1, trial
    assert DeltaTable(tmp_path / "t").version() == 0


OLD_ROWS = [
    {
        "kafka_offset": 1,
        "a_b": "old",
        "s": {"x": 1},
        "l": [{"y": "e"}],
        "m": [("k", {"z": "v"})],
        "ts": None,
        "local": None,
        "money": None,
    }
]
NEW_ROWS = [
    {
        "kafka_offset": 2,
        "s": {"x": 2, "x2": {"q": 3}},
        "l": [{"y": "f", "y2": "g"}],
        "m": [("k", {"z": "w", "z2": 4})],
        "new": True,
    }
]


@pytest.fixture(params=["made", "copied"])
def evolved(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A table with a file from before columns were added, nested ones too, and one from after."""
    path = tmp_path / "t"
    create(path, LAYOUT, {}, create(tmp_path / "first", LAYOUT, {}) if request.param == "copied" else None)
    by_log(
        NativeCommits(), path, [written(path, pa.Table.from_pylist(OLD_ROWS, LAYOUT))], LAYOUT, "app", 0, {}
    )
    evolve(path, GROWN)
    by_log(NativeCommits(), path, [written(path, pa.Table.from_pylist(NEW_ROWS, GROWN))], GROWN, "app", 1, {})
    return path


QUESTION = "SELECT kafka_offset, a_b, s.x, s.x2.q, l[{first}].y2, new FROM {table} ORDER BY kafka_offset"
ANSWER = [(1, "old", 1, None, None, None), (2, None, 2, 3, "g", True)]


@pytest.mark.spark
def test_spark_reads_files_from_before_and_after_an_evolution(spark: SparkSession, evolved: Path) -> None:
    rows = spark.sql(QUESTION.format(first=0, table=f"delta.`{evolved}`")).collect()
    assert [tuple(row) for row in rows] == ANSWER
    [old, new] = spark.sql(
        f"SELECT m['k'].z AS z, m['k'].z2 AS z2 FROM delta.`{evolved}` ORDER BY kafka_offset"  # noqa: S608
    ).collect()
    assert (tuple(old), tuple(new)) == (("v", None), ("w", 4))


def test_duckdb_reads_files_from_before_and_after_an_evolution(evolved: Path) -> None:
    dataset = DeltaTable(evolved).to_pyarrow_dataset()  # noqa: F841 - DuckDB finds it by its name
    with duckdb.connect() as connection:
        assert connection.sql(QUESTION.format(first=1, table="dataset")).fetchall() == ANSWER


def test_delta_rs_reads_files_from_before_and_after_an_evolution(evolved: Path) -> None:
    rows = DeltaTable(evolved).to_pyarrow_table().sort_by("kafka_offset").to_pylist()
    assert [row["s"] for row in rows] == [{"x": 1, "x2": None}, {"x": 2, "x2": {"q": 3}}]
    assert [row["l"] for row in rows] == [[{"y": "e", "y2": None}], [{"y": "f", "y2": "g"}]]
