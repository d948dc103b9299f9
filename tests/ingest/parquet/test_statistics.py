from __future__ import annotations

import json
import math
import string
import time
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.ingest.commits import by_log

from distributary.ingest.columns.layout import SOURCE, Layout, own_column
from distributary.ingest.parquet.buffers import TableBuffers
from distributary.ingest.parquet.data_file import DataFile, file_name
from distributary.ingest.parquet.statistics import Fractions, Indexed, statistics
from distributary.ingest.tables.change import create
from distributary.ingest.tables.log import lines_of
from distributary.ingest.tables.log_commit import NativeCommits


def stats_of(table: pa.Table, rows_a_group: int = 1_000) -> dict[str, Any]:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=rows_a_group)
    text = statistics(pq.read_metadata(pa.BufferReader(sink.getvalue())), Layout(table.schema))
    parsed: dict[str, Any] = json.loads(text, parse_float=Decimal)
    return parsed


def column(values: list[Any], dtype: pa.DataType, rows_a_group: int = 1_000) -> tuple[Any, Any]:
    found = stats_of(pa.table({"c": pa.array(values, dtype)}), rows_a_group)
    return found["minValues"].get("c"), found["maxValues"].get("c")


def test_counts_rows_and_nulls_over_row_groups() -> None:
    found = stats_of(pa.table({"c": pa.array([1, None, 3, None, None], pa.int64())}), rows_a_group=2)
    assert found == {
        "numRecords": 5,
        "minValues": {"c": 1},
        "maxValues": {"c": 3},
        "nullCount": {"c": 3},
    }


def told_of(table: pa.Table, indexed: Indexed) -> set[str]:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    text = statistics(pq.read_metadata(pa.BufferReader(sink.getvalue())), Layout(table.schema), indexed)
    found = json.loads(text)
    assert found["numRecords"] == table.num_rows
    nulls = found["nullCount"]
    return {
        f"{name}.{inside}" if isinstance(of, dict) else name
        for name, of in nulls.items()
        for inside in (of if isinstance(of, dict) else [""])
    }


def test_of_so_many_columns_there_are_statistics_and_of_keys_wherever_they_are() -> None:
    place = pa.array([{"x": 1, "y": 2}], pa.struct([("x", pa.int32()), ("y", pa.int32())]))
    tags = pa.array([[{"a": 1, "b": 2}]], pa.list_(pa.struct([("a", pa.int32()), ("b", pa.int32())])))
    table = pa.table({"a": [1], "place": place, "tags": tags, "z": [2], "last": [3]})
    # A column that is not called as its field is found by the field's name.
    renamed = table.schema.field("last").with_metadata({SOURCE: b"Last"})
    table = table.cast(table.schema.set(4, renamed))
    assert told_of(table, Indexed()) == {"a", "place.x", "place.y", "z", "last"}
    assert told_of(table, Indexed(2)) == {"a", "place.x"}
    # A list counts as one, whatever is in it.
    assert told_of(table, Indexed(5)) == {"a", "place.x", "place.y", "z"}
    assert told_of(table, Indexed(0, frozenset({"place.y", "Last"}))) == {"place.y", "last"}
    # One that no field is for, by its own name.
    ends = own_column("valid_to", pa.int64(), "valid_to")
    beside = pa.table([table["a"], table["a"]], pa.schema([table.schema.field("a"), ends]))
    assert told_of(beside, Indexed(0, frozenset({"valid_to"}))) == {"valid_to"}


@pytest.mark.parametrize(
    ("properties", "first"),
    [
        ({}, 32),
        ({"delta.dataSkippingNumIndexedCols": "-1"}, None),
        ({"delta.dataSkippingNumIndexedCols": "0"}, 0),
        ({"delta.dataSkippingNumIndexedCols": "40"}, 40),
        ({"delta.dataSkippingNumIndexedCols": None}, 32),
        ({"delta.dataSkippingNumIndexedCols": "many"}, 32),
    ],
)
def test_how_many_a_tables_property_says(properties: dict[str, str | None], first: int | None) -> None:
    assert Indexed.told(properties, ["id"]) == Indexed(first, frozenset({"id"}))


def test_structs_are_nested_objects_and_lists_and_maps_are_left_out() -> None:
    rows = [{"x": 4, "y": {"z": "q"}, "l": [1]}, None, {"x": None, "y": None, "l": None}]
    inner = pa.struct(
        [("x", pa.int32()), ("y", pa.struct([("z", pa.string())])), ("l", pa.list_(pa.int32()))]
    )
    table = pa.table(
        {
            "m": pa.array(
                [[("k", {"v": 1})], None, []], pa.map_(pa.string(), pa.struct([("v", pa.int64())]))
            ),
            "s": pa.array(rows, inner),
            "after": pa.array([7, 8, 9], pa.int64()),
        }
    )
    found = stats_of(table)
    assert found["minValues"] == {"s": {"x": 4, "y": {"z": "q"}}, "after": 7}
    assert found["nullCount"] == {"s": {"x": 2, "y": {"z": 2}}, "after": 0}


