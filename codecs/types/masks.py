"""Which rows: numpy arrays that speak of the rows of an Arrow array."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# Places of rows, from 0 on.
Rows = npt.NDArray[np.int64]

# A small number for each row, such as that of the table it is for.
Codes = npt.NDArray[np.int32]

# Yes or no for each row.
Mask = npt.NDArray[np.bool_]


def is_valid(values: pa.Array) -> Mask:
    """Where the values are not null."""
    if not values.null_count:
        return np.ones(len(values), dtype=np.bool_)
    valid: Mask = values.is_valid().to_numpy(zero_copy_only=False)
    return valid


def present(codes: Codes) -> Rows:
    """The distinct codes, ascending; they are small numbers, so that counting them beats sorting or hashing."""
    return np.flatnonzero(np.bincount(codes))
