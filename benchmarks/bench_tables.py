"""Tables with one row a key, tables that keep what was, tables in partitions, and upkeep: how fast, beside what is written by hand.

python benchmarks/bench_tables.py --help; README.md says what is measured and how it is kept fair.
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
from benchmarks.output import screen, write
from benchmarks.program import Smoke, chosen, ending, require, verdicts
from benchmarks.sizes import FULL, SMOKE
from benchmarks.tables.amounts import FULL_TABLES, SMOKE_TABLES, TableSizes
from benchmarks.tables.histories import measure_histories
from benchmarks.tables.partitions import Partitioned, measure_partitioned
from benchmarks.tables.two_ways import TwoWays
from benchmarks.tables.upkeep import Upkeep, measure_upkeep
from benchmarks.tables.upserts import measure_upserts
from benchmarks.watching import Watch, watching
from benchmarks.world import DRIVER_MEMORY, World, open_world

RESULTS = Path(__file__).resolve().parent / "results" / "tables.json"

PARTS = ("upserts", "histories", "partitioned", "upkeep")

BOUNDS = (
    Bound("upsert_by_hand", "times the seconds of a MERGE by hand, the worse of two spreads", 0.7),
    Bound("upsert_tables", "times the seconds of ten MERGEs by hand", 0.5),
    Bound(
        "history_by_hand", "times the seconds of a MERGE by hand that keeps what was, the worse of two", 0.8
    ),
    Bound("partitioned", "times the seconds of tables without partitions", 1.5),
    Bound("upkeep", "of the rows/s without upkeep", 0.8, at_least=True),
    Bound("upkeep_files", "files a table after a thousand batches with upkeep", 500),
    Bound("upkeep_open", "times the seconds in which Spark opens a table of one batch", 2),
    Bound("upkeep_open_delta_rs", "times the millisecond in which delta-rs does", 5),
)


def main(
    only: Annotated[str, typer.Option(metavar="NAMES", help=f"Of {', '.join(PARTS)}: only these.")] = "",
    smoke: Smoke = False,
    output: Annotated[
        Path | None,
        typer.Option(help="Where the JSON goes (results/tables.json; nowhere with --smoke or --only)."),
    ] = None,
) -> None:
    """Measure, print, write the JSON; exit code 3 where a figure of the full size is not good enough."""
    with ending():
        names = chosen(only, PARTS)
        with watching() as watch:
            document = _measured(smoke, names, watch)
        screen().print(verdicts("Tables that change", document["ratios"], BOUNDS))
        write(document, output or (None if smoke or only else RESULTS))
        if not smoke:
            require(document["ratios"], BOUNDS)


def _measured(smoke: bool, names: Sequence[str], watch: Watch) -> dict[str, Any]:
    sizes = SMOKE_TABLES if smoke else FULL_TABLES
    with open_world(SMOKE if smoke else FULL, watch, "avro") as world:
        about = {
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "versions": versions(world.spark),
            "machine": machine(),
            "parameters": {**asdict(sizes), "driver_memory": DRIVER_MEMORY},
        }
        upserts = _upserts(world, sizes) if "upserts" in names else []
        histories = _histories(world, sizes) if "histories" in names else []
        partitioned = measure_partitioned(world, sizes) if "partitioned" in names else None
        upkeep = measure_upkeep(world, sizes) if "upkeep" in names else None
    return {
        **about,
        "upserts": [_rounded(asdict(one)) for one in upserts],
        "histories": [_rounded(asdict(one)) for one in histories],
        "partitioned": None if partitioned is None else _rounded(asdict(partitioned)),
        "upkeep": None if upkeep is None else _rounded(asdict(upkeep)),
        "ratios": _rounded(ratios_of(upserts, histories, partitioned, upkeep)),
    }


def _histories(world: World, sizes: TableSizes) -> list[TwoWays]:
    if sizes is not SMOKE_TABLES:
        measure_histories(world, SMOKE_TABLES, "uniform")
    return [measure_histories(world, sizes, "uniform"), measure_histories(world, sizes, "zipf")]


def _upserts(world: World, sizes: TableSizes) -> list[TwoWays]:
    # What is first pays for the first compilations of both ways.
    if sizes is not SMOKE_TABLES:
        measure_upserts(world, SMOKE_TABLES, 1, "uniform")
    return [
        measure_upserts(world, sizes, 1, "uniform"),
        measure_upserts(world, sizes, 1, "zipf"),
        measure_upserts(world, sizes, sizes.games, "uniform"),
    ]


def ratios_of(
    upserts: list[TwoWays],
    histories: list[TwoWays],
    partitioned: Partitioned | None,
    upkeep: Upkeep | None,
) -> dict[str, float | None]:
    """Our seconds by those of the other way; with upkeep rows a second by those without it. None for what was not measured."""
    one = [found.ratio for found in upserts if found.tables == 1]
    many = [found.ratio for found in upserts if found.tables > 1]
    found: dict[str, float | None] = dict.fromkeys(bound.figure for bound in BOUNDS)
    found["upsert_by_hand"], found["upsert_tables"] = max(one, default=None), max(many, default=None)
    found["history_by_hand"] = max((one.ratio for one in histories), default=None)
    if partitioned is not None:
        seconds = partitioned.partitioned_seconds, partitioned.whole_seconds
        found["partitioned"] = statistics.median(seconds[0]) / statistics.median(seconds[1])
    if upkeep is not None:
        found["upkeep"] = upkeep.off.seconds / upkeep.on.seconds
        found["upkeep_files"] = float(upkeep.on.files)
        found["upkeep_open"] = upkeep.on.spark_open_seconds / upkeep.fresh.spark_open_seconds
        found["upkeep_open_delta_rs"] = upkeep.on.open_seconds / upkeep.fresh.open_seconds
    return found


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    return round(value, 3) if isinstance(value, float) else value


if __name__ == "__main__":
    typer.run(main)
