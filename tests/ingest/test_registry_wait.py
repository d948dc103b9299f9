from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from distributary.errors import RegistryUnavailable
from distributary.ingest import registry_wait
from distributary.ingest.progress import Silent
from distributary.ingest.registry_wait import RegistryWait, Stopped


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


def test_where_something_else_will_do_it_asks_once() -> None:
    watcher = Watcher()
    wait = RegistryWait(watcher, threading.Event())
    assert wait.once(failing(1), "pinned") == "pinned"
    assert wait.once(failing(0), "pinned") == "answer"
    assert watcher.waits == [0.0]
