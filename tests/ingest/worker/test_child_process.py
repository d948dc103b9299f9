from __future__ import annotations

import os
import signal
import threading

import numpy as np
import numpy.typing as npt
import psutil
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from distributary.ingest.worker.child_process import deadly

Rows = npt.NDArray[np.int64]


@given(st.lists(st.integers(0, 30), unique=True), st.sets(st.integers(0, 30), max_size=3))
@settings(max_examples=examples(13), deadline=None)
def test_exactly_the_culprits_are_found(rows: list[int], culprits: set[int]) -> None:
    def decode(some: Rows) -> None:
        if culprits & set(some.tolist()):
            os.kill(os.getpid(), signal.SIGKILL)

    found = deadly(np.array(rows, np.int64), decode)
    assert found == [row for row in rows if row in culprits]


def test_an_exception_is_no_crash() -> None:
    def decode(rows: Rows) -> None:
        raise ValueError(len(rows))

    assert deadly(np.arange(3), decode) == []


def test_a_process_that_ends_itself_in_silence_counts_as_dead() -> None:
    def decode(rows: Rows) -> None:
        if 1 in rows:
            os._exit(3)

    assert deadly(np.arange(4), decode) == [1]


def test_a_decoder_that_never_ends_is_as_good_as_dead() -> None:
    def decode(rows: Rows) -> None:
        if 2 in rows:
            threading.Event().wait()

    assert deadly(np.arange(4), decode, seconds=0.2) == [2]


def test_no_child_is_left_behind() -> None:
    before = set(psutil.Process().children())
    deadly(np.arange(5), lambda rows: os._exit(1))
    assert set(psutil.Process().children()) <= before
