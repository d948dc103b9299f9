from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.containers.containers import read

from distributary.codecs.containers.base import Damaged
from distributary.codecs.containers.parquet import ParquetFiles, columns_of
from distributary.codecs.types.spark_struct import type_name


def parquet(rows: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(rows, file, **options)
    return file.getvalue()


def numbered(count: int) -> pa.Table:
    return pa.table({"n": pa.array(range(count)), "of": [f"row {n}" for n in range(count)]})


def test_rows_are_handed_on_as_json_row_group_by_row_group() -> None:
    found, gaps, why = read("parquet", parquet(numbered(25_003), row_group_size=7_000))
    assert (gaps, why, list(found)) == ([], "", list(range(25_003)))
    assert [json.loads(found[n]) for n in (0, 25_002)] == [
        {"n": 0, "of": "row 0"},
        {"n": 25_002, "of": "row 25002"},
    ]


def test_of_wide_rows_few_are_in_memory_together() -> None:
    wide = pa.table({"a": ["x" * 1_000_000] * 20})
    parts = list(
        ParquetFiles().rows(
            io.BytesIO(parquet(wide, use_dictionary=False)), lambda _: pytest.fail("none is named")
        )
    )
    assert len(parts) > 1
    assert len(read("parquet", parquet(wide))[0]) == 20


def test_a_row_group_that_is_damaged_is_a_gap_and_all_around_it_is_read() -> None:
    data = bytearray(
        parquet(numbered(3_000), row_group_size=1_000, compression="zstd", write_page_checksum=True)
    )
    group = pq.ParquetFile(io.BytesIO(bytes(data))).metadata.row_group(1)
    begin = group.column(0).data_page_offset
    data[begin + 40 : begin + 60] = b"\0" * 20
    found, gaps, why = read("parquet", bytes(data))
    assert (gaps, why) == ([1_000], "")
    assert sorted(found) == [*range(1_000), *range(2_000, 3_000)]


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"PAR1", b"PAR1xxxxPAR1"])
def test_what_is_no_parquet_file_is_told(damage: bytes) -> None:
    assert read("parquet", damage)[2].startswith("its footer is no Parquet file's")
    with pytest.raises(Damaged, match="its footer is no Parquet file's"):
        ParquetFiles().schema(io.BytesIO(damage))
    assert read("parquet", parquet(numbered(9))[:-1])[2].startswith("its footer")


@pytest.mark.parametrize(
    ("of", "stored"),
    [
        (pa.uint8(), "smallint"),
        (pa.uint32(), "bigint"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.float16(), "float"),
        (pa.large_string(), "string"),
        (pa.binary(16), "binary"),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.timestamp("ns", tz="Europe/Berlin"), "timestamp"),
        (pa.timestamp("ms"), "timestamp_ntz"),
        (pa.time64("us"), "string"),
        (pa.duration("ns"), "bigint"),
        (pa.date64(), "date"),
        (pa.decimal128(9, 2), "decimal(9,2)"),
        (pa.decimal256(60, 2), "string"),
        (pa.list_(pa.int8(), 3), "array<tinyint>"),
        (pa.map_(pa.int32(), pa.struct([("a", pa.uint16())])), "map<string,struct<a:int>>"),
        (pa.uuid(), "binary"),
    ],
)
def test_each_type_becomes_one_that_tables_store(of: pa.DataType, stored: str) -> None:
    assert type_name(columns_of(pa.schema([("a", of)])).field("a").type) == stored


def test_what_has_no_value_is_no_column_and_what_nobody_stores_is_told() -> None:
    nothing = pa.schema([("a", pa.null()), ("b", pa.struct([("c", pa.null())])), ("d", pa.list_(pa.null()))])
    assert columns_of(nothing).names == []
    with pytest.raises(Damaged, match="two columns of one name"):
        columns_of(pa.schema([("a", pa.int8()), ("a", pa.int8())]))
    with pytest.raises(Damaged, match="its column a is a map with keys that are no single values"):
        columns_of(pa.schema([("a", pa.map_(pa.struct([("b", pa.int8())]), pa.int8()))]))
    with pytest.raises(Damaged, match=r"its column a has the type month_day_nano_interval"):
        columns_of(pa.schema([("a", pa.month_day_nano_interval())]))


def test_schemas_of_files_become_one_that_takes_all_of_them() -> None:
    def schema(**columns: pa.DataType) -> str:
        return ParquetFiles().schema(io.BytesIO(parquet(pa.schema(list(columns.items())).empty_table())))

    merged = ParquetFiles().merged([schema(a=pa.int32(), b=pa.string()), schema(c=pa.bool_(), a=pa.int64())])
    fields = {one["name"]: one["type"] for one in json.loads(merged)["fields"]}
    assert fields == {"a": "long", "b": "string", "c": "boolean"}
    assert json.loads(ParquetFiles().merged([]))["fields"] == []


def test_values_keep_all_that_their_types_hold() -> None:
    rows = pa.table(
        {
            "a": pa.array([Decimal("12345678901234567890.123456789")], pa.decimal128(38, 9)),
            "b": pa.array([2**63 - 1]),
            "c": pa.array([[{"d": b"\0"}]], pa.list_(pa.struct([("d", pa.binary())]))),
        }
    )
    found, _, _ = read("parquet", parquet(rows))
    assert found == {0: b'{"a":12345678901234567890.123456789,"b":9223372036854775807,"c":[{"d":"AA=="}]}'}


def test_a_time_of_no_year_that_anybody_has_costs_no_other_row() -> None:
    """As programs write "for ever": the largest number there is."""
    times = pa.array([0, 2**63 - 1, None], pa.timestamp("ms", tz="UTC"))
    found, gaps, _ = read("parquet", parquet(pa.table({"a": times, "b": [1, 2, 3]})))
    assert not gaps
    assert found == {
        0: b'{"a":"1970-01-01T00:00:00.000000Z","b":1}',
        1: b'{"a":9223372036854775807,"b":2}',
        2: b'{"b":3}',
    }


@given(st.data())
def test_whatever_becomes_of_a_files_bytes_rows_are_read_or_told(data: st.DataObject) -> None:
    whole = bytearray(parquet(numbered(30), row_group_size=10, write_page_checksum=True))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    found, gaps, why = read("parquet", bytes(whole[: data.draw(st.integers(len(whole) - 3, len(whole)))]))
    assert len(found) == 30 or gaps or why
