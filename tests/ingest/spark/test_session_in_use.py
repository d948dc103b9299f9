"""What a text says of a time without a zone is read by what we say, and not by whose session, thread or machine it is."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from distributary.ingest.routing.conditions import conditions_in_session
from distributary.ingest.spark.session import ANSI, OURS, ZONE, in_use, with_settings

pytestmark = [pytest.mark.spark]

MIDNIGHT = "at < timestamp '2024-01-01 00:00:00'"


@pytest.fixture
def elsewhere(spark: SparkSession) -> Iterator[SparkSession]:
    """A session of somebody who is in Tokyo, as is his machine."""
    zones: Any = spark.sparkContext._jvm.java.util.TimeZone  # type: ignore[union-attr]
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone("Asia/Tokyo"))
    session = spark.newSession()
    session.conf.set(ZONE, "Asia/Tokyo")
    session.conf.set(ANSI, "false")
    try:
        yield session
    finally:
        zones.setDefault(before)


def is_before_midnight(session: SparkSession) -> bool:
    """Four hours before midnight in UTC; in Tokyo it is the next year then."""
    (condition,) = conditions_in_session(session, [("tables[0].deletes", MIDNIGHT)]).values()
    at = pa.array([datetime(2023, 12, 31, 20, tzinfo=timezone.utc)], pa.timestamp("us", "UTC"))
    return bool(condition.met(pa.RecordBatch.from_arrays([at], ["at"]))[0].as_py())


def test_a_time_in_a_condition_is_in_utc_in_whatever_session_and_thread(
    spark: SparkSession, elsewhere: SparkSession
) -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(is_before_midnight, spark).result()
        assert pool.submit(is_before_midnight, elsewhere).result()
    with in_use(elsewhere):
        assert is_before_midnight(elsewhere)
    assert elsewhere.conf.get(ZONE) == "Asia/Tokyo"


def test_a_copy_has_what_the_session_has_and_what_is_wanted(
    spark: SparkSession, elsewhere: SparkSession
) -> None:
    assert with_settings(spark, OURS) is spark
    elsewhere.range(1).createOrReplaceTempView("own_view")
    copy = with_settings(elsewhere, OURS)
    told = [{name: one.conf.get(name) for name in OURS} for one in (copy, elsewhere)]
    assert told == [dict(OURS), {ZONE: "Asia/Tokyo", ANSI: "false"}]
    assert copy.sql("SELECT count(*) AS n FROM own_view").collect()[0].n == 1
    with in_use(copy):
        rows = spark.range(1).where(sql.expr("timestamp '2024-01-01' = timestamp '2024-01-01 00:00:00Z'"))
        assert rows.count() == 1
