"""Ending in good order when asked to: by Ctrl-C, or by the system that started us."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer

from distributary.views.terminal import console

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ASKED_BY = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Whether somebody asked to stop: `stop` is set then. Who asks again is not kept waiting."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self._signal = 0

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Note the first signal; a second Ctrl-C interrupts whatever goes on."""
        if self.stop.is_set():
            raise KeyboardInterrupt
        self._signal = number
        self.stop.set()

    def end(self) -> None:
        """End the command with the exit code of a process that the signal ended, if there was one, and say that it did."""
        if self.stop.is_set():
            # What the command tells of its work looks like that of one which came to its end.
            console().print(
                f"stopped by {signal.Signals(self._signal).name}, before the end", highlight=False
            )
            raise typer.Exit(128 + self._signal)


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Signals are noted, not obeyed at once, inside the `with` block."""
    noted = Interrupts()
    before = {number: signal.signal(number, noted.handle) for number in _ASKED_BY}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def ended_by_term() -> Iterator[None]:
    """SIGTERM inside the `with` block ends the command as Ctrl-C does, so that what it has started ends with it."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def left_to_us(session: SparkSession) -> None:
    """Make the session's JVM deaf to SIGTERM, which systemd and others send to all processes of a service at once.

    It is ours to end when the batch under way is done, and it ends by itself when we are gone.
    """
    signals: Any = session.sparkContext._jvm.sun.misc  # type: ignore[union-attr]
    signals.Signal.handle(signals.Signal("TERM"), signals.SignalHandler.SIG_IGN)