def test_a_dot_in_a_name_is_no_nesting() -> None:
    table = pa.table(
        {"a.b": pa.array([1], pa.int64()), "a": pa.array([{"b": 2}], pa.struct([("b", pa.int64())]))}
    )
    assert stats_of(table)["minValues"] == {"a.b": 1, "a": {"b": 2}}


def test_timestamps_are_rounded_outwards() -> None:
    assert column([1, 1_999], pa.timestamp("us", "UTC")) == (
        "1970-01-01T00:00:00.000Z",
        "1970-01-01T00:00:00.002Z",
    )
    assert column([-1], pa.timestamp("us")) == ("1969-12-31T23:59:59.999", "1970-01-01T00:00:00.000")


def test_timestamps_and_dates_that_cannot_be_written_are_left_out() -> None:
    assert column([-(2**62), 2**62], pa.timestamp("us", "UTC")) == (None, None)
    assert column([-800_000, 3_000_000], pa.date32()) == (None, None)


def test_a_file_that_may_hold_nan_has_no_upper_bound() -> None:
    assert column([0.5, math.nan], pa.float64()) == (Decimal("0.5"), None)
    assert column([math.nan], pa.float64()) == (None, None)
    assert column([-math.inf, 1.0], pa.float32()) == (None, None)


def test_long_strings_are_cut_so_that_they_enclose() -> None:
    low, high = column(["b" * 40, "b" * 50], pa.string())
    assert (low, high) == ("b" * 32, "b" * 32 + "\U0010ffff")
    assert column(["b" * 32 + "\U0010ffff" * 2], pa.string()) == ("b" * 32, None)
    assert column(["short"], pa.string()) == ("short", "short")


def test_decimals_are_exact_numbers() -> None:
    sink = pa.BufferOutputStream()
    values = [Decimal("-0.01"), Decimal("123456789012345678901234567890.12")]
    table = pa.table({"c": pa.array(values, pa.decimal128(38, 2))})
    pq.write_table(table, sink, row_group_size=1)
    text = statistics(pq.read_metadata(pa.BufferReader(sink.getvalue())), Layout(table.schema))
    assert '"minValues":{"c":-0.01},"maxValues":{"c":123456789012345678901234567890.12}' in text


def test_a_file_that_was_looked_at_and_has_no_nan_has_an_upper_bound() -> None:
    inner = pa.struct([("f", pa.float32()), ("g", pa.float64())])
    columns = pa.schema([("a", pa.float64()), ("b", pa.float64()), ("s", inner), ("n", pa.int64())])
    fractions = Fractions(Layout(columns))
    all_of_them = frozenset([("a",), ("b",), ("s", "f"), ("s", "g")])
    assert fractions.without_nan == all_of_them
    assert Fractions(Layout(columns)).told is True
    both = [math.inf, -math.inf]
    assert (
        fractions.with_nan(pa.table([both, [None, 0.0], [None, {"f": 0.5, "g": 1.0}], [1, 2]], columns))
        == set()
    )
    found = fractions.with_nan(pa.table([[math.nan], [1.0], [{"f": math.nan, "g": None}], [1]], columns))
    assert found == {("a",), ("s", "f")}
    fractions.take(found)
    assert fractions.without_nan == {("b",), ("s", "g")}
    assert fractions.told == ["b", "s.g", "n"]
    assert Fractions(Layout(columns)).without_nan == all_of_them


def test_a_file_with_nan_tells_spark_nothing_of_its_column_and_is_one_of_its_own(tmp_path: Path) -> None:
    columns = pa.schema([("n", pa.int64()), ("f", pa.float64())])
    held = TableBuffers(tmp_path, "0" * 8, 0, 1, lambda _: Layout(columns))
    for values in ([1.0, 2.0], [3.0, None], [math.nan, 4.0], [5.0, 6.0]):
        held.add("t", pa.RecordBatch.from_pydict({"n": [1, 2], "f": values}, columns))
        held.grew(2)
    held.close()
    told = []
    for one in held.files:
        footer = pq.read_metadata(tmp_path / "t" / one.name)
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        told.append((one.rows, [group.column(1).statistics is not None for group in groups]))
        assert all(group.column(0).statistics.has_min_max for group in groups)
    assert told == [(4, [True, True]), (4, [False, False])]
    assert [json.loads(one.statistics)["maxValues"].get("f") for one in held.files] == [3.0, None]


def test_booleans_have_bounds() -> None:
    assert column([True, None, False], pa.bool_()) == (False, True)
    assert column([True, None], pa.bool_()) == (True, True)


