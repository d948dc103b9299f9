"""The same changes by our tables and by what is written by hand for a batch, from the same topic with the same decoder."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.decoding import decoded
from benchmarks.tables.keyed import GAME, KeyedTopic, Spread
from benchmarks.tables.state import check_state
from benchmarks.world import World
from delta.tables import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from distributary.errors import CheckFailed
from distributary.ingest.run import run
from distributary.ingest.settings.model import Settings


@dataclass(frozen=True, slots=True)
class TwoWays:
    """The seconds that the same changes took, by which keys change."""

    tables: int
    spread: Spread
    ours_seconds: float
    hand_seconds: float

    @property
    def ratio(self) -> float:
        """Ours by theirs."""
        return self.ours_seconds / self.hand_seconds


@dataclass(frozen=True, slots=True)
class ByHand:
    """What is written by hand, and what our settings say instead.

    name     what the tables are called
    rule     of ours, for all tables
    columns  those of a table, by those of the records
    merge    a batch's rows into the tables of the topic's games, which are folders of one folder
    current  which rows of a table say what is true now; None: all
    """

    name: str
    rule: Mapping[str, Any]
    columns: Callable[[StructType], StructType]
    merge: Callable[[World, KeyedTopic, Path, DataFrame], None]
    current: str | None = None


def measure(world: World, topic: KeyedTopic, by: ByHand, spread: Spread) -> TwoWays:
    """All batches of changes, once by each way, over tables that have all keys already. Raises CheckFailed where a row is wrong."""
    sizes, games = topic.sizes, len(topic.games)
    ours, hand = (world.new_folder(world.new_name(f"{by.name}-{way}")) for way in ("ours", "hand"))
    topic.fill()
    world.watch.say(f"{topic.name}: filling {games:,} tables by each way")
    _ours(world, topic, ours, sizes.keys, by)
    tables = {game: ours / "lake" / f"{by.name}_{game}" for game in topic.games}
    _by_hand(world, topic, hand, sizes.keys, by, _like(world, tables))
    topic.change(spread)
    found = []
    for way, folder in ((_ours, ours), (_by_hand, hand)):
        with world.watch.step(f"measuring {way.__name__.strip('_')} ({games:,} tables, {spread})", 1):
            began = time.perf_counter()
            way(world, topic, folder, sizes.changes, by)
            found.append(time.perf_counter() - began)
    check_state("ours", world.spark, tables, topic, by.current)
    check_state("by hand", world.spark, {game: hand / game for game in topic.games}, topic, by.current)
    world.watch.say(f"{games:,} tables, {spread}: ours {found[0]:.1f} s, by hand {found[1]:.1f} s")
    return TwoWays(games, spread, *found)


def _settings(world: World, topic: KeyedTopic, folder: Path, batch_rows: int, by: ByHand) -> Settings:
    route = {"field": GAME, "table": f"{by.name}_{{entity}}"}
    rules = [{"match": "*", **by.rule}]
    return world.settings(topic.name, folder, batch_rows, route=route, tables=rules)


def _ours(world: World, topic: KeyedTopic, folder: Path, batch_rows: int, by: ByHand) -> None:
    """What is in the topic and not yet in the tables."""
    found = run(_settings(world, topic, folder, batch_rows, by), spark=world.spark).summary
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


def _by_hand(  # noqa: PLR0913, PLR0917 - as ours, and what the tables are like
    world: World,
    topic: KeyedTopic,
    folder: Path,
    batch_rows: int,
    by: ByHand,
    properties: Mapping[str, str] | None = None,
) -> None:
    """The same; `properties` are those of tables that are not there yet."""
    rows = decoded(world.spark, _settings(world, topic, folder, batch_rows, by), topic.schema)
    if properties is not None:
        for game in topic.games:
            columns = by.columns(rows.schema)
            table = DeltaTable.create(world.spark).location(str(folder / game)).addColumns(columns)
            for name, value in properties.items():
                table = table.property(name, value)
            table.execute()

    def merge(batch: DataFrame, _: int) -> None:
        by.merge(world, topic, folder, batch)

    writer = rows.writeStream.foreachBatch(merge).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(folder / "progress")).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
