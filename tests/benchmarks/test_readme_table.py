from __future__ import annotations

from typing import Any

import pytest
from benchmarks.readme_table import README, SECTIONS, marks, results, table, with_table

DOCUMENT: dict[str, Any] = {
    "ways": {
        name: {"title": f"way {name}", "median_seconds": 7.0, "rows_per_second": 1000}
        for name in ("ours", "single", "filters", "n_queries", "noop")
    },
    "ratios": {
        "n_queries": 8.0,
        "filters": 6.0,
        "single": 2.0,
        "noop": 0.5,
        "games_100": 1.1,
        "games_1000": 1.5,
        "restart_seconds": 2.0,
        "worker_peak_mib": 900.0,
    },
}


@pytest.mark.parametrize("section", SECTIONS)
def test_the_readme_shows_what_was_measured(section: str) -> None:
    readme = README.read_text(encoding="utf-8")
    assert with_table(readme, section, results(section)) == readme


def test_the_section_is_made_anew_and_nothing_else() -> None:
    begin, end = marks("demux")
    before = f"a\n{begin}\nold\n{end}\nb\n"
    after = with_table(before, "demux", DOCUMENT)
    assert after == f"a\n{table('demux', DOCUMENT)}\nb\n"
    assert with_table(after, "demux", DOCUMENT) == after


@pytest.mark.parametrize("name", ["single", "filters", "n_queries", "noop"])
def test_each_way_has_a_row_with_its_ratio(name: str) -> None:
    row = next(line for line in table("demux", DOCUMENT).splitlines() if f"way {name}" in line)
    assert f"{DOCUMENT['ratios'][name]:.2f} times" in row


def decoder(by: str) -> dict[str, Any]:
    return {"by": by, "rows_per_second": 1000}


def test_each_decoder_says_which_version_of_what_it_was_held_against() -> None:
    ours = dict.fromkeys(("protobuf", "avro", "json"), decoder("ours"))
    theirs = {"from_protobuf": decoder("Spark 3.4.1"), "from_avro": decoder("Spark 4.0.5")}
    pipelines = {
        f"pipeline_{name}_{way}": 2.0 for name in ("avro", "json") for way in ("n_queries", "filters")
    }
    ratios = {"protobuf_from_protobuf": 6.0, "avro_from_avro": 3.0, "avro_fastavro": None, **pipelines}
    shown = table("codecs", {"decoders": ours | theirs, "ratios": ratios})
    assert "6.0 times `from_protobuf` of Spark 3.4.1 |" in shown
    assert "3.0 times `from_avro` of Spark 4.0.5 |" in shown
    assert "fastavro" not in shown
