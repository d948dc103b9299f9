"""The same topic into tables in partitions, and into tables without."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from benchmarks.landed import outcome_holds, table_rows
from benchmarks.tables.amounts import TableSizes
from benchmarks.tables.keyed import DAY, GAME, KeyedTopic, keyed_topic
from benchmarks.world import World

from distributary.errors import CheckFailed
from distributary.ingest.run import run

_WAYS = {"whole": {}, "partitioned": {"tables": [{"match": "*", "partition_by": [DAY]}]}}


@dataclass(frozen=True, slots=True)
class Partitioned:
    """The seconds of each run, in turns."""

    tables: int
    days: int
    whole_seconds: tuple[float, ...]
    partitioned_seconds: tuple[float, ...]


def measure_partitioned(world: World, sizes: TableSizes) -> Partitioned:
    """One batch of all keys, spread over all days. Raises CheckFailed where it lost rows."""
    topic = keyed_topic(world, sizes, sizes.games)
    topic.fill()
    seconds: dict[str, list[float]] = {name: [] for name in _WAYS}
    # The first of each is warm-up.
    for number in range(sizes.runs + 1):
        for name, changed in _WAYS.items():
            with world.watch.step(f"measuring {name} ({sizes.games:,} tables, {sizes.days} days)", 1):
                took = _once(world, topic, name, changed)
            world.watch.say(f"{name}: {took:.1f} s")
            seconds[name] += [took] if number else []
    return Partitioned(sizes.games, sizes.days, tuple(seconds["whole"]), tuple(seconds["partitioned"]))


def _once(world: World, topic: KeyedTopic, name: str, changed: dict[str, Any]) -> float:
    folder = world.new_folder(world.new_name(name))
    route = {"field": GAME, "table": "{entity}"}
    settings = world.settings(topic.name, folder, topic.sizes.keys, route=route, **changed)
    began = time.perf_counter()
    outcome = run(settings, spark=world.spark)
    seconds = time.perf_counter() - began
    outcome_holds(outcome, topic.sent)
    for game, (rows, _) in topic.rows().items():
        if (found := table_rows(folder / "lake" / game)) != rows:
            raise CheckFailed(f"{name}: the table of {game} has {found:,} rows instead of {rows:,}")
    return seconds
