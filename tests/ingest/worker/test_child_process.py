from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place
from distributary.ingest.worker.child_process import pieces

Rows = npt.NDArray[np.int64]


@given(st.lists(st.integers(0, 30), unique=True), st.sets(st.integers(0, 30), max_size=3))
@settings(max_examples=examples(7), deadline=None)
def test_exactly_the_culprits_are_found(rows: list[int], culprits: set[int]) -> None:
    def decode(some: Rows) -> None:
        if culprits & set(some.tolist()):
            os.kill(os.getpid(), signal.SIGKILL)

    living, dead = pieces(np.array(rows, np.int64), decode)
    assert dead == [row for row in rows if row in culprits]
    assert [row for piece in living for row in piece.tolist()] == [row for row in rows if row not in culprits]


def test_an_exception_is_no_crash() -> None:
    def decode(rows: Rows) -> None:
        raise ValueError(len(rows))

    living, dead = pieces(np.arange(3), decode)
    assert ([piece.tolist() for piece in living], dead) == ([[0, 1, 2]], [])


def test_a_process_that_ends_itself_in_silence_counts_as_dead() -> None:
    def decode(rows: Rows) -> None:
        if 1 in rows:
            os._exit(3)

    assert pieces(np.arange(4), decode)[1] == [1]


@pytest.mark.parametrize("way", ["killed", "still"])
def test_a_payload_alone_is_no_culprit_where_a_child_once_ended_of_other_things(
    tmp_path: Path, way: str
) -> None:
    """Of memory that others took, or a machine that stood still: it would be a good record in quarantine."""

    def decode(rows: Rows) -> None:
        if (tmp_path / "once").exists():
            return
        if len(rows) == 1:
            (tmp_path / "once").touch()
        if way == "still":
            threading.Event().wait()
        os.kill(os.getpid(), signal.SIGKILL)

    living, dead = pieces(np.arange(2), decode, seconds=0.3)
    assert ([piece.tolist() for piece in living], dead) == ([[0], [1]], [])


def test_a_decoder_that_never_ends_is_as_good_as_dead() -> None:
    def decode(rows: Rows) -> None:
        if 2 in rows:
            threading.Event().wait()

    assert pieces(np.arange(4), decode, seconds=0.2)[1] == [2]


def test_no_child_is_left_behind() -> None:
    before = set(psutil.Process().children())
    pieces(np.arange(5), lambda rows: os._exit(1))
    assert set(psutil.Process().children()) <= before


@pytest.mark.parametrize("ends", [lambda: os._exit(9), lambda: bytearray(2**62)])
def test_what_is_deadly_together_and_harmless_alone_lives_in_pieces(ends: Callable[[], object]) -> None:
    living, dead = pieces(np.arange(20), lambda rows: ends() if len(rows) > 4 else None)
    assert not dead
    assert [len(piece) for piece in living] == [2, 3] * 4


def test_a_store_that_nobody_uses_any_more_holds_up_no_child() -> None:
    # Its client waits for its threads where it is let go of, which no child has.
    open_files(Place.parse("hdfs://127.0.0.1:1/lake"), StorageOptions())
    living, dead = pieces(np.arange(3), lambda some: None, seconds=2.0)
    assert ([piece.tolist() for piece in living], dead) == ([[0, 1, 2]], [])
