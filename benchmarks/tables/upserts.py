"""Changes of a million keys: our tables with one row a key beside a MERGE a batch and table, as it is written by hand."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.tables.amounts import TableSizes
from benchmarks.tables.keyed import GAME, KEY, NEWEST_BY, KeyedTopic, Spread, keyed_topic
from benchmarks.tables.two_ways import ByHand, TwoWays, measure
from benchmarks.world import World
from delta.tables import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

# As persist-and-filter is usually given.
_THREADS = 4


def measure_upserts(world: World, sizes: TableSizes, games: int, spread: Spread) -> TwoWays:
    """All batches of changes, once by each way, over tables that have all keys already. Raises CheckFailed where a row is wrong."""
    return measure(world, keyed_topic(world, sizes, games), _UPSERTS, spread)


def _merge(world: World, topic: KeyedTopic, folder: Path, batch: DataFrame) -> None:
    """The newest record of each key of a batch, then a MERGE into each game's table."""
    others = [sql.col(name) for name in batch.columns if name not in (KEY, NEWEST_BY)]
    newest = sql.max(sql.struct(sql.col(NEWEST_BY), *others)).alias("newest")
    latest = batch.groupBy(KEY).agg(newest).select(KEY, "newest.*").persist()

    def merge(game: str) -> None:
        table = DeltaTable.forPath(world.spark, str(folder / game)).alias("t")
        mine = latest if len(topic.games) == 1 else latest.where(sql.col(GAME) == game)
        merging = table.merge(mine.alias("s"), f"t.{KEY} = s.{KEY}")
        updating = merging.whenMatchedUpdateAll(f"s.{NEWEST_BY} > t.{NEWEST_BY}")
        updating.whenNotMatchedInsertAll().execute()

    if len(topic.games) == 1:
        merge(topic.games[0])
    else:
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(merge, topic.games))
    latest.unpersist()


_UPSERTS = ByHand(
    "state",
    {"mode": "upsert", "keys": [KEY], "sequence_by": [NEWEST_BY]},
    lambda columns: columns,
    _merge,
)
