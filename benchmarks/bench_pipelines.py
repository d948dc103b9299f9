"""What a pipeline costs that does more than fill its tables: tables made of tables, records kept as they came, expectations; and replays of these.

python benchmarks/bench_pipelines.py --help; README.md says what is measured and how it is kept fair.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

import typer

# Run as a file, Python looks for modules beside it: let it look where `benchmarks` itself is.
sys.path[0:1] = [str(Path(__file__).resolve().parent.parent)]

from benchmarks.bounds import Bound
from benchmarks.machine import machine, versions
from benchmarks.output import screen, write
from benchmarks.pipelines.ways import PLAIN, REPLAY, measured, ways
from benchmarks.program import Smoke, chosen, ending, require, verdicts
from benchmarks.sizes import FULL, SMOKE
from benchmarks.watching import Watch, watching
from benchmarks.world import DRIVER_MEMORY, open_world

RESULTS = Path(__file__).resolve().parent / "results" / "pipelines.json"

PARTS = ("gold", "bronze", "expectations", REPLAY)

BOUNDS = (
    Bound("gold", "times the seconds without tables made of tables", 1.5),
    Bound("bronze", "times the seconds without records kept as they came", 1.25),
    Bound("expectations", "times the seconds without five expectations a table", 1.1),
    Bound(REPLAY, "times the rows/s from Kafka, from what was kept as it came", 1.0, at_least=True),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PipelineSizes:
    """Everything that decides how long it takes.

    gold_events      events of the topic for tables made of tables, which are made current each `refresh_batches` batches
    gold_runs, runs  how often each way is measured, in turns
    """

    gold_events: int = 10_000_000
    events: int = 2_000_000
    games: int = 10
    batch_rows: int = 500_000
    refresh_batches: int = 4
    gold_runs: int = 1
    runs: int = 3


FULL_PIPELINES = PipelineSizes()

SMOKE_PIPELINES = PipelineSizes(
    gold_events=4_000, events=2_000, games=2, batch_rows=1_000, refresh_batches=2, runs=1
)


def main(
    only: Annotated[str, typer.Option(metavar="NAMES", help=f"Of {', '.join(PARTS)}: only these.")] = "",
    smoke: Smoke = False,
    output: Annotated[
        Path | None,
        typer.Option(help="Where the JSON goes (results/pipelines.json; nowhere with --smoke or --only)."),
    ] = None,
) -> None:
    """Measure, print, write the JSON; exit code 3 where a figure of the full size is not good enough."""
    with ending():
        names = chosen(only, PARTS)
        with watching() as watch:
            document = _measured(SMOKE_PIPELINES if smoke else FULL_PIPELINES, names, watch, smoke=smoke)
        screen().print(verdicts("Pipelines that do more", document["ratios"], BOUNDS))
        write(document, output or (None if smoke or only else RESULTS))
        if not smoke:
            require(document["ratios"], BOUNDS)


def _measured(sizes: PipelineSizes, names: Sequence[str], watch: Watch, *, smoke: bool) -> dict[str, Any]:
    every = ways(sizes.refresh_batches)
    with open_world(replace(SMOKE if smoke else FULL, games=sizes.games), watch) as world:
        about = {
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "versions": versions(world.spark),
            "machine": machine(),
            "parameters": {**asdict(sizes), "driver_memory": DRIVER_MEMORY},
        }
        found: dict[str, dict[str, tuple[float, ...]]] = {}
        if others := [every[name] for name in names if name != "gold"]:
            topic = world.new_topic(sizes.games, sizes.events)
            found["others"] = measured(world, topic, sizes.batch_rows, [every[PLAIN], *others], sizes.runs)
        if "gold" in names:
            topic = world.new_topic(sizes.games, sizes.gold_events)
            both = [every[PLAIN], every["gold"]]
            found["gold"] = measured(world, topic, sizes.batch_rows, both, sizes.gold_runs)
    return {**about, "seconds": found, "ratios": ratios_of(found)}


def ratios_of(found: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, float | None]:
    """The median seconds of each way by those of the plain one beside it, of a replay its speed; None for what was not measured."""
    ratios: dict[str, float | None] = dict.fromkeys(bound.figure for bound in BOUNDS)
    for seconds in found.values():
        for name in ratios.keys() & seconds.keys():
            mine, plain = statistics.median(seconds[name]), statistics.median(seconds[PLAIN])
            ratios[name] = round(plain / mine if name == REPLAY else mine / plain, 3)
    return ratios


if __name__ == "__main__":
    typer.run(main)
