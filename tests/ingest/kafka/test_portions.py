from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import Row

from distributary.ingest.kafka.portions import (
    BYTES_AT_ONCE,
    Portions,
    any_kept_back,
    large_kept_back,
    unbounded,
)
from distributary.ingest.kafka.records import worker_columns

pytestmark = [
    pytest.mark.spark,
]

KAFKA = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int,"
    " headers array<struct<key: string, value: binary>>"
)


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """One whose settings nobody else has, as a query's."""
    own = spark.newSession()
    own.conf.set(BYTES_AT_ONCE, str(20_000 * 1_000))
    return own


def test_records_are_as_small_as_makes_no_portion_pass_the_bound(session: SparkSession) -> None:
    assert Portions(20_000).largest(session) == 1_000


def test_the_batches_after_one_with_a_large_record_are_left_to_sparks_bound(session: SparkSession) -> None:
    portions = Portions(20_000)
    portions.met_large()
    found = [portions.largest(session) for _ in range(101)]
    assert found == [None] * 100 + [1_000]


@pytest.mark.parametrize("told", ["64m", "2147483647", "20000"])
def test_who_says_another_bound_has_what_he_says(session: SparkSession, told: str) -> None:
    session.conf.set(BYTES_AT_ONCE, told)
    assert Portions(20_000).largest(session) is None


def test_sparks_bound_is_back_after_a_job_without_it(session: SparkSession) -> None:
    assert unbounded(session, lambda: session.conf.get(BYTES_AT_ONCE)) == str(2**31 - 1)
    with pytest.raises(ZeroDivisionError):
        unbounded(session, lambda: 1 // 0)
    assert session.conf.get(BYTES_AT_ONCE) == "20000000"


@pytest.mark.parametrize(
    ("key", "value", "header", "kept_back"),
    [
        (b"k" * 4, b"v" * 6, None, False),
        (b"k" * 5, b"v" * 6, None, True),
        (None, b"v" * 10, None, False),
        (None, b"v" * 11, None, True),
        (b"k" * 11, None, None, True),
        (None, None, None, False),
        (b"k", b"v", b"h" * 3, False),
        (b"k", b"v", b"h" * 4, True),
        (b"k", b"v", b"", False),
    ],
)
def test_of_a_large_record_nothing_is_handed_over(
    session: SparkSession, key: bytes | None, value: bytes | None, header: bytes | None, kept_back: bool
) -> None:
    headers = None if header is None else [Row(key="h", value=bytearray(header)), Row(key="none", value=None)]
    records = session.createDataFrame([(key, value, "t", 3, 5, None, 0, headers)], KAFKA)
    lean = worker_columns(large_kept_back(records, 13), topics=1, headers={"route": "h"})
    (row,) = lean.collect()
    assert row["partition"] == (-1 if kept_back else 3)
    assert sum(len(row[name] or b"") for name in ("key", "value", "route")) <= 13
    assert kept_back or (row["key"], row["value"], row["route"]) == (key, value, header)
    assert row["offset"] == 5
    assert any_kept_back(pa.RecordBatch.from_pydict({"partition": [3, row["partition"]]})) == kept_back


def test_no_records_are_none_kept_back() -> None:
    assert not any_kept_back(pa.RecordBatch.from_pydict({"partition": pa.array([], pa.int32())}))
