"""Of which columns of tables a frame's columns are, by the plan that Spark has of it: right, or left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from distributary.ingest.origins.plans import marked, origins

pytestmark = [pytest.mark.spark]


def table(spark: SparkSession, name: str, columns: str) -> DataFrame:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    marked(run, name)
    found = spark.range(1).mapInArrow(run, columns)
    found.createOrReplaceTempView(f"of_{name or 'nobody'}")
    return found


@pytest.fixture
def tables(spark: SparkSession) -> SparkSession:
    table(spark, "plays", "player string, score long, at timestamp, tags array<string>, price decimal(9,2)")
    table(spark, "players", "player string, city string, born date")
    table(spark, "", "n long")
    return spark


def told(frame: DataFrame) -> dict[str, list[str]]:
    return {
        name: [f"{one.table}.{one.column} {one.how[:5].lower()}" for one in found]
        for name, found in origins(frame).items()
    }


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "SELECT player, score AS points, score * 2 + length(player) AS more, 1 AS one FROM of_plays",
            {
                "player": ["plays.player ident"],
                "points": ["plays.score ident"],
                "more": ["plays.player trans", "plays.score trans"],
            },
        ),
        (
            "SELECT city, count(*) AS n, max(score) AS best, avg(score) + 1 AS mean FROM of_plays JOIN of_players USING (player) GROUP BY city",
            {
                "city": ["players.city ident"],
                "best": ["plays.score aggre"],
                "mean": ["plays.score aggre"],
            },
        ),
        (
            "WITH a AS (SELECT player AS p FROM of_plays), b AS (SELECT p FROM a UNION ALL SELECT upper(city) FROM of_players) SELECT p AS q FROM b",
            {"q": ["players.city trans", "plays.player ident"]},
        ),
        (
            "SELECT player, tag, row_number() OVER (PARTITION BY player ORDER BY score) AS place FROM of_plays LATERAL VIEW explode(tags) AS tag",
            {
                "player": ["plays.player ident"],
                "tag": ["plays.tags trans"],
                "place": ["plays.player trans", "plays.score trans"],
            },
        ),
        (
            "SELECT a.player AS one, b.score AS other FROM of_plays a JOIN of_plays b ON a.at = b.at",
            {"one": ["plays.player ident"], "other": ["plays.score ident"]},
        ),
        (
            "SELECT player, sum(score) AS n FROM of_plays GROUP BY ROLLUP (player)",
            {"player": ["plays.player ident"], "n": ["plays.score aggre"]},
        ),
        # Whose rows nobody knows, and what is asked of a query within.
        (
            "SELECT player, id, score + id AS both FROM of_plays CROSS JOIN (SELECT id FROM range(3))",
            {"player": ["plays.player ident"]},
        ),
    ],
)
def test_a_query_is_told_by_its_columns(
    tables: SparkSession, query: str, expected: dict[str, list[str]]
) -> None:
    assert told(tables.sql(query)) == expected


def test_what_a_table_keeps_of_itself_counts_for_nothing(tables: SparkSession) -> None:
    frame = tables.sql(
        "SELECT sum(n) AS n FROM (SELECT n FROM of_nobody UNION ALL SELECT score FROM of_plays)"
    )
    assert told(frame) == {"n": ["plays.score aggre"]}


def test_what_cannot_be_read_is_told_of_nothing() -> None:
    broken: Any = object()
    assert origins(broken) == {}
