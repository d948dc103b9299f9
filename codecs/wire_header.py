"""How a record names its schema on the wire, read for a whole Arrow batch at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from distributary.registry.base import SchemaRef


@dataclass(frozen=True, slots=True)
class Frames:
    """Where each value of a batch keeps what.

    kind    int32, per value: an index into `kinds`, or -1 (no usable header; see `errors`), or -2 (null: a tombstone)
    kinds   the distinct (schema reference, record path) pairs of the batch
    start   int64, per value: where the body begins, from the value's own first byte
    errors  (row, reason, detail) of every value without a usable header
    """

    kind: npt.NDArray[np.int32]
    kinds: Sequence[tuple[SchemaRef, tuple[int, ...]]]
    start: npt.NDArray[np.int64]
    errors: Sequence[tuple[int, str, str]]
