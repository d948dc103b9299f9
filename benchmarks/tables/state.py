"""Whether tables with one row a key have the rows that they should: a way that lost one was not measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks.tables.keyed import NEWEST_BY, KeyedTopic
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from distributary.errors import CheckFailed


def check_state(way: str, spark: SparkSession, tables: Mapping[str, Path], topic: KeyedTopic) -> None:
    """Raises CheckFailed unless each game's table has one row a key, and in each the newest."""
    for game, wanted in topic.rows().items():
        rows = spark.read.format("delta").load(str(tables[game]))
        first = rows.agg(sql.count("*"), sql.sum(NEWEST_BY)).first()
        found = None if first is None else (first[0], first[1])
        if found != wanted:
            raise CheckFailed(
                f"{way}: the table of {game} has (rows, sum of {NEWEST_BY}) {found} instead of {wanted}, so its time means nothing"
            )
