"""What a store costs beside a folder: rows a second, and what each request's way there adds to a batch."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import reduce
from operator import add

from benchmarks.storage.distance import Distance
from benchmarks.storage.requests import Requests, of_batch
from benchmarks.table_costs import steps
from benchmarks.timing import once, warm_up
from benchmarks.ways import ours
from benchmarks.world import World

from distributary.producer_sim.stack.s3_store import BUCKET, S3Store

# A request to a store in the same region, and its answer.
ROUND_TRIP_SECONDS = 0.03

# A pipeline's first batches create tables and read what they are.
FIRST_BATCHES = 2


@dataclass(frozen=True, slots=True)
class Latency:
    """Batches to so many tables, the store near and far in turns, and what they asked of it."""

    tables: int
    near_seconds: tuple[float, ...]
    far_seconds: tuple[float, ...]
    requests: Requests

    @property
    def extra_seconds(self) -> float:
        """What the distance adds to a batch, by the medians."""
        return statistics.median(self.far_seconds) - statistics.median(self.near_seconds)


def measure_speed(world: World, store: S3Store) -> dict[str, list[float]]:
    """The seconds of each run of the whole topic, into a folder and into the store in turns."""
    topic, sizes = world.topic(world.sizes.games), world.sizes
    warm_up(world, [ours])
    seconds: dict[str, list[float]] = {"posix": [], "s3": []}
    for number in range(sizes.runs):
        for name, found in seconds.items():
            where = {} if name == "posix" else in_store(store, world.new_name("speed"), store.port)
            with world.watch.step(f"measuring {name}", 1):
                found.append(once(world, ours, topic, sizes.batch_rows, number == 0, **where))
            world.watch.say(f"{name}: {found[-1]:.1f} s")
    return seconds


def measure_latency(world: World, store: S3Store, way: Distance, tables: int) -> Latency:
    """Batches of the same events to so many tables, with the store near and far in turns."""
    place = world.new_name("latency")
    near: list[float] = []
    far: list[float] = []
    asked: list[list[str]] = []
    with steps(world, place, **in_store(store, place, way.port)) as running:
        for _ in range(FIRST_BATCHES):
            running.take(tables, games=tables)
        way.asked()
        for _ in range(world.sizes.runs):
            for seconds, found in ((0.0, near), (ROUND_TRIP_SECONDS, far)):
                way.set(seconds)
                found.append(running.take(tables, games=tables))
                asked.append(way.asked())
        way.set(0.0)
    root = f"/{BUCKET}/{place}/lake"
    requests = reduce(add, (of_batch(batch, root) for batch in asked))
    world.watch.say(f"{tables:,} tables: near {near}, far {far}, {requests}")
    return Latency(tables, tuple(near), tuple(far), requests)


def in_store(store: S3Store, place: str, port: int) -> dict[str, object]:
    """The settings that put tables and checkpoint into a place of the store, which is reached at a port."""
    s3 = store.storage()["s3"]
    login = {**s3["login"], "secret_access_key": "anything"}
    reached = {**s3, "endpoint": f"http://127.0.0.1:{port}", "login": login}
    return {
        "sink": {"root": f"{store.url}/{place}/lake"},
        "checkpoint": f"{store.url}/{place}/checkpoint",
        "storage": {"s3": reached},
    }