def test_delta_rs_finds_rows_by_each_column_of_two_batches(tmp_path: Path) -> None:
    columns = pa.schema([("n", pa.int64()), ("f", pa.float64()), ("g", pa.float32()), ("b", pa.bool_())])
    create(tmp_path / "t", columns, {})
    held = TableBuffers(tmp_path, "0" * 8, 0, 10**9, lambda _: Layout(columns), lambda _: 2)
    rows: list[dict[str, Any]] = [
        {"n": 1, "f": 1.5, "g": -0.0, "b": True},
        {"n": 2, "f": None, "g": 2.5, "b": None},
        {"n": 3, "f": 3.5, "g": None, "b": False},
    ]
    held.add("t", pa.RecordBatch.from_pylist(rows, columns))
    held.close()
    assert by_log(NativeCommits(), tmp_path / "t", held.files, columns, "test", 0, {})
    found = DeltaTable(tmp_path / "t").to_pyarrow_dataset()
    for row in rows:
        for name, value in row.items():
            if value is not None:
                same = [one for one in rows if one[name] == value]
                kept = found.to_table(filter=ds.field(name) == pa.scalar(value, columns.field(name).type))
                assert kept.to_pylist() == same, (name, value)
    assert duckdb.from_arrow(found).filter("f >= 1.0 and n < 3").fetchall() == [(1, 1.5, 0.0, True)]


@pytest.mark.parametrize("dtype", [pa.bool_(), pa.binary()])
def test_nulls_and_binaries_have_no_bounds(dtype: pa.DataType) -> None:
    found = stats_of(pa.table({"c": pa.array([None, None], dtype)}))
    assert (found["minValues"], found["maxValues"], found["nullCount"]) == ({}, {}, {"c": 2})


def test_a_schema_of_another_file_is_refused() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1]}), sink)
    with pytest.raises(ValueError, match="2 columns and the Parquet file 1"):
        statistics(
            pq.read_metadata(pa.BufferReader(sink.getvalue())),
            Layout(pa.schema([("a", pa.int64()), ("b", pa.int64())])),
        )


# As Spark reads a bound back: JSON to the column's own type.
READ: dict[str, Callable[[Any], Any]] = {
    "tz": lambda text: datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc),
    "ntz": datetime.fromisoformat,
    "day": date.fromisoformat,
}


def as_is(bound: Any) -> Any:
    return bound


ANY_TEXT = (
    st.text(max_size=80)
    | st.text(alphabet="ab\U0010ffff", min_size=30, max_size=70)
    | st.text(string.printable)
)
MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999))
KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any], Callable[[Any], Any]]] = [
    (pa.int8(), st.integers(-(2**7), 2**7 - 1), as_is),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1), as_is),
    (pa.float64(), st.floats(), float),
    (pa.float32(), st.floats(width=32), float),
    (pa.string(), ANY_TEXT, as_is),
    (pa.date32(), st.dates(), READ["day"]),
    (pa.timestamp("us"), MOMENTS, READ["ntz"]),
    (pa.timestamp("us", "UTC"), MOMENTS.map(lambda m: m.replace(tzinfo=timezone.utc)), READ["tz"]),
    (pa.decimal128(20, 0), st.integers(-(10**20) + 1, 10**20 - 1).map(Decimal), Decimal),
    (pa.decimal128(12, 3), st.decimals(-(10**9) + 1, 10**9 - 1, places=3), Decimal),
]


