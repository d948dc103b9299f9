"""What it costs to create very many tables in one batch, and to evolve many at once."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.stepped_run import Batch, SteppedRun, stepped_run
from benchmarks.world import World

from distributary.errors import CheckFailed
from distributary.producer_sim.traffic.events import game_names


@dataclass(frozen=True, slots=True)
class BatchCost:
    """Batches in which something happened to so many tables, and batches of the same size in which nothing did."""

    tables: int
    seconds: tuple[float, ...]
    usual_seconds: tuple[float, ...]

    @property
    def extra_seconds(self) -> float:
        """What it cost where it cost most."""
        return max(self.seconds) - statistics.median(self.usual_seconds)


def measure_new_tables(world: World) -> BatchCost:
    """A batch of games that are all new, in a pipeline that runs already, and the same games again."""
    sizes = world.sizes
    known, new = game_names(sizes.games), tuple(f"new_{number}" for number in range(sizes.new_tables))
    route = {"field": "game_name", "table": "silver_{entity}_events", "max_tables": len(known) + len(new)}
    with steps(world, "new-tables", route=route) as running:
        running.take(len(known), game_names=known)
        creating, *usual = (running.take(len(new), game_names=new) for _ in range(3))
    return BatchCost(len(new), (creating,), tuple(usual))


def measure_evolving(world: World) -> BatchCost:
    """Batches that bring new fields to all tables at once, twice, beside those in between that bring none.

    `evolution: inline`, because a batch then has the whole cost in it: setting aside, asking, altering, a second pass.
    """
    games = world.sizes.evolved_tables
    evolving, usual = [], []
    with steps(world, "evolving", decode={"evolution": "inline"}) as running:
        running.take(games, games=games)
        usual.append(running.take(games, games=games))
        for version in (2, 3):
            evolving.append(running.take(games, games=games, first_version=version, versions=version))
            usual.append(running.take(games, games=games, first_version=version, versions=version))
    return BatchCost(games, tuple(evolving), tuple(usual))


@contextmanager
def steps(world: World, kind: str, **changed: Any) -> Iterator[Steps]:
    """A pipeline for as long as the block lasts; what it wrote is checked then, and thrown away."""
    topic = world.new_name(kind)
    folder = world.new_folder(topic)
    rows = 2 * world.sizes.table_events
    settings = world.settings(
        topic, folder, rows, trigger={"available_now": False, "interval_seconds": 0}, **changed
    )
    with stepped_run(world, settings) as pipeline:
        yield Steps(world, topic, pipeline)
        pipeline.end()
    shutil.rmtree(folder)


class Steps:
    """A pipeline that takes each step in one batch, of a size that is always the same."""

    def __init__(self, world: World, topic: str, pipeline: SteppedRun) -> None:
        self._world, self._topic, self._pipeline = world, topic, pipeline
        self._count = 0

    def take(self, tables: int, **chosen: Any) -> float:
        """The seconds of a batch of these events, which must go to so many tables."""
        self._count += 1
        seed = self._world.sizes.seed + self._count
        events = self._world.sizes.table_events
        batches = self._pipeline.step(self._world.simulation(self._topic, events=events, seed=seed, **chosen))
        return _only(batches, tables).seconds


def _only(batches: Sequence[Batch], tables: int) -> Batch:
    if [batch.tables for batch in batches] != [tables]:
        found = ", ".join(f"{batch.rows:,} rows to {batch.tables:,} tables" for batch in batches)
        raise CheckFailed(f"one batch to {tables:,} tables was to be measured, but there were: {found}")
    return batches[0]
