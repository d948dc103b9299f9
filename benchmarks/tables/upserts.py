"""Changes of a million keys: our tables with one row a key beside a MERGE a batch and table, as it is written by hand."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.decoding import decoded
from benchmarks.tables.amounts import TableSizes
from benchmarks.tables.keyed import GAME, KEY, NEWEST_BY, KeyedTopic, Spread, keyed_topic
from benchmarks.tables.state import check_state
from benchmarks.world import World
from delta.tables import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from distributary.errors import CheckFailed
from distributary.ingest.run import run
from distributary.ingest.settings.model import Settings

# As persist-and-filter is usually given.
_THREADS = 4

_ONE_ROW_A_KEY = [{"match": "*", "mode": "upsert", "keys": [KEY], "sequence_by": [NEWEST_BY]}]


@dataclass(frozen=True, slots=True)
class Upserts:
    """The seconds that the same changes took, by which keys change."""

    tables: int
    spread: Spread
    ours_seconds: float
    hand_seconds: float

    @property
    def ratio(self) -> float:
        """Ours by theirs."""
        return self.ours_seconds / self.hand_seconds


def measure_upserts(world: World, sizes: TableSizes, games: int, spread: Spread) -> Upserts:
    """All batches of changes, once by each way, over tables that have all keys already. Raises CheckFailed where a row is wrong."""
    topic = keyed_topic(world, sizes, games)
    ours, hand = (world.new_folder(world.new_name(way)) for way in ("upserts", "merges"))
    topic.fill()
    world.watch.say(f"{topic.name}: filling {games:,} tables by each way")
    _ours(world, topic, ours, sizes.keys)
    tables = _tables(ours, topic)
    _by_hand(world, topic, hand, sizes.keys, _like(world, tables))
    topic.change(spread)
    found = []
    for way in (_ours, _by_hand):
        with world.watch.step(f"measuring {way.__name__.strip('_')} ({games:,} tables, {spread})", 1):
            found.append(_seconds(world, topic, ours if way is _ours else hand, sizes.changes, way))
    check_state("ours", world.spark, tables, topic)
    check_state("by hand", world.spark, {game: hand / game for game in topic.games}, topic)
    world.watch.say(f"{games:,} tables, {spread}: ours {found[0]:.1f} s, by hand {found[1]:.1f} s")
    return Upserts(games, spread, *found)


def _seconds(world: World, topic: KeyedTopic, folder: Path, rows: int, way: Any) -> float:
    began = time.perf_counter()
    way(world, topic, folder, rows)
    return time.perf_counter() - began


def _settings(world: World, topic: KeyedTopic, folder: Path, batch_rows: int) -> Settings:
    route = {"field": GAME, "table": "state_{entity}"}
    return world.settings(topic.name, folder, batch_rows, route=route, tables=_ONE_ROW_A_KEY)


def _tables(folder: Path, topic: KeyedTopic) -> dict[str, Path]:
    return {game: folder / "lake" / f"state_{game}" for game in topic.games}


def _ours(world: World, topic: KeyedTopic, folder: Path, batch_rows: int) -> None:
    """What is in the topic and not yet in the tables."""
    found = run(_settings(world, topic, folder, batch_rows), spark=world.spark).summary
    if found.quarantined or found.dropped or found.failures:
        raise CheckFailed(
            f"ours: {found.quarantined:,} records went to quarantine, {found.dropped:,} were dropped, {found.failures} attempts failed"
        )


def _like(world: World, tables: Mapping[str, Path]) -> Mapping[str, str]:
    """The properties of our tables, for theirs; but for how long a log is kept, which Spark takes for too short."""
    first = world.spark.sql(f"DESCRIBE DETAIL delta.`{next(iter(tables.values()))}`").first()
    assert first is not None
    left_out = ("delta.feature.", "delta.logRetentionDuration")
    return {name: value for name, value in first["properties"].items() if not name.startswith(left_out)}


def _by_hand(
    world: World,
    topic: KeyedTopic,
    folder: Path,
    batch_rows: int,
    properties: Mapping[str, str] | None = None,
) -> None:
    """The newest record of each key of a batch, then a MERGE into each game's table.

    `properties` are those of tables that are not there yet.
    """
    settings = _settings(world, topic, folder, batch_rows)
    rows = decoded(world.spark, settings, topic.schema)
    if properties is not None:
        for game in topic.games:
            table = DeltaTable.create(world.spark).location(str(folder / game)).addColumns(rows.schema)
            for name, value in properties.items():
                table = table.property(name, value)
            table.execute()

    def merge_all(batch: DataFrame, _: int) -> None:
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

    writer = rows.writeStream.foreachBatch(merge_all).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(folder / "progress")).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
