from __future__ import annotations

from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import Row
from tests.ingest.kafka_records import pins

from distributary.ingest.batch.passes import Records, Workers
from distributary.ingest.kafka.portions import (
    BYTES_AT_ONCE,
    ROWS_AT_ONCE,
    Portions,
    any_kept_back,
    large_kept_back,
    of_any_columns,
    unbounded,
)
from distributary.ingest.kafka.records import worker_columns
from distributary.ingest.pins import Pins
from distributary.ingest.worker.report import TaskReport

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


def test_rows_of_columns_that_nobody_has_chosen_are_few_at_once(session: SparkSession) -> None:
    before = session.conf.get(ROWS_AT_ONCE, None)

    def told() -> str | None:
        return session.conf.get(ROWS_AT_ONCE, None)

    assert of_any_columns(session, 20_000, told) == "2000"
    assert of_any_columns(session, 500, told) == "500"
    assert told() == before


def test_sparks_bounds_are_back_after_a_job_with_others(session: SparkSession) -> None:
    def told() -> tuple[str | None, ...]:
        return tuple(session.conf.get(name) for name in (BYTES_AT_ONCE, ROWS_AT_ONCE))

    before = told()
    assert unbounded(session, 7, told) == (str(2**31 - 1), "7")
    with pytest.raises(ZeroDivisionError):
        unbounded(session, 7, lambda: 1 // 0)
    assert told() == before


def test_small_records_are_handed_over_by_so_many_rows_whatever_their_session_was_told(
    session: SparkSession, tmp_path: Path
) -> None:
    """As those that are read around Spark's source: the query's own session is another one."""
    told: list[str | None] = []

    class Asked(Workers):
        def run(self, todo: Records, pins: Pins) -> TaskReport:
            told.append(session.conf.get(ROWS_AT_ONCE))
            return TaskReport()

    session.conf.set(ROWS_AT_ONCE, "20000")
    session.conf.set(BYTES_AT_ONCE, str(64 * 2**20))
    records = session.createDataFrame([(None, b"v", "t", 3, 5, None, 0, None)], KAFKA)
    # Of so few rows each may have 600 kB: of 20,000 of those a worker is not to hear at once.
    assert Asked(1, {}, arrow_rows=100).run_small(records, pins(tmp_path)) is not None
    assert told == ["100"]


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


@pytest.mark.parametrize(
    ("headers", "kept_back"),
    [
        ([("h", b"v" * 100)], False),
        ([("h" * 300, None)], True),
        ([("ü" * 150, b"")], True),
        ([("", None)] * 10, False),
        ([("", None)] * 20, True),
    ],
)
def test_names_of_headers_take_room_where_workers_are_handed_them(
    session: SparkSession, tmp_path: Path, headers: list[tuple[str, bytes | None]], kept_back: bool
) -> None:
    given = [Row(key=name, value=value) for name, value in headers]
    records = session.createDataFrame([(None, b"v", "t", 3, 5, None, 0, given)], KAFKA)
    found: list[int] = []

    class Asked(Workers):
        def run(self, todo: Records, pins: Pins) -> TaskReport:
            found.extend(row["partition"] for row in cast("DataFrame", todo).collect())
            return TaskReport()

    # A thousand bytes a record, a quarter of them for headers.
    for whole in (False, True):
        Asked(1, {}, arrow_rows=20_000).run_small(records, pins(tmp_path, headers=whole))
    assert found == [3, -1 if kept_back else 3]


def test_no_records_are_none_kept_back() -> None:
    assert not any_kept_back(pa.RecordBatch.from_pydict({"partition": pa.array([], pa.int32())}))
