"""Tables in a store that speaks S3 beside tables in a folder: how fast, and what each request's way there costs.

python benchmarks/bench_storage.py --help; README.md says what is measured and how it is kept fair.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

import typer

# Run as a file, Python looks for modules beside it: let it look where `benchmarks` itself is.
sys.path[0:1] = [str(Path(__file__).resolve().parent.parent)]

from benchmarks.bounds import Bound
from benchmarks.machine import machine, versions
from benchmarks.memory import measure_memory
from benchmarks.output import screen, write
from benchmarks.program import Smoke, ending, require, verdicts
from benchmarks.sizes import FULL, SMOKE, Sizes
from benchmarks.storage.costs import (
    ROUND_TRIP_SECONDS,
    Latency,
    in_store,
    measure_latency,
    measure_speed,
)
from benchmarks.storage.distance import distance
from benchmarks.storage.recovery import measure_recovery
from benchmarks.watching import Watch, watching
from benchmarks.world import DRIVER_MEMORY, open_world

from distributary.producer_sim.stack.s3_store import S3Store

RESULTS = Path(__file__).resolve().parent / "results" / "storage.json"

BOUNDS = (
    Bound("s3_posix", "of the rows/s into a folder", 0.7, at_least=True),
    Bound("latency_10_tables_seconds", "seconds more a batch to 10 tables, 30 ms a request", 0.6),
    Bound("latency_1000_tables_seconds", "seconds more a batch to 1,000 tables, 30 ms a request", 4),
    Bound("requests_a_table", "requests a batch and table beside its data files", 2),
    Bound("requests_a_batch", "requests a batch for no table in particular", 4),
    Bound("checkpoint_requests_a_table", "requests more for checkpoints of logs, on average", 1),
    Bound("worker_peak_mib", "MiB in all Python workers, a batch of everything", 1228.8),
    Bound("recovery_seconds", "seconds of the slowest run after a kill, to its end", 15),
)


def main(
    smoke: Smoke = False,
    output: Annotated[
        Path | None, typer.Option(help="Where the JSON goes (results/storage.json; nowhere with --smoke).")
    ] = None,
) -> None:
    """Measure, print, write the JSON; exit code 3 where a figure of the full size is not good enough."""
    with ending():
        with watching() as watch:
            document = _measured(SMOKE if smoke else FULL, watch)
        screen().print(verdicts("A store that speaks S3", document["ratios"], BOUNDS))
        write(document, output or (None if smoke else RESULTS))
        if not smoke:
            require(document["ratios"], BOUNDS)


def _measured(sizes: Sizes, watch: Watch) -> dict[str, Any]:
    with open_world(sizes, watch) as world:
        store = S3Store(world.new_folder("s3"))
        watch.say(f"starting {store.prepare()}")
        store.start()
        try:
            speed = measure_speed(world, store)
            with distance(store.port) as way:
                few = measure_latency(world, store, way, sizes.games)
                many = measure_latency(world, store, way, sizes.most_games)
            recovery = measure_recovery(world, store)
            memory = measure_memory(world, **in_store(store, "memory", store.port))
        finally:
            store.kill()
        return {
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "versions": versions(world.spark),
            "machine": machine(),
            "parameters": {
                **asdict(sizes),
                "driver_memory": DRIVER_MEMORY,
                "store": store.prepare(),
                "round_trip_seconds": ROUND_TRIP_SECONDS,
            },
            "speed": {name: {"seconds": [round(run, 3) for run in runs]} for name, runs in speed.items()},
            "latency": {"few": _latency(few), "many": _latency(many)},
            "recovery_seconds": [round(seconds, 3) for seconds in recovery],
            "memory": asdict(memory),
            "ratios": {
                name: round(figure, 3)
                for name, figure in ratios_of(speed, few, many, memory.peak_mib, recovery).items()
            },
        }


def ratios_of(
    speed: Mapping[str, Sequence[float]], few: Latency, many: Latency, peak: float, recovery: Sequence[float]
) -> dict[str, float]:
    """S3 by a folder in rows/s, seconds that distance adds, and requests; those of many tables, where what is shared weighs little.

    The workers' `peak` in MiB, and the slowest run after a kill, stand for themselves.
    """
    return {
        "s3_posix": statistics.median(speed["posix"]) / statistics.median(speed["s3"]),
        "latency_10_tables_seconds": few.extra_seconds,
        "latency_1000_tables_seconds": many.extra_seconds,
        "requests_a_table": many.requests.a_table,
        "requests_a_batch": many.requests.beside / len([*many.near_seconds, *many.far_seconds]),
        "checkpoint_requests_a_table": many.requests.checkpoints_a_table,
        "worker_peak_mib": peak,
        "recovery_seconds": max(recovery),
    }


def _latency(found: Latency) -> dict[str, Any]:
    return {
        "tables": found.tables,
        "near_seconds": [round(seconds, 3) for seconds in found.near_seconds],
        "far_seconds": [round(seconds, 3) for seconds in found.far_seconds],
        "requests": asdict(found.requests),
        "requests_a_table": round(found.requests.a_table, 3),
    }


if __name__ == "__main__":
    typer.run(main)
