"""What the benchmark says while it works, on stderr: live bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from distributary.views.terminal import console

Move = Callable[[int], None]


class Watch:
    """Says lines, and shows how far a long step is."""

    def __init__(self, live: Progress) -> None:
        self._live = live

    def say(self, line: str) -> None:
        """Say one line; a live bar stays below it."""
        self._live.console.print(line, soft_wrap=True)

    @contextmanager
    def step(self, title: str, total: int) -> Iterator[Move]:
        """A bar of `total`, gone when the block ends; called with how much is done. Elsewhere a line at the start."""
        if self._live.disable:
            self.say(title)
        task = self._live.add_task(title, total=total)
        try:
            yield lambda done: self._live.update(task, completed=done)
        finally:
            self._live.remove_task(task)


@contextmanager
def watching() -> Iterator[Watch]:
    """A watch for as long as the block lasts."""
    screen = console()
    live = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=screen,
        disable=not screen.is_terminal or screen.is_dumb_terminal,
    )
    with live:
        yield Watch(live)
