"""Decoding in a child process, so that a payload which kills its decoder takes nobody along.

Native decoders can crash the process. When a worker has died, the batch is decoded again behind this guard: a child
tries the payloads first, and where it dies they are halved until one is left, which is the culprit.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Decode = Callable[[npt.NDArray[np.int64]], object]

# Far beyond what any batch takes; a decoder that hangs is as good as dead.
LONGEST_SECONDS = 60.0


def deadly(rows: npt.NDArray[np.int64], decode: Decode, seconds: float = LONGEST_SECONDS) -> list[int]:
    """Those of `rows` whose decoding ends the process (or never ends), found by halving."""
    if not len(rows) or _survives(rows, decode, seconds):
        return []
    if len(rows) == 1:
        return [int(rows[0])]
    half = len(rows) // 2
    return deadly(rows[:half], decode, seconds) + deadly(rows[half:], decode, seconds)


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
        decode(rows)
    except BaseException:  # noqa: BLE001 an exception is no crash: the worker will meet and handle it
        os._exit(0)
    os._exit(0)
