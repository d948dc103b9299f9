"""What the benchmark makes of its measurements: ratios, bounds, JSON, and the gate that feeds a pipeline in steps."""

from __future__ import annotations

import io
import json
import platform
import re
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.age import Age
from benchmarks.bench_demux import PARTS, main
from benchmarks.bounds import BOUNDS, Bound, broken
from benchmarks.commit_cost import CommitCost
from benchmarks.landed import ALL, check_rows
from benchmarks.machine import machine
from benchmarks.memory import Memory, Spread
from benchmarks.report import show
from benchmarks.restarts import Restarts
from benchmarks.results import RATIOS, Results, Timing
from benchmarks.single_records import SingleRecords
from benchmarks.sizes import FULL, SMOKE
from benchmarks.stepped_run import Gate
from benchmarks.table_costs import BatchCost
from benchmarks.timing import CONTENDERS
from rich.console import Console
from typer import Typer
from typer.testing import CliRunner

from distributary.errors import CheckFailed

ROOT = Path(__file__).resolve().parents[2]

# Near to what the bounds are.
SECONDS = {
    "noop": (8.9, 9.5, 8.0),
    "single": (20.9, 30.0, 20.0),
    "ours": (14.6, 14.0, 99.0),
    "games_100": (16.06, 16.06, 16.06),
    "games_1000": (29.2, 29.2, 29.2),
    "filters": (64.0,),
    "n_queries": (93.4,),
}


def results() -> Results:
    timings = {name: Timing(name, name, 10, 2_000_000, seconds) for name, seconds in SECONDS.items()}
    few, many = Spread(1, 1, 1), Spread(90_000, 100_000, 110_000)
    return Results(
        timings=timings,
        restarts=Restarts(100_000, (1.5, 2.25, 1.0)),
        memory=Memory(2_000_000, 192.0, 900.0, 700.0, 3, 20, many, few, many, many),
        single_records=SingleRecords((0.2, 0.25, 9.0)),
        commits=CommitCost(8, 200, 25, 2.0, 5.0, 3.0, 4.0),
        new_tables=BatchCost(1_000, (9.0,), (2.0, 4.0)),
        evolving=BatchCost(100, (3.0, 2.5), (1.0, 2.0, 9.0)),
        age=Age(20_000, 1.0, 1.25, 50, 20, 1_000, 200, 30.0, 900.0),
    )


def test_the_ratios_are_those_of_the_middle_runs() -> None:
    assert results().ratios() == pytest.approx(
        {
            "n_queries": 93.4 / 14.6,
            "filters": 64 / 14.6,
            "single": 20.9 / 14.6,
            "noop": 8.9 / 14.6,
            "games_100": 1.1,
            "games_1000": 2.0,
            "restart_seconds": 2.25,
            "worker_peak_mib": 900.0,
            "single_record_seconds": 0.25,
            "age": 1.25,
        }
    )


def test_the_ratios_compare_rows_and_not_seconds_where_events_differ() -> None:
    found = results()
    found.timings["noop"] = replace(found.timings["noop"], events=4_000_000)
    assert found.ratios()["noop"] == pytest.approx(8.9 / 14.6 / 2)


@pytest.mark.parametrize("found", [results(), Results()], ids=["everything", "nothing"])
def test_the_json_has_exactly_the_ratios_that_readers_rely_on(found: Results) -> None:
    document = json.loads(json.dumps(found.as_json()))
    assert list(document["ratios"]) == [
        "n_queries",
        "filters",
        "single",
        "noop",
        "games_100",
        "games_1000",
        "restart_seconds",
        "worker_peak_mib",
        "single_record_seconds",
        "age",
    ]


def test_the_json_has_every_run_of_every_way() -> None:
    document = results().as_json()
    assert document["ways"]["ours"] == {
        "title": "ours",
        "games": 10,
        "events": 2_000_000,
        "seconds": [14.6, 14.0, 99.0],
        "median_seconds": 14.6,
        "rows_per_second": 136_986,
    }
    assert document["tables"]["commits"]["last_cycle_ms"] == 3.0
    assert document["tables"]["new_tables_seconds"] == 6.0
    assert document["tables"]["evolving_seconds"] == 1.0
    assert document["restart"]["gap_seconds"] == [1.5, 2.25, 1.0]
    assert document["memory"]["row_groups_a_file"] == {"least": 1, "median": 1, "most": 1}


def test_what_was_not_measured_has_no_figure_and_breaks_no_bound() -> None:
    assert set(Results().figures().values()) == {None}
    assert broken(Results().figures(), BOUNDS) == []


def test_every_figure_has_its_bound_and_every_bound_its_figure() -> None:
    assert [bound.figure for bound in BOUNDS] == list(results().figures())
    assert [bound.figure for bound in BOUNDS[: len(RATIOS)]] == list(RATIOS)


