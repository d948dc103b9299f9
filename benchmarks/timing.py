"""The time that a way takes, and that it took it for all the rows."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks import ways
from benchmarks.landed import check_rows, verified
from benchmarks.sizes import Sizes
from benchmarks.ways import Way
from benchmarks.world import Topic, World


@dataclass(frozen=True, slots=True)
class Contender:
    """A way on a topic of so many games; `close`: its ratio is near enough to 1 to need a median."""

    name: str
    title: str
    way: Way
    games: Callable[[Sizes], int]
    close: bool


def _games(sizes: Sizes) -> int:
    return sizes.games


CONTENDERS: Mapping[str, Contender] = {
    contender.name: contender
    for contender in (
        Contender("noop", "Kafka to nowhere", ways.noop, _games, True),
        Contender("noop_tuned", "Kafka to nowhere, read as we read", ways.noop_tuned, _games, True),
        Contender("single", "one Delta table, not demultiplexed", ways.single, _games, True),
        Contender("ours", "distributary", ways.ours, _games, True),
        Contender("games_100", "distributary", ways.ours, lambda sizes: sizes.many_games, True),
        Contender("games_1000", "distributary", ways.ours, lambda sizes: sizes.most_games, True),
        Contender("filters", "persist, and an append a game", ways.filters, _games, False),
        Contender("n_queries", "a streaming query a game", ways.n_queries, _games, False),
    )
}


def measure_ways(world: World, names: frozenset[str]) -> dict[str, list[float]]:
    """The seconds of every run of these contenders; those that are close take turns."""
    chosen = [contender for name, contender in CONTENDERS.items() if name in names]
    topics = {games: world.topic(games) for games in {one.games(world.sizes) for one in chosen}}
    warm_up(world, [one.way for one in chosen])
    seconds: dict[str, list[float]] = {contender.name: [] for contender in chosen}
    for number in range(world.sizes.runs):
        for contender in chosen:
            if contender.close or number == 0:
                topic = topics[contender.games(world.sizes)]
                took = _measured(world, contender, topic, verify=number == 0 and contender.name == "ours")
                seconds[contender.name].append(took)
                _say(world, contender, topic, took)
    return seconds


def warm_up(world: World, ways: Iterable[Way]) -> None:
    """Every way once on a small topic, so that nobody pays for the JVM's start and its first compilations."""
    small = world.new_topic(world.sizes.games, world.sizes.warm_up_events)
    for name, way in {way.__name__: way for way in ways}.items():
        world.watch.say(f"warming up: {name}")
        once(world, way, small, world.sizes.warm_up_events)


def _measured(world: World, contender: Contender, topic: Topic, verify: bool) -> float:
    with world.watch.step(f"measuring {contender.name} ({len(topic.rows):,} games)", 1):
        return once(world, contender.way, topic, world.sizes.batch_rows, verify)


def once(
    world: World, way: Way, topic: Topic, batch_rows: int, verify: bool = False, **changed: Any
) -> float:
    """The seconds of a way on a topic, with some settings changed. Raises CheckFailed where it lost rows."""
    folder = world.new_folder(world.new_name(way.__name__))
    settings = world.settings(topic.name, folder, batch_rows, **changed)
    _collect_garbage(world)
    began = time.perf_counter()
    landed = way(world.spark, settings, topic)
    seconds = time.perf_counter() - began
    check_rows(way.__name__, landed(), topic.rows)
    if verify:
        verified(settings, topic.truth)
    # The folder stays until the world ends: ext4 keeps clear of inodes freed within the last minute, so that whoever
    # wrote next would search for one the longer, the more files were removed just before.
    return seconds


def _collect_garbage(world: World) -> None:
    """What one way leaves behind is not for the next to clear away."""
    gc.collect()
    jvm = world.spark.sparkContext._jvm
    assert jvm is not None
    jvm.java.lang.System.gc()


def _say(world: World, contender: Contender, topic: Topic, seconds: float) -> None:
    rate = sum(topic.rows.values()) / seconds
    world.watch.say(f"{contender.name}: {seconds:.1f} s, {rate:,.0f} rows/s")
