"""Times that tables have no place for all digits of: of a timestamp they keep microseconds."""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

Times = TypeVar("Times", pa.Array, pa.ChunkedArray)


def in_microseconds(times: Times) -> Times:
    """Timestamps in nanoseconds as ones in microseconds; what is finer is cut off, towards the past.

    Arrow's own way of doing so goes below the smallest number, and on from the largest one.
    """
    ticks = times.cast(pa.int64())
    towards_zero = pc.divide(ticks, 1_000)
    too_late = pc.greater(pc.multiply(towards_zero, 1_000), ticks).cast(pa.int64())
    return pc.subtract(towards_zero, too_late).cast(pa.timestamp("us", times.type.tz))
