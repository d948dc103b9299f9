"""The measured table in README.md, made from results/demux.json: python benchmarks/readme_table.py writes it anew."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "demux.json"
README = ROOT / "README.md"

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"

_ORDER = ("ours", "single", "filters", "n_queries", "noop")


def table(document: Mapping[str, Any]) -> str:
    """The section's text, both marks included."""
    ratios, ways = document["ratios"], document["ways"]
    lines = [BEGIN, "| way | seconds | rows/s | ours is |", "|---|--:|--:|--:|"]
    lines += [_row(name, ways[name], ratios) for name in _ORDER]
    many = (
        f"With 100 tables the same events take {ratios['games_100']:.2f} times the seconds of 10 tables, with 1,000 tables "
        f"{ratios['games_1000']:.2f} times. A restart for a new schema costs at most {ratios['restart_seconds']:.1f} s in "
        f"steady state. All Python workers together hold at most {ratios['worker_peak_mib']:,.0f} MiB with all events in one batch."
    )
    return "\n".join([*lines, "", many, END])


def with_table(readme: str, document: Mapping[str, Any]) -> str:
    """README's text with the section made anew."""
    before, _, rest = readme.partition(BEGIN)
    return before + table(document) + rest.partition(END)[2]


def _row(name: str, way: Mapping[str, Any], ratios: Mapping[str, Any]) -> str:
    ratio = f"{ratios[name]:.2f} times as fast" if name in ratios else ""
    return f"| {way['title']} | {way['median_seconds']:.1f} | {way['rows_per_second']:,} | {ratio} |"


if __name__ == "__main__":
    text = with_table(README.read_text(encoding="utf-8"), json.loads(RESULTS.read_text(encoding="utf-8")))
    README.write_text(text, encoding="utf-8")
