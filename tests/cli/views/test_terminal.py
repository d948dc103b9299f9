from __future__ import annotations

import io
import os
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from distributary import cli
from distributary.ingest.progress import Progress, Silent, Summary
from distributary.views import terminal
from distributary.views.terminal import BarProgress, LineBars, LineProgress, LiveBars, one_line, printable

SUMMARY = Summary(
    batches=2,
    rows=3000,
    written=2990,
    quarantined=9,
    dropped=1,
    tables=10,
    evolutions=1,
    failures=1,
    seconds=2.0,
)


def tell_everything(progress: Progress) -> None:
    progress.started("games", 3000)
    progress.batch_done(0, 1000, 10, 0.5, 3000)
    progress.evolution(["silver_chess_events.level added (bigint)"], 100.0, 103.5)
    progress.waiting("the registry does not answer", 5.0)
    progress.failure("the broker went away", 1.0)
    progress.started("games", 3000)
    progress.batch_done(1, 2000, 10, 0.0, None)
    progress.finished(SUMMARY)


def screen() -> tuple[Console, io.StringIO]:
    shown = io.StringIO()
    return Console(file=shown, force_terminal=True, width=120, markup=False, highlight=False), shown


def test_lines_tell_each_event() -> None:
    lines: list[str] = []
    tell_everything(LineProgress(lines.append))
    assert lines == [
        "games: started, 3,000 records wait",
        "batch 0: 1,000 rows to 10 tables in 0.5 s (2,000 rows/s), 1,000 of 3,000",
        "schema evolved, restarted within 3.5 s: silver_chess_events.level added (bigint)",
        "waiting up to 5 s: the registry does not answer",
        "failed: the broker went away; trying again in 1 s",
        "games: started, 3,000 records wait",
        "batch 1: 2,000 rows to 10 tables in 0.0 s (instantly), 3,000",
        (
            "finished: 3,000 rows in 2 batches, 2.0 s (1,500 rows/s): 2,990 to 10 tables, 9 to quarantine"
            " (`distributary quarantine list` says why), 1 dropped; 1 evolution, 1 failure"
        ),
    ]


def test_one_record_waits() -> None:
    lines: list[str] = []
    LineProgress(lines.append).started("games", 1)
    assert lines == ["games: started, 1 record waits"]


def test_nothing_is_said_of_a_quarantine_that_got_nothing() -> None:
    lines: list[str] = []
    LineProgress(lines.append).finished(Summary(rows=2, written=2, tables=1, batches=1))
    assert "2 to 1 table, 0 to quarantine, 0 dropped;" in lines[0]


def test_rows_that_nobody_waited_for_when_they_were_counted_are_not_told_as_a_part() -> None:
    lines: list[str] = []
    LineProgress(lines.append).batch_done(4, 1000, 10, 0.5, 0)
    assert lines == ["batch 4: 1,000 rows to 10 tables in 0.5 s (2,000 rows/s), 1,000"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([], "tables evolved with the batch: new schema versions, no new columns"),
        ([f"c{n}" for n in range(10)], "c0, c1, c2, c3, c4, c5, c6, c7 and 2 more"),
    ],
)
def test_few_changes_are_named_and_many_are_counted(changes: Sequence[str], expected: str) -> None:
    lines: list[str] = []
    LineProgress(lines.append).evolution(changes, 100.0, 100.0)
    assert lines[0].endswith(expected)


def test_the_bar_reaches_its_end_and_keeps_what_matters_above_it() -> None:
    console, shown = screen()
    with terminal._live(console) as live:
        tell_everything(BarProgress(live))
        assert len(live.tasks) == 1, "a restart goes on with the same bar"
        assert live.tasks[0].finished
        assert live.tasks[0].completed == 3000
    text = shown.getvalue()
    assert "restarted within 3.5 s" in text
    assert "failed: the broker went away" in text
    assert "finished: 3,000 rows" in text
    assert "batch 0: 1,000 rows" not in text


def test_a_log_that_takes_nothing_more_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w", buffering=1, encoding="utf-8") as full:
        monkeypatch.setattr("sys.stderr", full)
        with terminal.watching(silent=False) as progress:
            tell_everything(progress)
        with terminal.bars(silent=False) as make_bar:
            make_bar(4, "verifying")(2)
        with pytest.raises(SystemExit) as ended:
            cli.main(["settings", "check", "/no/such/file"])
        assert ended.value.code == 2
        with suppress(OSError):
            full.close()


def test_a_run_whose_listener_is_gone_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", buffering=1, encoding="utf-8") as listener:
        monkeypatch.setattr("sys.stderr", listener)
        with terminal.watching(silent=False) as progress:
            tell_everything(progress)
        with suppress(OSError):
            listener.close()


def test_a_batch_before_the_start_breaks_nothing() -> None:
    console, _ = screen()
    with terminal._live(console) as live:
        BarProgress(live).batch_done(0, 10, 1, 1.0, None)
        assert live.tasks == []


def test_line_bars_tell_each_quarter_once() -> None:
    lines: list[str] = []
    advance = LineBars(lines.append)(1000, "verifying")
    for _ in range(100):
        advance(10)
    assert lines == [
        "verifying",
        *(f"verifying: {n} of 1,000" for n in (250, 500, 750)),
        "verifying: 1,000 of 1,000",
    ]


def test_line_bars_without_a_total_tell_their_start() -> None:
    lines: list[str] = []
    LineBars(lines.append)(None, "waiting")(5)
    assert lines == ["waiting"]


def test_live_bars_move() -> None:
    console, _ = screen()
    with terminal._live(console) as live:
        LiveBars(live)(10, "simulating")(10)
        assert live.tasks[0].finished


def test_silence_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    with terminal.watching(silent=True) as progress, terminal.bars(silent=True) as bars:
        assert isinstance(progress, Silent)
        tell_everything(progress)
        bars(10, "nothing")(10)
    assert capfd.readouterr() == ("", "")


def test_without_a_terminal_lines_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.watching(silent=False) as progress, terminal.bars(silent=False) as bars:
        progress.started("games", None)
        bars(None, "simulating")
    assert capsys.readouterr() == ("", "games: started\nsimulating\n")


@pytest.mark.parametrize(
    ("environment", "live", "colored"),
    [
        ({"TERM": "xterm-256color"}, True, True),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, False, False),
    ],
)
def test_no_color_and_dumb_terminals_are_respected(
    environment: dict[str, str], live: bool, colored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in {"FORCE_COLOR": "1", **environment}.items():
        monkeypatch.setenv(name, value)
    console = terminal.console()
    assert terminal._is_live(console) == live
    assert (console.color_system is not None and not console.no_color) == colored


@given(st.text())
def test_nothing_unprintable_reaches_the_terminal(text: str) -> None:
    assert printable(text).isprintable()
    assert one_line(text).isprintable()


def test_a_line_keeps_its_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.watching(silent=False) as progress:
        progress.waiting("[red]not markup[/red] :smile:", 1.0)
    assert capsys.readouterr().err == "waiting up to 1 s: [red]not markup[/red] :smile:\n"
