"""One broken record never costs its neighbours: a batch that fails is halved until the culprits stand alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from distributary.codecs import reasons
from distributary.codecs.base import Decoded, Failure
from distributary.codecs.types.masks import Rows


class Undecodable(Exception):
    """One payload cannot be decoded.

    reason  one of `distributary.reasons`, or a word of your own
    detail  a sentence that never quotes the payload
    """

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
    """Every payload decoded: many at once the fast way; where that refuses, halves, down to the culprit alone.

    payloads  bodies without any header, no nulls
    together  decodes many at once; raises anything for any of them
    alone     decodes one; raises Undecodable, which is final
    empty     no rows, in the schema of all

    Returns each payload either as a row or as a failure. What becomes of a payload depends on nothing but itself.

    >>> text = pa.schema([("text", pa.string())])
    >>> def together(payloads: pa.BinaryArray) -> pa.RecordBatch:
    ...     return pa.record_batch([payloads.cast(pa.string())], schema=text)
    >>> def alone(payload: bytes) -> pa.RecordBatch:
    ...     raise distributary.Undecodable(distributary.reasons.MALFORMED, "it is no text in UTF-8")
    >>> payloads = pa.array([b"chess", bytes([255]), b"go"], pa.binary())
    >>> decoded = distributary.decode_each(payloads, together, alone, pa.RecordBatch.from_pylist([], text))
    >>> decoded.rows["text"].to_pylist(), decoded.source.tolist(), [failure.row for failure in decoded.failures]
    (['chess', 'go'], [0, 2], [1])
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


def without(
    payloads: pa.BinaryArray, rows: Rows, reason: str, decode: Callable[[pa.BinaryArray], Decoded]
) -> Decoded:
    """What `decode` makes of the others; these rows are failures for a reason of `distributary.reasons`."""
    others = np.setdiff1d(np.arange(len(payloads)), rows, assume_unique=True)
    rest = decode(payloads.take(pa.array(others)))
    failures = [
        *(replace(failure, row=int(others[failure.row])) for failure in rest.failures),
        *(Failure(row, reason, reasons.SENTENCES[reason]) for row in rows.tolist()),
    ]
    return replace(
        rest,
        source=others[rest.source],
        failures=sorted(failures, key=lambda failure: failure.row),
        beyond=others[rest.beyond],
        unknown=[replace(one, first=int(others[one.first])) for one in rest.unknown],
        misfits={int(others[row]): name for row, name in rest.misfits.items()},
    )


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
