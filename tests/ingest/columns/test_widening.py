"""Columns that become wider: by Delta's own rules, in tables of every kind, before and after."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.ingest.commits import by_log, by_writer

from distributary.errors import CommitImpossible
from distributary.ingest.columns.growth import changes
from distributary.ingest.columns.widening import delta_widens, widened, widenings
from distributary.ingest.parquet.data_file import DataFile, file_name
from distributary.ingest.tables.change import create, evolve
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.state import fixed_columns, read_state
from distributary.producer_sim.verify.lake import batches

SOURCE = {b"distributary.source": b"a level"}
DAY, NOON = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12, 0)


def of(*, wide: bool) -> pa.Schema:
    """A table with a column for each of Delta's widenings, and such ones within structs, lists, maps and all of them."""
    whole = pa.int64() if wide else pa.int32()
    real = pa.float64() if wide else pa.float32()
    within = pa.struct(
        [pa.field("n", whole, metadata=SOURCE), pa.field("f", real), pa.field("same", pa.string())]
    )
    key = pa.field("key", whole, nullable=False)
    return pa.schema(
        [
            pa.field("a_level", whole, metadata=SOURCE),
            pa.field("tiny", pa.int16() if wide else pa.int8()),
            pa.field("real", real),
            pa.field("counted", pa.float64() if wide else pa.int32()),
            pa.field("price", pa.decimal128(12, 0) if wide else pa.int32()),
            pa.field("total", pa.decimal128(20, 0) if wide else pa.int64()),
            pa.field("money", pa.decimal128(9, 3) if wide else pa.decimal128(5, 2)),
            pa.field("day", pa.timestamp("us") if wide else pa.date32()),
            pa.field("s", within),
            pa.field("l", pa.list_(pa.field("element", whole))),
            pa.field("m", pa.map_(key, pa.field("value", real))),
            pa.field("deep", pa.list_(pa.field("element", pa.struct([pa.field("m", pa.map_(key, within))])))),
        ]
    )


OLD = {
    "a_level": 1,
    "tiny": 2,
    "real": 0.5,
    "counted": 3,
    "price": 4,
    "total": 5,
    "money": Decimal("1.25"),
    "day": DAY,
    "s": {"n": 6, "f": 1.5, "same": "x"},
    "l": [7, None],
    "m": [(8, 2.5)],
    "deep": [{"m": [(9, {"n": 10, "f": 3.5, "same": None})]}],
}
NEW = {
    "a_level": 2**40,
    "tiny": 2**14,
    "real": 0.1,
    "counted": 0.1,
    "price": Decimal(10**11),
    "total": Decimal(2**64),
    "money": Decimal("123456.125"),
    "day": NOON,
    "s": {"n": 2**40, "f": 0.1, "same": "y"},
    "l": [2**40],
    "m": [(2**40, 0.1)],
    "deep": [{"m": [(2**40, {"n": 2**41, "f": 0.1, "same": "z"})]}],
}


def only(columns: Sequence[str], schema: pa.Schema) -> pa.Schema:
    return pa.schema([schema.field(name) for name in columns])


def write(table: Path, row: dict[str, Any], schema: pa.Schema, batch_id: int) -> DataFile:
    name = file_name("7f6e1f3e-0000-4000-8000-000000000000", batch_id)
    rows = pa.Table.from_pylist([row], schema=schema)  # which leaves out what it does not name
    pq.write_table(rows, table / name, store_schema=False)
    return DataFile(table.name, name, 1, (table / name).stat().st_size, "{}")


def by_delta_rs(table: Path) -> list[dict[str, Any]]:
    """As `distributary verify` reads it."""
    rows = [row for batch in batches(DeltaTable(table)) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: int(row["a_level"]))


def as_wide(row: dict[str, Any]) -> dict[str, Any]:
    midnight = datetime.datetime.combine(DAY, datetime.time()) if row["day"] == DAY else row["day"]
    given = [{**row, "day": midnight}]
    found: dict[str, Any] = pa.Table.from_pylist(given, schema=of(wide=True)).to_pylist()[0]
    return found


@pytest.mark.parametrize(
    ("before", "after", "can"),
    [
        (pa.int8(), pa.int64(), True),
        (pa.int64(), pa.int32(), False),
        (pa.int32(), pa.float64(), True),
        (pa.int16(), pa.float32(), False),
        (pa.int64(), pa.float64(), False),
        (pa.float32(), pa.float64(), True),
        (pa.int32(), pa.decimal128(10, 0), True),
        (pa.int8(), pa.decimal128(9, 0), False),
        (pa.int64(), pa.decimal128(20, 1), False),
        (pa.decimal128(5, 2), pa.decimal128(6, 3), True),
        (pa.decimal128(5, 2), pa.decimal128(6, 4), False),
        (pa.decimal128(5, 2), pa.decimal128(5, 2), False),
        (pa.date32(), pa.timestamp("us"), True),
        (pa.date32(), pa.timestamp("us", "UTC"), False),
        (pa.int32(), pa.string(), False),
        (pa.bool_(), pa.int8(), False),
    ],
)
def test_a_type_becomes_another_where_deltas_protocol_says_so(
    before: pa.DataType, after: pa.DataType, can: bool
) -> None:
    assert delta_widens(before, after) is can


