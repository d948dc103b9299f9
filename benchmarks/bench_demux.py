"""One topic into a table a game: how fast, beside the usual ways, and what evolving, memory and many tables cost.

python benchmarks/bench_demux.py --help; README.md says what is measured and how it is kept fair.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

import typer

# Run as a file, Python looks for modules beside it: let it look where `benchmarks` itself is.
sys.path[0:1] = [str(Path(__file__).resolve().parent.parent)]

from benchmarks.age import measure_age
from benchmarks.bounds import BOUNDS
from benchmarks.commit_cost import measure_commits
from benchmarks.machine import machine, versions
from benchmarks.memory import measure_memory
from benchmarks.output import screen, write
from benchmarks.program import Smoke, chosen, ending, require
from benchmarks.report import show
from benchmarks.restarts import measure_restarts
from benchmarks.results import Results, Timing
from benchmarks.single_records import measure_single_records
from benchmarks.sizes import FULL, SMOKE, Sizes
from benchmarks.table_costs import measure_evolving, measure_new_tables
from benchmarks.timing import CONTENDERS, measure_ways
from benchmarks.watching import Watch, watching
from benchmarks.world import DRIVER_MEMORY, World, open_world

RESULTS = Path(__file__).resolve().parent / "results" / "demux.json"
PARTS = (*CONTENDERS, "restart", "tables", "single_record", "age", "memory")


def main(  # noqa: PLR0913, PLR0917 - its parameters are the options
    events: Annotated[int | None, typer.Option(min=1, help="Events in each topic (2,000,000).")] = None,
    games: Annotated[
        int | None, typer.Option(min=1, help="Games in the topic that all ways read (10).")
    ] = None,
    batch_rows: Annotated[
        int | None, typer.Option(min=1, help="Events in a batch, the same for all (500,000).")
    ] = None,
    only: Annotated[str, typer.Option(metavar="NAMES", help=f"Of {', '.join(PARTS)}: only these.")] = "",
    smoke: Smoke = False,
    output: Annotated[
        Path | None,
        typer.Option(help="Where the JSON goes (results/demux.json; nowhere with --smoke or --only)."),
    ] = None,
) -> None:
    """Measure, print, write the JSON; exit code 3 where a figure of the full size is not good enough."""
    with ending():
        sizes = _sizes(SMOKE if smoke else FULL, events=events, games=games, batch_rows=batch_rows)
        names = frozenset(chosen(only, PARTS))
        with watching() as watch:
            document, results = _measured(sizes, names, watch)
        show(results, sizes.full, screen())
        write(document, output or (None if smoke or only else RESULTS))
        if sizes.full:
            require(results.figures(), BOUNDS)


def _sizes(usual: Sizes, **given: int | None) -> Sizes:
    return replace(usual, **{name: number for name, number in given.items() if number is not None})


def _measured(sizes: Sizes, names: frozenset[str], watch: Watch) -> tuple[dict[str, Any], Results]:
    with open_world(sizes, watch) as world:
        about = {
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "versions": versions(world.spark),
            "machine": machine(),
            "parameters": {**asdict(sizes), "full_size": sizes.full, "driver_memory": DRIVER_MEMORY},
        }
        results = _results(world, names)
    return {**about, **results.as_json()}, results


def _results(world: World, names: frozenset[str]) -> Results:
    results = Results()
    if names & {*CONTENDERS}:
        for name, seconds in measure_ways(world, names).items():
            contender = CONTENDERS[name]
            games, events = contender.games(world.sizes), world.sizes.events
            results.timings[name] = Timing(name, contender.title, games, events, tuple(seconds))
    if "restart" in names:
        results.restarts = measure_restarts(world)
    if "tables" in names:
        results.commits = measure_commits(world.sizes, world.new_folder("commits"))
        results.new_tables = measure_new_tables(world)
        results.evolving = measure_evolving(world)
    if "single_record" in names:
        results.single_records = measure_single_records(world)
    if "age" in names:
        world.watch.say(f"measuring age: {world.sizes.age_commits:,} commits")
        results.age = measure_age(world.sizes, world.new_folder("age"))
    if "memory" in names:
        results.memory = measure_memory(world)
    return results


if __name__ == "__main__":
    typer.run(main)