def test_good_figures_break_no_bound() -> None:
    assert broken(results().figures(), BOUNDS) == []


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.figure)
def test_a_figure_that_reaches_its_limit_is_good_enough_and_one_beyond_is_named(bound: Bound) -> None:
    worse = 0.99 if bound.at_least else 1.01
    figure, limit = bound.figure, bound.limit
    assert broken({figure: limit}, BOUNDS) == []
    (sentence,) = broken({figure: limit * worse}, BOUNDS)
    assert sentence.startswith(f"{figure} is ")
    assert f"{limit:g}" in sentence


def test_an_aim_is_beyond_its_bound() -> None:
    assert all(bound.holds(bound.aim) for bound in BOUNDS if bound.aim is not None)


def test_the_report_shows_every_way_and_every_figure() -> None:
    text = io.StringIO()
    show(results(), full=True, screen=Console(file=text, width=160))
    for name in (*SECONDS, *results().figures()):
        assert name in text.getvalue()
    assert "NO" not in text.getvalue()


def test_the_report_says_which_bound_does_not_hold() -> None:
    found, text = results(), io.StringIO()
    found.restarts = Restarts(100_000, (6.0,))
    show(found, full=True, screen=Console(file=text, width=160))
    (line,) = [line for line in text.getvalue().splitlines() if "restart_seconds" in line]
    assert " NO " in line


def test_the_report_of_a_small_size_judges_nothing() -> None:
    found, text = results(), io.StringIO()
    found.restarts = Restarts(100, (6.0,))
    show(found, full=False, screen=Console(file=text, width=160))
    assert "holds" not in text.getvalue()
    assert " NO " not in text.getvalue()


def test_bounds_count_for_the_full_size_and_above_only() -> None:
    assert FULL.full
    assert replace(FULL, events=4_000_000, batch_rows=1_000_000).full
    assert not replace(FULL, events=200_000).full
    assert not replace(FULL, games=20).full
    assert not replace(FULL, restart_batch_rows=1_000).full
    assert not SMOKE.full


def test_every_ratio_of_ways_has_its_contenders() -> None:
    assert {*RATIOS[:6], "ours", "noop_tuned"} == {*CONTENDERS}


def test_rows_that_are_missing_in_one_game_are_named() -> None:
    check_rows("single", {ALL: 30}, {"golf": 10, "quest": 20})
    check_rows("filters", {"golf": 10, "quest": 20}, {"golf": 10, "quest": 20})
    with pytest.raises(CheckFailed, match=r"filters: 19 of 20 events of quest landed \(1 of 2 counts"):
        check_rows("filters", {"golf": 10, "quest": 19}, {"golf": 10, "quest": 20})
    with pytest.raises(CheckFailed, match="ours: 0 of 20 events of quest"):
        check_rows("ours", {"golf": 10}, {"golf": 10, "quest": 20})
    with pytest.raises(CheckFailed, match="noop: 29 of 30 events of all games"):
        check_rows("noop", {ALL: 29}, {"golf": 10, "quest": 20})


def test_a_pipeline_is_held_when_it_has_read_everything_and_only_then() -> None:
    gate = Gate()
    gate.sent(20)
    gate.batch_done(0, 10, 1, 0.5, None)
    assert not gate.drained(0)
    held = threading.Thread(target=gate.batch_done, args=(1, 10, 1, 0.5, None), daemon=True)
    held.start()
    assert gate.drained(30)
    held.join(0.05)
    assert held.is_alive()
    gate.sent(10)
    held.join(30)
    assert not held.is_alive()
    assert not gate.drained(0)
    assert [batch.rows for batch in gate.batches] == [10, 10]


def test_an_open_gate_holds_nothing() -> None:
    gate = Gate()
    gate.open()
    gate.batch_done(0, 10, 1, 0.5, None)
    assert [batch.rows for batch in gate.batches] == [10]


def test_the_cost_of_a_batch_is_what_the_dearest_takes_beyond_the_usual() -> None:
    assert BatchCost(5, (3.0, 4.0), (1.0, 9.0, 2.0)).extra_seconds == 2.0


NO_WORKERS = """
from benchmarks.worker_memory import watched_workers
with watched_workers() as memory:
    pass
assert memory.samples > 0
assert (memory.most_processes, memory.peak_rss, memory.peak_pss) == (0, 0, None)
"""


def test_no_workers_hold_no_memory() -> None:
    # In a process of its own: this one may have had a session before, whose workers live on.
    subprocess.run([sys.executable, "-c", NO_WORKERS], check=True, cwd=ROOT)


def test_the_machine_is_described_without_its_name_or_a_path() -> None:
    found = machine()
    assert set(found) == {"cpu", "cores", "memory_gib", "os"}
    assert int(found["cores"]) >= 1
    assert float(found["memory_gib"]) > 0
    texts = [str(value) for value in found.values()]
    assert not any(platform.node() in text or re.search(r"(^|\s)/", text) for text in texts)


def test_an_unknown_part_is_refused_with_the_known_ones() -> None:
    app = Typer()
    app.command()(main)
    answer = CliRunner().invoke(app, ["--only", "ours,speed"])
    assert answer.exit_code == 2
    assert all(part in answer.output for part in ("speed", *PARTS))
