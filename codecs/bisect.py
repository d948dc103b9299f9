"""One broken record never costs its neighbours: a batch that fails is halved until the culprits stand alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from distributary.codecs.base import Decoded, Failure


class Undecodable(Exception):
    """One payload cannot be decoded, for this reason code and sentence."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


# Not the payload's fault: the process is told to stop, or there is no memory.
_NOT_THE_PAYLOADS = (KeyboardInterrupt, SystemExit, MemoryError)


def decode_each(
    payloads: pa.BinaryArray,
    together: Callable[[pa.BinaryArray], pa.RecordBatch],
    alone: Callable[[bytes], pa.RecordBatch],
    empty: pa.RecordBatch,
) -> Decoded:
    """Every payload decoded: many at once by `together`; one that it refuses by `alone`, whose word is final.

    `together` may raise anything; `alone` raises Undecodable. What becomes of a payload depends on nothing but itself.
    """
    parts: list[pa.RecordBatch] = []
    failures: list[Failure] = []
    waiting = [(0, len(payloads))] if len(payloads) else []
    while waiting:
        start, stop = waiting.pop()
        part = _attempt(together, payloads.slice(start, stop - start))
        if part is not None:
            parts.append(part)
        elif stop - start > 1:
            middle = (start + stop) // 2
            waiting += [(middle, stop), (start, middle)]
        else:
            try:
                parts.append(alone(payloads[start].as_py()))
            except Undecodable as error:
                failures.append(Failure(start, error.reason, error.detail))
    return Decoded(_joined(parts, empty), _others(len(payloads), failures), failures)


def _attempt(
    together: Callable[[pa.BinaryArray], pa.RecordBatch], payloads: pa.BinaryArray
) -> pa.RecordBatch | None:
    try:
        return together(payloads)
    except _NOT_THE_PAYLOADS:
        raise
    # A panic of native code arrives as a BaseException of its own.
    except BaseException:  # noqa: BLE001
        return None


def _joined(parts: list[pa.RecordBatch], empty: pa.RecordBatch) -> pa.RecordBatch:
    return parts[0] if len(parts) == 1 else pa.concat_batches([empty, *parts])


def _others(count: int, failures: list[Failure]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    good = np.ones(count, bool)
    good[[failure.row for failure in failures]] = False
    return np.flatnonzero(good)
