"""Which of Debezium's records are rows, which are none, and which cannot be rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.codecs import reasons
from distributary.codecs.base import Failure

HEARTBEAT = "heartbeat"

TRANSACTION = "transaction"

SCHEMA_RECORD = "schema_record"

MESSAGE = "message"

_ROWS = ("c", "u", "r")

DELETE = "d"

_TIMES = frozenset({"ts_ms", "ts_us", "ts_ns"})


@dataclass(frozen=True, slots=True)
class Sorted:
    """What becomes of some envelopes, by their places.

    rows      those that are rows, ascending
    failures  those that cannot be
    left_out  those that are none, by reason
    """

    rows: npt.NDArray[np.int64]
    failures: list[Failure] = field(default_factory=list)
    left_out: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=dict)


def is_envelope(names: Collection[str]) -> bool:
    """Whether fields of these names make an envelope."""
    return "op" in names and "source" in names


def other_kind(names: Collection[str]) -> str | None:
    """What a record with these fields is that is no envelope: the reason it is left out by; None for nothing of Debezium's."""
    if names and _TIMES.issuperset(names):
        return HEARTBEAT
    if "status" in names and "event_count" in names and "id" in names:
        return TRANSACTION
    return SCHEMA_RECORD if "ddl" in names and "source" in names else None


def failure(place: int, reason: str) -> Failure:
    """A record that cannot be a row, with the reason's own sentence."""
    return Failure(place, reason, reasons.SENTENCES[reason])


def sorted_out(ops: pa.StringArray, there: npt.NDArray[np.bool_], skips: bool) -> Sorted:
    """What becomes of envelopes by what they say was done.

    there  which have the row as it is after that
    skips  whether those that say that a table was emptied are left out
    """
    row = np.zeros(len(ops), np.bool_)
    failures: list[Failure] = []
    left_out: dict[str, npt.NDArray[np.int64]] = {}
    encoded = ops.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    for code, op in [*enumerate(encoded.dictionary.to_pylist()), (-1, None)]:
        mine = codes == code
        if op in _ROWS:
            row |= mine & there
            failures += [failure(n, reasons.NO_ROW) for n in np.flatnonzero(mine & ~there).tolist()]
        elif op == DELETE:
            row |= mine
        elif op == "m":
            left_out[MESSAGE] = np.flatnonzero(mine)
        elif op == "t" and skips:
            left_out[reasons.TRUNCATE] = np.flatnonzero(mine)
        else:
            why = reasons.TRUNCATE if op == "t" else reasons.NO_ENVELOPE
            failures += [failure(n, why) for n in np.flatnonzero(mine).tolist()]
    return Sorted(np.flatnonzero(row), failures, left_out)