def spark_order(value: Any) -> Any:
    """Spark: NaN is greater than every number, zeros are equal, strings compare by their UTF-8 bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize(
    ("dtype", "values", "read"), KINDS, ids=lambda v: str(v) if isinstance(v, pa.DataType) else ""
)
@settings(
    max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_every_value_lies_within_the_bounds(
    dtype: pa.DataType, values: st.SearchStrategy[Any], read: Callable[[Any], Any], data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.none() | values, min_size=1, max_size=30))
    low, high = column(rows, dtype, data.draw(st.integers(1, 30)))
    for value in (row for row in rows if row is not None):
        assert low is None or spark_order(read(low)) <= spark_order(value)
        assert high is None or spark_order(value) <= spark_order(read(high))


# The first and last of each plane that has characters, and what lies beside the surrogates.
PLANES = [
    "\ud7ff",
    "\ue000",
    "\U00010000",
    "\U0001ffff",
    "\U00020000",
    "\U0002a6df",
    "\U0003ffff",
    "\U0010ffff",
]


@pytest.mark.parametrize("character", PLANES, ids=ascii)
def test_readers_find_a_row_by_any_character(tmp_path: Path, character: str) -> None:
    name = f"a{character}"
    rows = pa.table({"a": [f"x{character}y"], name: [f"{character}y"]})
    path = tmp_path / "t"
    create(path, rows.schema, {"distributary.entity": character})
    assert by_log(NativeCommits(), path, [written(path, rows)], rows.schema, "test", 0, {})
    table = DeltaTable(path)
    assert table.metadata().configuration["distributary.entity"] == character
    (add,) = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert (add["min.a"], add[f"max.{name}"]) == (f"x{character}y", f"{character}y")
    for column in ("a", name):
        found = table.to_pyarrow_dataset().to_table(filter=ds.field(column) == rows[column][0])
        assert found.to_pylist() == rows.to_pylist()


def test_half_a_character_in_a_property_is_written_as_it_was() -> None:
    assert lines_of([{"metaData": {"configuration": {"note": "a\ud800"}}}]) == (
        b'{"metaData":{"configuration":{"note":"a\\ud800"}}}\n'
    )


def test_twenty_five_columns_cost_well_under_a_millisecond() -> None:
    table = pa.table(
        {f"c{i}": pa.array([f"value {i}", "b"]) if i % 2 else pa.array([i, 2]) for i in range(25)}
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    metadata = pq.read_metadata(pa.BufferReader(sink.getvalue()))
    best = min(_seconds(lambda: statistics(metadata, Layout(table.schema))) for _ in range(20))
    assert best < 0.001


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


# Eighteen queries: `make test` has one in tests/ingest/e2e/test_tables_readers.py, and every bound without Spark above.
@pytest.mark.spark
@pytest.mark.heavy
def test_spark_skips_files_by_them_and_never_rows_that_are_there(spark: Any, tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("n", pa.int64()),
            ("ts", pa.timestamp("us", "UTC")),
            ("day", pa.date32()),
            ("text", pa.string()),
            ("money", pa.decimal128(20, 0)),
            ("f", pa.float64()),
            ("s", pa.struct([("x", pa.int32())])),
        ]
    )
    start = datetime(2024, 1, 1, tzinfo=timezone.utc)
    path = tmp_path / "t"
    create(path, schema, {})
    files = []
    for i in range(8):
        row = {
            "n": i,
            "ts": start + timedelta(hours=i, microseconds=1_234 + i),
            "day": date(2024, 1, 1 + i),
            "text": "p" * 31 + chr(ord("a") + i) * 9,
            "money": Decimal(10**19 + i),
            "f": math.nan if i == 7 else float(i),
            "s": {"x": i},
        }
        files.append(written(path, pa.Table.from_pylist([row], schema)))
    assert by_log(NativeCommits(), path, files, schema, "test", 0, {})

    frame = spark.read.format("delta").load(str(path))
    for i in (0, 4, 7):
        moment = (start + timedelta(hours=i, microseconds=1_234 + i)).strftime("%Y-%m-%d %H:%M:%S.%f")
        exactly = {
            "n": f"n = {i}",
            "ts": f"ts = timestamp'{moment} UTC'",
            "day": f"day = date'2024-01-0{1 + i}'",
            "text": f"text = '{'p' * 31 + chr(ord('a') + i) * 9}'",
            "money": f"money = {10**19 + i}BD",
            "s": f"s.x = {i}",
        }
        for name, condition in exactly.items():
            found = frame.where(condition)
            assert [row["n"] for row in found.collect()] == [i], (name, condition)
            assert files_read(found) == 1, (name, condition)
    assert [row["n"] for row in frame.where("f > 6").collect()] == [7]


def written(path: Path, rows: pa.Table) -> DataFile:
    name = file_name("0" * 32, 0)
    pq.write_table(rows, path / name)
    text = statistics(pq.read_metadata(path / name), Layout(rows.schema))
    return DataFile(path.name, name, rows.num_rows, (path / name).stat().st_size, text)


def files_read(frame: Any) -> int:
    """How many files the frame, collected before, was read from: `inputFiles` looks at no filters."""
    scan = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
    return int(scan.metrics().apply("numFiles").value())


@pytest.mark.spark
@pytest.mark.heavy
def test_spark_finds_nan_to_be_the_greatest_in_files_that_have_one(spark: Any, tmp_path: Path) -> None:
    columns = pa.schema([("f", pa.float64()), ("s", pa.struct([("g", pa.float32())]))])
    create(tmp_path / "t", columns, {})
    held = TableBuffers(tmp_path, "0" * 8, 0, 10**9, lambda _: Layout(columns))
    values = [math.nan, 1.0, None, -math.inf]
    held.add("t", pa.RecordBatch.from_pylist([{"f": one, "s": {"g": one}} for one in values], columns))
    held.close()
    assert by_log(NativeCommits(), tmp_path / "t", held.files, columns, "test", 0, {})
    frame = spark.read.format("delta").load(str(tmp_path / "t"))
    asked = ("f > 2", "s.g >= 2", "f = double('NaN')", "f >= 1", "s.g < 2", "f IS NULL")
    assert [frame.where(one).count() for one in asked] == [1, 1, 1, 2, 2, 1]
