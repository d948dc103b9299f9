from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from distributary.errors import RegistryUnavailable, SchemaNotFound
from distributary.ingest import interruptible
from distributary.ingest.interruptible import Stopped
from distributary.ingest.progress import Silent
from distributary.ingest.schemas import registry_wait
from distributary.ingest.schemas.registry_wait import RegistryWait


class Watcher(Silent):
    def __init__(self) -> None:
        self.waits: list[float] = []

    def waiting(self, reason: str, seconds: float) -> None:
        assert "not answer" in reason
        self.waits.append(seconds)


def failing(times: int) -> Callable[[], str]:
    left = iter(range(times))

    def ask() -> str:
        if next(left, None) is not None:
            raise RegistryUnavailable("the registry does not answer")
        return "answer"

    return ask


def test_it_asks_until_there_is_an_answer_ever_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_wait, "FIRST_SECONDS", 0.001)
    monkeypatch.setattr(registry_wait, "LONGEST_SECONDS", 0.003)
    watcher = Watcher()
    assert RegistryWait(watcher, threading.Event()).until_answered(failing(4)) == "answer"
    assert watcher.waits == [0.001, 0.002, 0.003, 0.003]


def test_a_run_that_is_told_to_stop_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        RegistryWait(Watcher(), stop).until_answered(failing(1))


@pytest.mark.parametrize("how", ["until_answered", "once"])
def test_a_run_that_is_told_to_stop_does_not_wait_for_a_question_that_hangs(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interruptible, "GRACE_SECONDS", 0.01)
    stop, over = threading.Event(), threading.Event()

    def hang() -> str:
        stop.set()
        over.wait()
        return "too late"

    wait = RegistryWait(Watcher(), stop)
    with pytest.raises(Stopped):
        wait.until_answered(hang) if how == "until_answered" else wait.once(hang, "pinned")
    over.set()


def test_a_run_that_is_told_to_stop_takes_an_answer_that_comes() -> None:
    stop = threading.Event()
    stop.set()
    assert RegistryWait(Watcher(), stop).until_answered(failing(0)) == "answer"


def test_a_long_silence_is_told_once_before_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_wait, "QUIET_SECONDS", 0.0)
    heard = threading.Event()

    lines: list[str] = []

    class Hearing(Silent):
        def waiting(self, reason: str, seconds: float) -> None:
            lines.append(reason)
            heard.set()

    def ask() -> str:
        heard.wait()
        return "answer"

    assert RegistryWait(Hearing(), threading.Event()).until_answered(ask) == "answer"
    assert len(lines) == 1
    assert lines[0].startswith("no answer from the schema registry")


def test_what_a_question_raises_is_raised_to_who_asked() -> None:
    def ask() -> str:
        raise SchemaNotFound("nobody knows it")

    with pytest.raises(SchemaNotFound, match="nobody knows it"):
        RegistryWait(Watcher(), threading.Event()).until_answered(ask)


def test_where_something_else_will_do_it_asks_once() -> None:
    watcher = Watcher()
    wait = RegistryWait(watcher, threading.Event())
    assert wait.once(failing(1), "pinned") == "pinned"
    assert wait.once(failing(0), "pinned") == "answer"
    assert watcher.waits == [0.0]
