"""Decoding in a child process, so that a payload which kills its decoder takes nobody along.

Native decoders can crash the process, or have no memory for many payloads at once. When a worker has died, the batch is decoded
again behind this guard: a child tries the payloads first, and where it dies they are halved, until pieces are left that it
survives, and single payloads that are the culprits.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import numpy.typing as npt

Decode = Callable[[npt.NDArray[np.int64]], object]

# Far beyond what any batch takes; a decoder that hangs is as good as dead.
LONGEST_SECONDS = 60.0


def pieces(
    rows: npt.NDArray[np.int64], decode: Decode, seconds: float = LONGEST_SECONDS
) -> tuple[list[npt.NDArray[np.int64]], list[int]]:
    """The rows in pieces, in their order, each of which is decoded at once; and those that end the process even alone (or never end).

    What dies together lives in pieces, which are to be decoded as they are.
    """
    if not len(rows):
        return [], []
    # A child ends, or never does, of other things than a payload, too: of memory that others took, or a machine that stood still.
    tries = 2 if len(rows) == 1 else 1
    if any(_survives(rows, decode, seconds) for _ in range(tries)):
        return [rows], []
    if len(rows) == 1:
        return [], [int(rows[0])]
    half = len(rows) // 2
    living, dead = pieces(rows[:half], decode, seconds)
    more_living, more_dead = pieces(rows[half:], decode, seconds)
    return living + more_living, dead + more_dead


def _survives(rows: npt.NDArray[np.int64], decode: Decode, seconds: float) -> bool:
    child = os.fork()
    if child == 0:
        _decode_and_leave(rows, decode)
    descriptor = os.pidfd_open(child) if hasattr(os, "pidfd_open") else None
    try:
        if descriptor is not None and not select.select([descriptor], [], [], seconds)[0]:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return os.waitstatus_to_exitcode(status) == 0


def _decode_and_leave(rows: npt.NDArray[np.int64], decode: Decode) -> None:
    # os._exit: the child shares the worker's sockets with Spark and must not flush or close any of them.
    try:
        _go_first()
        decode(rows)
    except MemoryError:
        os._exit(1)
    except BaseException:  # noqa: BLE001 an exception is no crash: the worker will meet and handle it
        os._exit(0)
    os._exit(0)


def _go_first() -> None:
    """Where memory is short, the system is to end this process and not the one that waits for it."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:
        score.write("1000")