def test_a_layout_becomes_as_wide_as_the_record_and_gets_nothing_else() -> None:
    narrow, record = of(wide=False), of(wide=True).append(pa.field("new", pa.string()))

    assert widened(narrow, record) == of(wide=True)
    assert widened(narrow, narrow) is narrow
    assert widened(of(wide=True), narrow).equals(of(wide=True))
    fixed = widened(narrow, record, frozenset({"a_level", "s"}))
    assert (fixed.field("a_level").type, fixed.field("s").type) == (pa.int32(), narrow.field("s").type)
    assert fixed.field("tiny").type == pa.int16()
    told = {
        change.column: (change.kind, change.before, change.type) for change in changes(narrow, of(wide=True))
    }
    assert told["deep.element.m.key"] == ("widened", "int", "bigint")
    assert told["deep.element.m.value.n"] == ("widened", "int", "bigint")
    assert len(told) == len(widenings(narrow, of(wide=True))) == 16


# A statement a column: of each kind of place and of value, and all of them in `make test-heavy`.
SOME = ("a_level", "money", "day", "deep")


@pytest.mark.spark
@pytest.mark.parametrize(
    "columns", [SOME, pytest.param(tuple(OLD), marks=pytest.mark.heavy)], ids=["some", "all"]
)
def test_a_table_with_rows_becomes_wider_once_and_keeps_them_and_takes_both_kinds(
    spark: SparkSession, tmp_path: Path, columns: Sequence[str]
) -> None:
    table, narrow, wide = tmp_path / "t", only(columns, of(wide=False)), only(columns, of(wide=True))
    create(table, narrow, {"distributary.entity": "golf"})
    by_log(NativeCommits(), table, [write(table, OLD, narrow, 0)], narrow, "app", 0, {})
    assert len(widenings(narrow, wide)) == (6 if columns == SOME else 16)
    # A rival's crash may leave the feature without the change.
    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")

    evolve(table, wide.append(pa.field("new", pa.string())), spark, widen=True)
    once = DeltaTable(table).version()
    evolve(table, wide, spark, widen=True)

    assert DeltaTable(table).version() == once
    state = read_state(table, spark)
    assert state is not None
    assert state.layout.remove(state.layout.get_field_index("new")) == wide
    assert not state.native
    assert "typeWidening" in state.why_not
    assert state.layout.field("a_level").metadata == SOURCE
    within = state.layout.field("deep").type.value_type.field("m").type.item_type
    assert within.field("n").metadata == SOURCE

    # A batch decided before the table became wider, and one of new records.
    for batch_id, row, schema in ((1, {**OLD, "a_level": 3}, narrow), (2, NEW, wide)):
        files = [write(table, row, schema, batch_id)]
        assert by_writer(spark, table, files, schema, "app", batch_id, {})
    rows = [as_wide(OLD), as_wide({**OLD, "a_level": 3}), as_wide(NEW)]
    expected = [{name: row[name] for name in columns} for row in rows]
    found = by_delta_rs(table)
    assert [{name: row[name] for name in wide.names} for row in found] == expected
    frame = spark.read.format("delta").load(str(table)).orderBy("a_level")
    by_spark = [row.asDict(recursive=True) for row in frame.drop("new", "m", "deep").collect()]
    assert by_spark == [{name: row[name] for name in by_spark[0]} for row in expected]
    keys = frame.selectExpr("map_keys(deep[0].m)", "map_values(deep[0].m)[0].n").collect()
    assert [tuple(row) for row in keys] == [([9], 10), ([9], 10), ([2**40], 2**41)]


@pytest.mark.spark
def test_columns_that_a_tables_own_rules_name_keep_their_types(spark: SparkSession, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path / 't'}`"
    spark.sql(f"CREATE TABLE {table} (a int, b int, c int GENERATED ALWAYS AS (b + 1), d int) USING delta")
    spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT low CHECK (a < 100)")
    state = read_state(tmp_path / "t", spark)
    assert state is not None
    assert fixed_columns(state) == {"a", "b", "c"}

    for name in "abc":
        with pytest.raises(CommitImpossible, match=rf"does not let {name} become wider"):
            evolve(tmp_path / "t", pa.schema([(name, pa.int64())]), spark, widen=True)
    evolve(tmp_path / "t", pa.schema([("d", pa.int64())]), spark, widen=True)
    after = read_state(tmp_path / "t", spark)
    assert after is not None
    assert after.layout.field("d").type == pa.int64()


@pytest.mark.spark
def test_dates_become_timestamps_only_where_every_one_of_them_can(
    spark: SparkSession, tmp_path: Path
) -> None:
    table, days = tmp_path / "t", pa.list_(pa.field("element", pa.date32()))
    narrow, wide = pa.schema([("days", days)]), pa.schema([("days", pa.list_(pa.timestamp("us")))])
    create(table, narrow, {})
    far = pa.array([[0, 110_000_000]], pa.list_(pa.int32())).cast(days)
    name = file_name("7f6e1f3e-0000-4000-8000-000000000000", 0)
    pq.write_table(pa.table([far], schema=narrow), table / name, store_schema=False)
    file = DataFile("t", name, 1, (table / name).stat().st_size, "{}")
    by_log(NativeCommits(), table, [file], narrow, "app", 0, {})
    before = DeltaTable(table).version()

    with pytest.raises(
        CommitImpossible, match=r"does not let days.element become wider \(it holds a date after"
    ):
        evolve(table, wide, spark, widen=True)

    assert DeltaTable(table).version() == before
