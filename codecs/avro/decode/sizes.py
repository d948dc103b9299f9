"""How many bytes each record of a block takes at the least, told by its values: what splits blocks whole columns at a time.

A value has many encodings, of which writers use the shortest: numbers without idle groups of bits, arrays and maps in one block
without its size. If the shortest ones add up to the very bytes of a block, each record took its shortest, and so begins where
the others before it end. If not, records are passed over one by one (skip.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.codecs.avro.decode.fast import container_head, one_block, read_container
from distributary.codecs.avro.types.columns import Column, Shape
from distributary.codecs.avro.types.plain_schema import native_schema
from distributary.codecs.avro.types.schema import Kind
from distributary.codecs.types.walk import held
from distributary.codecs.wire.binary_rows import BinaryRows, Longs

_Unsigned = npt.NDArray[np.uint64]


class Sizes:
    """The sizes of records of these columns, which `can_read` of fast.py has said yes to, in blocks of them."""

    def __init__(self, columns: Column) -> None:
        self._columns = columns
        plain = json.loads(native_schema(columns))
        # Without the nonce: it is not for us to put anything behind somebody else's records.
        plain["fields"].pop()
        self._head = container_head(json.dumps(plain))

    def of(self, count: int, block: bytes) -> Longs:
        """Of each of these records, at least one. Raises whatever polars-avro does."""
        raw = read_container(one_block(self._head, count, block), count)
        return _fields(self._columns, raw.columns, raw.num_rows)


def _fields(column: Column, raw: Sequence[pa.Array], rows: int) -> Longs:
    """Of a record's fields together; those that take no byte were not read."""
    read = iter(raw)
    found = np.zeros(rows, np.int64)
    for child in column.children:
        if child.smallest:
            found += _size(child, next(read))
    return found


def _size(column: Column, raw: Any) -> Longs:
    if not column.smallest:
        return np.zeros(len(raw), np.int64)
    return _BY_SHAPE[column.shape](column, raw)


def _scalar(column: Column, raw: pa.Array) -> Longs:
    kind = column.avro.kind
    if kind is Kind.LONG:
        return _number(column, raw)
    if kind in (Kind.BYTES, Kind.STRING):
        return _sized(raw)
    return np.full(len(raw), _FIXED.get(kind, column.avro.size), np.int64)


def _sized(raw: pa.Array) -> Longs:
    rows = BinaryRows.of(raw)
    size = (rows.end - rows.begin).astype(np.int64)
    return size + _groups((size << 1).astype(np.uint64))


def _number(_: Column, raw: pa.Array) -> Longs:
    values = raw.to_numpy(zero_copy_only=False).astype(np.int64)
    return _groups(((values << 1) ^ (values >> 63)).view(np.uint64))


def _groups(values: _Unsigned) -> Longs:
    """How many groups of seven bits numbers take."""
    found = np.ones(len(values), np.int64)
    for groups in range(1, 10):
        found += values >= np.uint64(1 << (7 * groups))
    return found


def _struct(column: Column, raw: pa.StructArray) -> Longs:
    return _fields(column, raw.flatten(), len(raw))


def _list(column: Column, raw: pa.ListArray) -> Longs:
    (items,) = held(raw)
    return _in_one_block(raw, _size(column.children[0], items))


def _map(column: Column, raw: pa.MapArray) -> Longs:
    keys, items = held(raw)
    return _in_one_block(raw, _sized(keys) + _size(column.children[0], items))


def _in_one_block(raw: pa.Array, items: Longs) -> Longs:
    """Of lists whose items have these sizes: how many there are, they, and the end."""
    edges = raw.offsets.to_numpy().astype(np.int64)
    edges -= edges[0]
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(items)])
    counts = np.diff(edges)
    inside: Longs = before[edges[1:]] - before[edges[:-1]]
    return inside + np.where(counts > 0, _counted(counts), 0) + 1


def _counted(counts: Longs) -> Longs:
    return _groups((counts << 1).astype(np.uint64))


def _union(column: Column, raw: pa.UnionArray) -> Longs:
    codes, at = raw.type_codes.to_numpy().astype(np.int64), raw.offsets.to_numpy()
    found = _counted(codes)
    for taken, sizes in _branches(column, raw, codes):
        found[taken] += sizes[at[taken]]
    return found


def _branches(
    column: Column, raw: pa.UnionArray, codes: Longs
) -> Iterator[tuple[npt.NDArray[np.bool_], Longs]]:
    for number, branch in enumerate(column.children):
        taken = codes == number
        if not branch.is_null and taken.any():
            yield taken, _size(branch, raw.field(number).field(0))


_FIXED: Mapping[Kind, int] = {Kind.FLOAT: 4, Kind.DOUBLE: 8}

_BY_SHAPE: Mapping[Shape, Callable[[Column, Any], Longs]] = {
    Shape.SCALAR: _scalar,
    Shape.INT: _number,
    Shape.BOOLEAN: lambda _, raw: np.ones(len(raw), np.int64),
    Shape.ENUM: _number,
    Shape.DATE: _number,
    Shape.TIMESTAMP: _number,
    Shape.DECIMAL: _scalar,
    Shape.STRUCT: _struct,
    Shape.LIST: _list,
    Shape.MAP: _map,
    Shape.OPTIONAL: _union,
    Shape.WIDER: _union,
    Shape.MEMBERS: _union,
}
