"""Questions to servers that may never answer: a run that is told to stop leaves them alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as NotInTime
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TypeVar

K = TypeVar("K")
T = TypeVar("T")

# The waits between two questions to a server that does not answer, which double: the first, and the longest.
WAITS = (1.0, 30.0)

# A run that is told to stop takes an answer that comes at once, but does not wait for a server that may be down.
GRACE_SECONDS = 1.0

# Whoever waits for longer reads what is waited for. A registry's "no", which is no silence, has to last for less before it is believed.
QUIET_SECONDS = 5.0

_LOOK_SECONDS = 0.1

# A thread that has its answer waits so long for another question: a new one would have to connect to the JVM anew, which takes longer than most
# answers, and a run asks a dozen before its first batch.
_IDLE_SECONDS = 2.0


class Stopped(Exception):
    """The run was told to stop while it waited."""


def answer_to(
    ask: Callable[[], T],
    stop: threading.Event,
    seconds: float | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> T:
    """The answer, or what asking raised; `meanwhile` is called again and again until it is there.

    Raises Stopped once `stop` is set and no answer comes, and NotInTime after so many seconds.
    """
    asked, until = aside(ask), None if seconds is None else monotonic() + seconds
    while not wait([asked], _LOOK_SECONDS).done:
        if stop.is_set() and not wait([asked], GRACE_SECONDS).done:
            raise Stopped
        if until is not None and monotonic() > until:
            raise NotInTime
        if meanwhile is not None:
            meanwhile()
    return asked.result()


def when_quiet(tell: Callable[[], None], seconds: float) -> Callable[[], None]:
    """What is to be called again and again while an answer is waited for, as `meanwhile`: it tells once, after so many seconds."""
    until, told = monotonic() + seconds, False

    def look() -> None:
        nonlocal told
        if not told and monotonic() >= until:
            told = True
            tell()

    return look


@contextmanager
def when_late(tell: Callable[[], None], seconds: float = QUIET_SECONDS) -> Iterator[Callable[[], None]]:
    """Tell, by a thread of its own, unless the block ends within so many seconds, or calls what it is given."""
    timer = threading.Timer(seconds, tell)
    timer.daemon = True
    timer.start()
    try:
        yield timer.cancel
    finally:
        timer.cancel()


def until_answered(
    ask: Callable[[], T],
    outage: type[Exception],
    tell: Callable[[str, float], None],
    stop: threading.Event,
    waits: tuple[float, float] = WAITS,
) -> T:
    """The answer, whenever it comes: asked again, ever more rarely, for as long as asking raises an `outage`.

    `tell` is told of each, and for how many seconds nobody asks then. Raises Stopped if the run is to end first.
    """
    seconds, longest = waits
    while True:
        try:
            return ask()
        except outage as error:
            tell(str(error), seconds)
        if stop.wait(seconds):
            raise Stopped
        seconds = min(seconds * 2, longest)


def aside(ask: Callable[[], T]) -> Future[T]:
    """The answer to come, of a thread that nobody has to wait for: a request that hangs must not keep a run from ending."""
    answer: Future[T] = Future()

    def asked() -> Callable[[], None]:
        try:
            found = ask()
        except BaseException as error:  # noqa: BLE001 whoever waits for the answer raises it
            return partial(answer.set_exception, error)
        return partial(answer.set_result, found)

    try:
        # One that hangs is not among them.
        questions = _idle.pop()
    except IndexError:
        questions = SimpleQueue()
        threading.Thread(target=_answer, args=(questions,), name="question", daemon=True).start()
    questions.put(asked)
    return answer


def each(ask: Callable[[K], T], wanted: Iterable[K], at_once: int) -> list[T]:
    """What is answered for each of these, in their order, so many asked for at once; none is asked for any more once asking raises.

    By threads that nobody has to wait for, where a process that ends waits for those of a pool.
    """
    left, answers = list(enumerate(wanted))[::-1], dict[int, T]()

    def some() -> None:
        while left:
            try:
                place, one = left.pop()
            except IndexError:
                return  # another thread was first
            try:
                answers[place] = ask(one)
            except BaseException:
                left.clear()
                raise

    for asked in [aside(some) for _ in range(min(at_once, len(left)))]:
        asked.result()
    return [answers[place] for place in range(len(answers))]


# Asks, and gives what tells the answer.
_Question = Callable[[], Callable[[], None]]

# The questions of each thread that has none.
_idle: list[SimpleQueue[_Question]] = []

# A process that is forked has none of these threads.
os.register_at_fork(after_in_child=_idle.clear)


def _answer(questions: SimpleQueue[_Question]) -> None:
    """One question after the other, until none has come for a while."""
    while True:
        try:
            tell = questions.get(timeout=_IDLE_SECONDS)()
        except Empty:
            with suppress(ValueError):
                _idle.remove(questions)
                return
            # Somebody has just taken it, and is about to ask.
            continue
        # Before the answer is told: by it comes the next question.
        _idle.append(questions)
        tell()
        del tell
