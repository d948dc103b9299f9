from __future__ import annotations

from datetime import date
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.ingest.columns.layout import SOURCE
from distributary.ingest.columns.partitions import (
    column_of,
    partition_columns,
    takes,
    texts,
    unwritable,
    why_refused,
)

PAYLOAD = pa.schema(
    [
        pa.field("day_", pa.string(), metadata={SOURCE: b"day"}),
        pa.field("country", pa.string()),
        pa.field("point", pa.struct([("x", pa.int32())])),
    ]
)


@pytest.mark.parametrize(
    ("dtype", "why"),
    [
        *((one, "") for one in (pa.string(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.bool_(), pa.date32())),
        (pa.float64(), "is of type double, and tables are partitioned by strings, integers, booleans and dates alone"),
        (pa.decimal128(10, 2), "is of type decimal(10,2), "),
        (pa.timestamp("us", "UTC"), "is of type timestamp, "),
        (pa.binary(), "is of type binary, "),
        (pa.list_(pa.string()), "is nested, and tables are partitioned by"),
        (pa.struct([("x", pa.int32())]), "is nested, "),
    ],
)  # fmt: skip
def test_which_types_may_be(dtype: pa.DataType, why: str) -> None:
    assert takes(dtype) == (not why)
    assert why_refused(dtype).startswith(why)
    assert bool(why_refused(dtype)) == bool(why)


def test_a_field_is_found_by_the_name_that_its_records_have_and_the_day_by_its_own() -> None:
    assert column_of("country", PAYLOAD, "day") == "country"
    # Kafka's own comes first, whatever a payload has by its name.
    assert column_of("day", PAYLOAD, "day") == "day"
    assert column_of("day", PAYLOAD, None) == "day_"
    assert column_of("day_", PAYLOAD, None) is None
    assert partition_columns(("gone", "country", "day"), PAYLOAD, "kafka_day") == ("country", "day_")


@pytest.mark.parametrize(
    ("values", "written"),
    [
        (pa.array(["a", "", None, "true", "é/%"]), ["a", None, None, "true", "é/%"]),
        (pa.array([True, False, None]), ["true", "false", None]),
        (pa.array([-128, 127, None], pa.int8()), ["-128", "127", None]),
        (pa.array([-(2**63), 2**63 - 1, None], pa.int64()), [str(-(2**63)), str(2**63 - 1), None]),
        (
            pa.array([date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31), None]),
            ["0001-01-01", "9999-12-31", "1969-12-31", None],
        ),
    ],
)
def test_values_are_written_as_the_protocol_says(values: pa.Array, written: list[str | None]) -> None:
    assert texts(values) == written


@pytest.mark.parametrize(
    ("values", "refused"),
    [
        (["a", None, "", "__HIVE_DEFAULT_PARTITION__", "__hive_default_partition__"], [3]),
        (["x" * 247, "x" * 248, None], [1]),
        (["é" * 41, "é" * 42], [1]),
        (["𠀀" * 20, "𠀀" * 21], [1]),
        ([None, None], []),
    ],
)
def test_texts_that_no_partition_can_have(values: list[str | None], refused: list[int]) -> None:
    found = unwritable("country", pa.array(values, pa.string()))
    assert np.flatnonzero(found).tolist() == refused


def test_days_that_no_partition_can_have() -> None:
    days = pa.array([-719_163, -719_162, 0, None, 2_932_896, 2_932_897], pa.int32()).cast(pa.date32())
    assert np.flatnonzero(unwritable("day", days)).tolist() == [0, 5]
    assert texts(days.slice(1, 4)) == ["0001-01-01", "1970-01-01", None, "9999-12-31"]


@pytest.mark.parametrize("values", [pa.array([1, None]), pa.array([True, None])])
def test_all_other_values_can_be_in_one(values: Any) -> None:
    assert not unwritable("x", values).any()


@given(st.text(max_size=300))
def test_a_text_is_refused_where_its_folder_would_get_too_long_a_name(text: str) -> None:
    long = len(f"a={quote(text, safe='')}") > 255
    assert unwritable("a", pa.array([text]))[0] == (long or text == "__HIVE_DEFAULT_PARTITION__")
