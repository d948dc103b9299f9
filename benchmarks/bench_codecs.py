"""Every format's decoder beside what one would use otherwise, and whole pipelines in JSON and Avro beside the usual ways.

python benchmarks/bench_codecs.py --help; README.md says what is measured and how it is kept fair.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

# Run as a file, Python looks for modules beside it: let it look where `benchmarks` itself is.
sys.path[0:1] = [str(Path(__file__).resolve().parent.parent)]

from benchmarks.bounds import Bound
from benchmarks.codec_rates import Rate, measure_rates
from benchmarks.machine import machine, versions
from benchmarks.output import screen, write
from benchmarks.program import Smoke, ending, require, verdicts
from benchmarks.results import Timing
from benchmarks.sizes import FULL, SMOKE, Sizes
from benchmarks.timing import CONTENDERS, measure_ways
from benchmarks.watching import Watch, watching
from benchmarks.world import open_world

RESULTS = Path(__file__).resolve().parent / "results" / "codecs.json"
RATE_EVENTS = 200_000
PIPELINES = ("json", "avro")
WAYS = frozenset({"ours", "n_queries", "filters"})

# What the Protobuf pipeline must reach against the same ways, and what the decoders must.
BOUNDS = (
    Bound("avro_fastavro", "times fastavro, a record at a time", 6, at_least=True),
    Bound("avro_from_avro", "times Spark's from_avro on one core", 2, at_least=True),
    Bound("json_from_json", "times Spark's from_json on one core", 2, at_least=True),
    Bound("protobuf_from_protobuf", "times Spark's from_protobuf on one core", 3, at_least=True),
    Bound("pipeline_json_n_queries", "JSON: times the rows/s of a streaming query a game", 5, at_least=True),
    Bound("pipeline_json_filters", "JSON: times the rows/s of persist-and-filter", 3.5, at_least=True),
    Bound("pipeline_avro_n_queries", "Avro: times the rows/s of a streaming query a game", 5, at_least=True),
    Bound("pipeline_avro_filters", "Avro: times the rows/s of persist-and-filter", 3.5, at_least=True),
)
_RATES = {
    "avro_fastavro": ("avro", "fastavro"),
    "avro_from_avro": ("avro", "from_avro"),
    "json_from_json": ("json", "from_json"),
    "protobuf_from_protobuf": ("protobuf", "from_protobuf"),
}

Pipelines = Mapping[str, Mapping[str, Timing]]


def main(
    smoke: Smoke = False,
    output: Annotated[
        Path | None, typer.Option(help="Where the JSON goes (results/codecs.json; nowhere with --smoke).")
    ] = None,
) -> None:
    """Measure, print, write the JSON; exit code 3 where a figure of the full size is not good enough."""
    sizes = replace(SMOKE if smoke else FULL, runs=1)
    with ending():
        with watching() as watch:
            rates = measure_rates(2_000 if smoke else RATE_EVENTS, sizes.seed, watch)
            about, pipelines = _pipelines(sizes, watch)
        ratios = ratios_of(rates, pipelines)
        _show(rates, pipelines, ratios)
        write(_document(about, rates, pipelines, ratios), output or (None if smoke else RESULTS))
        if not smoke:
            require(ratios, BOUNDS)


def ratios_of(rates: Mapping[str, Rate], pipelines: Pipelines) -> dict[str, float | None]:
    """Ours by theirs in rows/s; None where one of them was not measured."""
    found: dict[str, float | None] = {}
    for name, (ours, theirs) in _RATES.items():
        both = ours in rates and theirs in rates
        found[name] = rates[ours].rows_per_second / rates[theirs].rows_per_second if both else None
    for name, timings in pipelines.items():
        for other in ("n_queries", "filters"):
            found[f"pipeline_{name}_{other}"] = (
                timings["ours"].rows_per_second / timings[other].rows_per_second
            )
    return found


def _pipelines(sizes: Sizes, watch: Watch) -> tuple[dict[str, Any], dict[str, dict[str, Timing]]]:
    about: dict[str, Any] = {"date": datetime.now(timezone.utc).isoformat(timespec="seconds")}
    found = {}
    for name in PIPELINES:
        with open_world(sizes, watch, name) as world:
            about |= {"versions": versions(world.spark), "machine": machine()}
            found[name] = {
                way: Timing(way, CONTENDERS[way].title, sizes.games, sizes.events, tuple(seconds))
                for way, seconds in measure_ways(world, WAYS).items()
            }
    return about, found


def _document(
    about: dict[str, Any],
    rates: Mapping[str, Rate],
    pipelines: Pipelines,
    ratios: Mapping[str, float | None],
) -> dict[str, Any]:
    return {
        **about,
        "decoders": {
            name: {
                "by": rate.by,
                "events": rate.events,
                "seconds": [round(seconds, 3) for seconds in rate.seconds],
                "rows_per_second": round(rate.rows_per_second),
            }
            for name, rate in rates.items()
        },
        "pipelines": {
            name: {
                way: {
                    "events": timing.events,
                    "seconds": [round(seconds, 3) for seconds in timing.seconds],
                    "rows_per_second": round(timing.rows_per_second),
                }
                for way, timing in timings.items()
            }
            for name, timings in pipelines.items()
        },
        "ratios": {name: None if value is None else round(value, 3) for name, value in ratios.items()},
    }


def _show(rates: Mapping[str, Rate], pipelines: Pipelines, ratios: Mapping[str, float | None]) -> None:
    speeds = Table("what", title="Events a second", title_justify="left")
    speeds.add_column("rows/s", justify="right")
    for name, rate in rates.items():
        speeds.add_row(f"{name}, one core", f"{rate.rows_per_second:,.0f}")
    for name, timings in pipelines.items():
        for way, timing in timings.items():
            speeds.add_row(f"{name}: {timing.title} ({way})", f"{timing.rows_per_second:,.0f}")
    out = screen()
    out.print(speeds, "")
    out.print(verdicts("Ours beside them", ratios, BOUNDS))


if __name__ == "__main__":
    typer.run(main)
