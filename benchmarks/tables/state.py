"""Whether tables with one row a key have the rows that they should: a way that lost one was not measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks.tables.keyed import NEWEST_BY, KeyedTopic
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import TimestampType

from distributary.errors import CheckFailed


def check_state(
    way: str, spark: SparkSession, tables: Mapping[str, Path], topic: KeyedTopic, current: str | None = None
) -> None:
    """Raises CheckFailed unless each game's table has one row a key, and in each the newest; of those that are `current`, if that is said."""
    for game, wanted in topic.rows().items():
        rows = spark.read.format("delta").load(str(tables[game]))
        rows = rows if current is None else rows.where(current)
        timed = rows.schema[NEWEST_BY].dataType == TimestampType()
        newest = sql.unix_micros(NEWEST_BY) if timed else sql.col(NEWEST_BY)
        first = rows.agg(sql.count("*"), sql.sum(newest)).first()
        found = None if first is None else (first[0], first[1])
        if found != wanted:
            raise CheckFailed(
                f"{way}: the table of {game} has (rows, sum of {NEWEST_BY}) {found} instead of {wanted}, so its time means nothing"
            )
