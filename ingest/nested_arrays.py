"""Taking nested Arrow arrays apart and putting them together again: nulls stay nulls, slices are minded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds


@dataclass(frozen=True, slots=True)
class Runs:
    """Where the elements of each list or map of an array lie: from `offsets[i]` to `offsets[i + 1]`, from 0 on."""

    offsets: pa.Int32Array
    first: int
    count: int

    def elements(self, child: pa.Array) -> pa.Array:
        """The part of a child array that the runs speak of."""
        return child.slice(self.first, self.count)

    def parents(self, elements: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The list or map that each of these elements is in."""
        return np.searchsorted(self.offsets.to_numpy(), elements, side="right").astype(np.int64) - 1


def runs_of(values: pa.ListArray) -> Runs:
    """Where an array's elements lie, the array being a list's or a map's."""
    offsets = values.offsets
    first, last = (offsets[0].as_py(), offsets[-1].as_py()) if len(offsets) else (0, 0)
    if values.offset or first:
        offsets = pc.subtract(offsets, pa.scalar(first, pa.int32()))
    return Runs(offsets, first, last - first)


def plain_list(values: pa.Array) -> pa.ListArray:
    """Any of Arrow's lists as an ordinary one."""
    return values if kinds.is_list(values.type) else values.cast(pa.list_(values.type.value_field))


def struct_like(values: pa.StructArray, children: Sequence[pa.Array], to: pa.StructType) -> pa.StructArray:
    """Structs of these children, null where `values` is."""
    return pa.StructArray.from_arrays(children, fields=list(to), mask=_nulls(values))


def list_like(values: pa.ListArray, runs: Runs, elements: pa.Array, to: pa.ListType) -> pa.ListArray:
    """Lists of these elements, null where `values` is."""
    return pa.ListArray.from_arrays(runs.offsets, elements, type=to, mask=_nulls(values))


def map_like(values: pa.MapArray, runs: Runs, keys: pa.Array, items: pa.Array, to: pa.MapType) -> pa.MapArray:
    """Maps of these keys and items, null where `values` is."""
    return pa.MapArray.from_arrays(runs.offsets, keys, items, type=to, mask=_nulls(values))


def _nulls(values: pa.Array) -> pa.BooleanArray | None:
    return values.is_null() if values.null_count else None
