"""Changes of a million keys: our tables that keep what was beside a MERGE a batch, as it is written by hand for them."""

from __future__ import annotations

from pathlib import Path

from benchmarks.tables.amounts import TableSizes
from benchmarks.tables.keyed import KEY, NEWEST_BY, KeyedTopic, Spread, keyed_topic
from benchmarks.tables.two_ways import ByHand, TwoWays, measure
from benchmarks.world import World
from delta.tables import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import BooleanType, StructType, TimestampType

_SINCE, _UNTIL, _CURRENT = "valid_from", "valid_to", "is_current"


def measure_histories(world: World, sizes: TableSizes, spread: Spread) -> TwoWays:
    """All batches of changes, once by each way, over a table that has all keys already. Raises CheckFailed where a current row is wrong."""
    return measure(world, keyed_topic(world, sizes, 1, timed=True), _HISTORIES, spread)


def _columns(records: StructType) -> StructType:
    bounds = (
        StructType().add(_SINCE, TimestampType()).add(_UNTIL, TimestampType()).add(_CURRENT, BooleanType())
    )
    return StructType([*records.fields, *bounds.fields])


def _merge(world: World, topic: KeyedTopic, folder: Path, batch: DataFrame) -> None:
    """The newest record of each key of a batch, and once more without a key where it ends a row, then one MERGE.

    So it is usually written: of several records of a key in a batch all but the newest are lost, and late ones are.
    """
    table = DeltaTable.forPath(world.spark, str(folder / topic.games[0]))
    names = batch.columns
    others = [name for name in names if name not in (KEY, NEWEST_BY)]
    newest = sql.max(sql.struct(NEWEST_BY, *others)).alias("newest")
    latest = batch.groupBy(KEY).agg(newest).select(KEY, "newest.*").persist()
    current = table.toDF().where(_CURRENT).alias("t")
    says = [sql.col(f"s.{name}").eqNullSafe(sql.col(f"t.{name}")) for name in others]
    same = says[0]
    for one in says[1:]:
        same &= one
    differing = (sql.col(f"s.{NEWEST_BY}") > sql.col(f"t.{NEWEST_BY}")) & ~same
    ends = latest.alias("s").join(current, KEY).where(differing).select(*(f"s.{name}" for name in names))
    staged = ends.withColumn("merge_key", sql.lit(None).cast("long")).unionByName(
        latest.withColumn("merge_key", sql.col(KEY))
    )
    values = {name: f"s.{name}" for name in names}
    bounds = {_SINCE: f"s.{NEWEST_BY}", _UNTIL: "null", _CURRENT: "true"}
    differs = " OR ".join(f"NOT s.{name} <=> t.{name}" for name in others)
    merging = table.alias("t").merge(staged.alias("s"), f"t.{KEY} = s.merge_key AND t.{_CURRENT}")
    ending = merging.whenMatchedUpdate(
        f"s.{NEWEST_BY} > t.{NEWEST_BY} AND ({differs})", {_UNTIL: f"s.{NEWEST_BY}", _CURRENT: "false"}
    )
    ending.whenNotMatchedInsert(values={**values, **bounds}).execute()
    latest.unpersist()


_HISTORIES = ByHand(
    "history",
    {"mode": "history", "keys": [KEY], "sequence_by": [NEWEST_BY]},
    _columns,
    _merge,
    current=_CURRENT,
)
