"""Questions that are asked aside: by a thread that waits for the next one, and never by one that hangs."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import wait
from functools import partial

import pytest

from distributary.ingest import interruptible
from distributary.ingest.interruptible import answer_to, aside, each

NOBODY_STOPS = threading.Event()


def test_a_thread_asks_one_question_after_the_other() -> None:
    # One that another test has left may come back meanwhile.
    assert len({answer_to(threading.get_ident, NOBODY_STOPS) for _ in range(20)}) < 5


def test_what_a_question_raises_is_raised_to_who_asked_and_the_next_one_is_answered() -> None:
    def fails() -> int:
        raise OSError("no")

    for _ in range(2):
        with pytest.raises(OSError, match="no"):
            answer_to(fails, NOBODY_STOPS)
    assert answer_to(lambda: 1, NOBODY_STOPS) == 1


def test_a_question_that_hangs_holds_up_none_behind_it() -> None:
    goes_on = threading.Event()
    hanging = [aside(goes_on.wait) for _ in range(3)]
    assert [answer_to(partial(int, n), NOBODY_STOPS) for n in range(3)] == [0, 1, 2]
    assert not any(one.done() for one in hanging)
    goes_on.set()
    assert not wait(hanging, 60).not_done


def test_a_thread_that_nobody_asks_any_more_ends_and_the_next_question_has_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interruptible, "_IDLE_SECONDS", 0.01)
    first = answer_to(threading.current_thread, NOBODY_STOPS)
    first.join(60)
    assert not first.is_alive()
    assert answer_to(threading.current_thread, NOBODY_STOPS) is not first


def test_however_a_question_and_the_end_of_a_thread_meet_it_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interruptible, "_IDLE_SECONDS", 0.0001)
    for number in range(500):
        assert answer_to(partial(int, number), NOBODY_STOPS, 60) == number


# In a process of its own: to fork one that has threads is no good.
FORKED = """
import os, threading
from distributary.ingest.interruptible import answer_to
nobody = threading.Event()
answer_to(int, nobody)
child = os.fork()
if child == 0:
    os._exit(answer_to(lambda: 7, nobody, 30))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""


def test_a_forked_process_asks_by_threads_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


# Of a store that never answers, as behind a firewall that swallows what is sent: whoever waits for it is told to stop.
HANGING = """
import sys, threading
from types import SimpleNamespace
from distributary.ingest.interruptible import Stopped, answer_to
from distributary.ingest.schemas.inferred_per_entity import EntitySchemas
asked, stop = threading.Event(), threading.Event()
def read(path):
    asked.set()
    threading.Event().wait()
files = SimpleNamespace(url="far away", read=read, names=lambda folder="": [f"{n}.json" for n in range(1, 40)], folders=lambda folder="": [])
location = EntitySchemas(files, "inferred:games")
threading.Thread(target=lambda: asked.wait() and stop.set()).start()
try:
    answer_to(lambda: location.by_refs(range(1, 40)), stop)
except Stopped:
    print("stopped", flush=True)
"""


def test_a_store_of_schemas_that_never_answers_keeps_no_process_from_ending() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGING], capture_output=True, text=True, check=False, timeout=15
    )
    assert (done.returncode, done.stdout) == (0, "stopped\n"), done.stderr


def test_each_is_asked_for_once_and_the_answers_are_in_their_order() -> None:
    asked: list[int] = []

    def ask(number: int) -> str:
        asked.append(number)
        return str(number)

    for count in (0, 1, 100):
        asked.clear()
        assert each(ask, range(count), 16) == [str(number) for number in range(count)]
        assert sorted(asked) == list(range(count))


def test_once_one_cannot_be_had_no_more_are_asked_for() -> None:
    asked: list[int] = []

    def ask(number: int) -> None:
        asked.append(number)
        raise ConnectionError("away")

    with pytest.raises(ConnectionError, match="away"):
        each(ask, range(1000), 4)
    assert len(asked) <= 4


def test_what_takes_long_is_told_unless_it_is_over() -> None:
    heard = threading.Event()
    with interruptible.when_late(heard.set, 0.01):
        assert heard.wait(5.0)
    heard.clear()
    with interruptible.when_late(heard.set, 0.05) as over:
        over()
        assert not heard.wait(0.2)
