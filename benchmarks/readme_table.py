"""The measured tables in README.md, made from results/*.json: python benchmarks/readme_table.py writes them anew."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
README = ROOT / "README.md"

# Each section by its results; what stands between its marks is made from them.
SECTIONS = ("demux", "codecs")

_ORDER = ("ours", "single", "filters", "n_queries", "noop")


def table(name: str, document: Mapping[str, Any]) -> str:
    """A section's text, both marks included."""
    begin, end = marks(name)
    return "\n".join([begin, *_LINES[name](document), end])


def with_table(readme: str, name: str, document: Mapping[str, Any]) -> str:
    """README's text with a section made anew."""
    begin, end = marks(name)
    before, _, rest = readme.partition(begin)
    return before + table(name, document) + rest.partition(end)[2]


def marks(name: str) -> tuple[str, str]:
    """What a section begins and ends with."""
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


def results(name: str) -> Any:
    """What was measured last."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def _demux(document: Mapping[str, Any]) -> list[str]:
    ratios, ways = document["ratios"], document["ways"]
    many = (
        f"With 100 tables the same events take {ratios['games_100']:.2f} times the seconds of 10 tables, with 1,000 tables "
        f"{ratios['games_1000']:.2f} times. The longest of three restarts for a new schema took {ratios['restart_seconds']:.1f} s. With all "
        f"events in one batch all Python workers together held {ratios['worker_peak_mib']:,.0f} MiB at their peak."
    )
    rows = [_row(name, ways[name], ratios) for name in _ORDER]
    return ["| way | seconds | rows/s | ours is |", "|---|--:|--:|--:|", *rows, "", many]


def _row(name: str, way: Mapping[str, Any], ratios: Mapping[str, Any]) -> str:
    ratio = f"{ratios[name]:.2f} times as fast" if name in ratios else ""
    return f"| {way['title']} | {way['median_seconds']:.1f} | {way['rows_per_second']:,} | {ratio} |"


def _codecs(document: Mapping[str, Any]) -> list[str]:
    decoders, ratios = document["decoders"], document["ratios"]
    rows = [
        f"| {title} | {decoders[beside[0][0]]['rows_per_second']:,} | {_beside(beside, document)} |"
        for title, beside in _CODECS
    ]
    whole = ", ".join(
        f"in {title} {ratios[f'pipeline_{name}_n_queries']:.1f} times as fast as a streaming query a game and "
        f"{ratios[f'pipeline_{name}_filters']:.1f} times as fast as persist-and-append"
        for name, title in (("avro", "Avro"), ("json", "JSON"))
    )
    return [
        "| decoder | rows/s on one core | that is |",
        "|---|--:|---|",
        *rows,
        "",
        f"Whole pipelines are {whole}.",
    ]


def _beside(theirs: Sequence[tuple[str, str, str]], document: Mapping[str, Any]) -> str:
    """How much faster ours is than each of theirs that was measured, and which version that was."""
    decoders, ratios = document["decoders"], document["ratios"]
    return ", ".join(
        f"{ratios[f'{figure}_{name}']:.1f} times {what.format(by=decoders[name]['by'])}"
        for figure, name, what in theirs
        if ratios.get(f"{figure}_{name}") is not None
    )


_CODECS = (
    ("Protobuf", (("protobuf", "from_protobuf", "`from_protobuf` of {by}"),)),
    (
        "Avro",
        (("avro", "from_avro", "`from_avro` of {by}"), ("avro", "fastavro", "{by}, a record at a time")),
    ),
    ("JSON", (("json", "from_json", "`from_json` of {by}"),)),
)
_LINES: Mapping[str, Callable[[Mapping[str, Any]], list[str]]] = {"demux": _demux, "codecs": _codecs}


if __name__ == "__main__":
    text = README.read_text(encoding="utf-8")
    for section in SECTIONS:
        text = with_table(text, section, results(section))
    README.write_text(text, encoding="utf-8")
