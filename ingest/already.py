"""Rows that an earlier checkpoint committed to a table, told by the offsets that the table's commits carry."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# Topic, partition, and the first offset that is not in the table.
Ends = Mapping[str, Mapping[int, int]]


def committed(raw: pa.RecordBatch, rows: npt.NDArray[np.int64], ends: Ends) -> npt.NDArray[np.bool_]:
    """Whether each of these rows of the batch stands below the offset its partition has reached."""
    topics = raw["topic"].to_pylist()
    partitions, offsets = raw["partition"].to_numpy(), raw["offset"].to_numpy()
    reached = [ends.get(topics[row], {}).get(int(partitions[row]), 0) for row in rows]
    below: npt.NDArray[np.bool_] = offsets[rows] < np.array(reached, dtype=np.int64)
    return below
