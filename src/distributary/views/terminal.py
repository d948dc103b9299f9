"""How a run looks to the one who started it: a live bar on a terminal, plain lines elsewhere, always on stderr.

stdout stays free for results. NO_COLOR and TERM=dumb are respected (by rich).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from distributary.ingest.progress import Advance, Bars, Progress, Silent, Summary, no_bars


class _Lenient(Console):
    """What cannot be written is lost: a log on a disk that is full ends no run, and is no reason for another exit code."""

    def print(self, *objects: Any, **options: Any) -> None:
        """As any console does, where that can be."""
        with suppress(OSError):
            super().print(*objects, **options)

    def on_broken_pipe(self) -> None:
        """Say nothing any more. Rich ends the process here, which amid a batch no thread hears of: the run would wait for ever."""
        self.quiet = True


def console() -> Console:
    """Where progress and messages go: stderr, with nothing in a message taken for markup."""
    return _Lenient(stderr=True, markup=False, highlight=False, emoji=False)


@contextmanager
def watching(silent: bool) -> Iterator[Progress]:
    """What to hand to a run: nothing shown if `silent`, a live bar on a terminal, else lines."""
    screen = console()
    if silent:
        yield Silent()
    elif not _is_live(screen):
        yield LineProgress(_line_printer(screen))
    else:
        with _live(screen) as live:
            yield BarProgress(live)


@contextmanager
def bars(silent: bool) -> Iterator[Bars]:
    """What to hand to a long job that is not a run, by the same rule as `watching`."""
    screen = console()
    if silent:
        yield no_bars
    elif not _is_live(screen):
        yield LineBars(_line_printer(screen))
    else:
        with _live(screen) as live:
            yield LiveBars(live)


def printable(text: str) -> str:
    """The text without control characters: names come from data, and data must not steer a terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def one_line(text: str) -> str:
    """The text on one line, printable."""
    return printable(" ".join(text.split()))


class LineProgress:
    """A run's events as lines of text, one an event."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._rows = 0

    def started(self, name: str, total_known: int | None) -> None:
        """Names the pipeline and what waits for it."""
        wait = "waits" if total_known == 1 else "wait"
        waits = "" if total_known is None else f", {_count(total_known, 'record')} {wait}"
        self._say(f"{name}: started{waits}")

    def reading(self) -> None:
        """Says nothing: a batch that is done says it better."""

    def batch_done(
        self, batch_id: int, rows: int, tables: int, seconds: float, total_known: int | None
    ) -> None:
        """One line a batch, with its rate and how far the run has come."""
        self._rows += rows
        # A batch that an earlier run had decided waited for nobody when this one counted.
        is_within = total_known is not None and self._rows <= total_known
        so_far = f"{self._rows:,} of {total_known:,}" if is_within else f"{self._rows:,}"
        self._say(
            f"batch {batch_id}: {rows:,} rows to {_count(tables, 'table')} in {seconds:.1f} s ({_rate(rows, seconds)}), {so_far}"
        )

    def evolution(self, changes: Sequence[str], met_at: float, decoding_at: float) -> None:
        """What changed, and what it cost."""
        gap = decoding_at - met_at
        what = f"schema evolved, restarted within {gap:.1f} s" if gap > 0 else "tables evolved with the batch"
        self._say(f"{what}: {_shortened(changes)}")

    def waiting(self, reason: str, seconds: float) -> None:
        """Why nothing goes on."""
        self._say(f"waiting up to {seconds:.0f} s: {reason}" if seconds else reason)

    def failure(self, error: str, wait: float) -> None:
        """What failed, and when it is tried again."""
        self._say(f"failed: {error}; trying again in {wait:.0f} s")

    def finished(self, summary: Summary) -> None:
        """The sums, and who says why records are in quarantine: a wrong setting may have all of them there."""
        reasons = " (`distributary quarantine list` says why)" if summary.quarantined else ""
        self._say(
            f"finished: {summary.rows:,} rows in {_count(summary.batches, 'batch', 'es')}, {summary.seconds:.1f} s"
            f" ({_rate(summary.rows, summary.seconds)}): {summary.written:,} to {_count(summary.tables, 'table')},"
            f" {summary.quarantined:,} to quarantine{reasons}, {summary.dropped:,} dropped;"
            f" {_count(summary.evolutions, 'evolution')}, {_count(summary.failures, 'failure')}"
        )

    def _say(self, line: str) -> None:
        self._tell(one_line(line))


class BarProgress(LineProgress):
    """A run as a live bar; what is worth keeping scrolls above it as lines."""

    def __init__(self, live: RichProgress) -> None:
        super().__init__(_line_printer(live.console))
        self._live = live
        self._task: TaskID | None = None

    def started(self, name: str, total_known: int | None) -> None:
        """Opens the bar; a second start (after a restart) goes on with the same one."""
        if self._task is None:
            self._task = self._live.add_task(one_line(name), total=total_known, note="")

    def batch_done(
        self, batch_id: int, rows: int, tables: int, seconds: float, total_known: int | None
    ) -> None:
        """Moves the bar."""
        self._rows += rows
        if self._task is not None:
            note = f"batch {batch_id}, {_rate(rows, seconds)}"
            self._live.update(self._task, completed=self._rows, total=total_known, note=note)

    def finished(self, summary: Summary) -> None:
        """Closes the bar and tells the sums."""
        if self._task is not None:
            self._live.update(self._task, completed=self._rows, total=self._rows, note="")
        super().finished(summary)


class LineBars:
    """Bars as lines: one when each quarter is done."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def __call__(self, total: int | None, title: str) -> Advance:
        """A bar that tells of its start and of each quarter."""
        self._tell(one_line(title))
        done = 0

        def advance(more: int, /) -> None:
            nonlocal done
            quarter = _quarters(done, total)
            done += more
            if _quarters(done, total) > quarter:
                self._tell(one_line(f"{title}: {done:,} of {total:,}"))

        return advance


class LiveBars:
    """Bars on a terminal, each on its own line."""

    def __init__(self, live: RichProgress) -> None:
        self._live = live

    def __call__(self, total: int | None, title: str) -> Advance:
        """A bar that moves."""
        task = self._live.add_task(one_line(title), total=total, note="")

        def advance(more: int, /) -> None:
            self._live.advance(task, more)

        return advance


def _is_live(screen: Console) -> bool:
    return screen.is_terminal and not screen.is_dumb_terminal


def _live(screen: Console) -> RichProgress:
    return RichProgress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=screen,
    )


def _line_printer(screen: Console) -> Callable[[str], None]:
    def tell(line: str) -> None:
        screen.print(line, soft_wrap=True)

    return tell


def _rate(rows: int, seconds: float) -> str:
    return f"{rows / seconds:,.0f} rows/s" if seconds > 0 else "instantly"


def _count(number: int, what: str, plural: str = "s") -> str:
    return f"{number:,} {what}{'' if number == 1 else plural}"


def _shortened(changes: Sequence[str], longest: int = 8) -> str:
    shown = ", ".join(changes[:longest]) or "new schema versions, no new columns"
    more = len(changes) - longest
    return shown if more <= 0 else f"{shown} and {more} more"


def _quarters(done: int, total: int | None) -> int:
    return 0 if not total else min(4, done * 4 // total)
