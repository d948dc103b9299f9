"""The fast way: a batch behind one container header is read to Arrow by polars-avro, then checked and typed.

Records in a container are told apart by nothing but their own bytes: one with bytes to spare would move all that
follow, and could forge them. So each is read as a record of itself and a nonce, random for each batch: if
as many nonces come out as went in, every record ended where it should. All else that the reader takes without a
word, and should not, is found in its result and the batch refused (`Suspect`); the exact way then decides.

At the end of the file are the container itself, https://avro.apache.org/docs/1.12.0/specification/#object-container-files, and
decimals, which the reader gives as bytes.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from distributary.codecs.avro.decode.source import AvroSource
from distributary.codecs.avro.types.columns import Column, Shape, schema_of
from distributary.codecs.avro.types.plain_schema import NONCE_SIZE, native_schema
from distributary.codecs.avro.types.schema import Kind
from distributary.codecs.avro.types.times import limits, micros_per_unit
from distributary.codecs.types.map_keys import has_a_key_twice
from distributary.codecs.types.walk import around, held
from distributary.codecs.wire.binary_rows import BinaryRows

# Arrow numbers a union's branches in one signed byte; one branch is ours.
_MAX_BRANCHES = 126


class Suspect(Exception):
    """The result may not be what Avro says; decode the records one by one."""


def can_read(columns: Column) -> bool:
    """Whether the fast way is right for these columns."""
    return bool(columns.children) and _can_read(columns)


def _can_read(column: Column) -> bool:
    if column.shape is Shape.JSON:
        return False
    many = column.shape is not Shape.STRUCT
    # Five bytes can ask for two thousand million values that take no byte; polars-avro has no place for them in unions.
    if many and any(not child.smallest and not child.is_null for child in column.children):
        return False
    if column.shape in (Shape.LIST, Shape.MAP) and column.children[0].is_null:
        return False
    if column.avro.kind is Kind.UNION and not 0 < _branch_count(column) <= _MAX_BRANCHES:
        return False
    return all(map(_can_read, column.children))


def _branch_count(column: Column) -> int:
    """How many branches a union has; none where all it can be is null."""
    return 0 if all(branch.is_null for branch in column.children) else len(column.children)


class ArrowDecoder:
    """Decodes batches of records of these columns, which `can_read` has said yes to."""

    def __init__(self, columns: Column) -> None:
        self._columns = columns
        self._schema = schema_of(columns)
        self._head = container_head(native_schema(columns))

    def batch(self, payloads: pa.BinaryArray) -> pa.RecordBatch:
        """All payloads as rows. Raises whatever polars-avro does, or Suspect, if a single one is not right."""
        nonce = os.urandom(NONCE_SIZE)
        raw = read_container(container(self._head, payloads, nonce), len(payloads))
        *fields, nonces = raw.columns
        if raw.num_rows != len(payloads) or _fixed_bytes(nonces).tobytes() != nonce * len(payloads):
            raise Suspect
        arrays = _fields(self._columns, fields, len(payloads))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def read_container(file: bytes, rows: int) -> pa.RecordBatch:
    """The rows of a container with so many, at least one. Raises whatever polars-avro does; it may leave bytes unread."""
    # The reader closes what it opened while its own error is set. Nothing of Python may run there, as a context manager of
    # ours would: from 3.12 on that may collect garbage, and whoever listens to that is blamed for the reader's error.
    opened = partial(io.BytesIO, file)
    # One batch, never asked for a second: the reader would wait for ever on bytes that are left in the block.
    return pa.record_batch(next(AvroSource([opened], False, False).batch_iter(rows, None)))


def _fixed_bytes(raw: pa.FixedSizeBinaryArray) -> npt.NDArray[np.uint8]:
    width = raw.type.byte_width
    return np.frombuffer(raw.buffers()[1], np.uint8)[raw.offset * width : (raw.offset + len(raw)) * width]


def _value(column: Column, raw: pa.Array) -> pa.Array:
    """The column of raw values, none of which is null."""
    return _BY_SHAPE[column.shape](column, raw)


def _fields(column: Column, raw: Sequence[pa.Array], rows: int) -> list[pa.Array]:
    """A struct's fields; those that take no byte were not read."""
    read = iter(raw)
    return [_value(child, next(read) if child.smallest else pa.nulls(rows)) for child in column.children]


def _scalar(column: Column, raw: pa.Array) -> pa.Array:
    if not column.smallest:
        return pa.array([b""] * len(raw), column.type)
    return raw if raw.type == column.type else raw.cast(column.type)


def _boolean(_column: Column, raw: pa.Array) -> pa.Array:
    bytes_ = _fixed_bytes(raw)
    if len(bytes_) and bytes_.max() > 1:
        raise Suspect
    return pa.array(bytes_.view(np.bool_))


def _enum(column: Column, raw: pa.Array) -> pa.Array:
    return pa.array(column.avro.names, pa.string()).take(raw)


def _time(column: Column, raw: pa.Array) -> pa.Array:
    counts = raw.to_numpy()
    low, end = limits(column.avro)
    if len(counts) and (counts.min() < low or counts.max() >= end):
        raise Suspect
    if column.shape is Shape.DATE:
        return pa.array(counts.astype(np.int32)).cast(column.type)
    unit = micros_per_unit(column.avro)
    return (raw if unit == 1 else pa.array(counts * unit)).cast(column.type)


def _struct(column: Column, raw: pa.StructArray) -> pa.Array:
    children = _fields(column, raw.flatten() if column.smallest else [], len(raw))
    return pa.Array.from_buffers(column.type, len(raw), [None], children=children)


def _list(column: Column, raw: pa.ListArray) -> pa.Array:
    return around(raw, column.type, [_value(column.children[0], one) for one in held(raw)])


def _map(column: Column, raw: pa.MapArray) -> pa.Array:
    if has_a_key_twice(raw):
        raise Suspect
    keys, items = held(raw)
    return around(raw, column.type, [keys, _value(column.children[0], items)])


def _optional(column: Column, raw: pa.UnionArray) -> pa.Array:
    for part, _ in _branches(column, raw):
        return part
    return pa.nulls(len(raw), column.type)


def _wider(column: Column, raw: pa.UnionArray) -> pa.Array:
    return pc.coalesce(*(part.cast(column.type) for part, _ in _branches(column, raw)))


def _members(column: Column, raw: pa.UnionArray) -> pa.Array:
    parts, taken = zip(*_branches(column, raw), strict=True)
    is_null = pa.array(~np.logical_or.reduce(taken))
    return pa.StructArray.from_arrays(list(parts), fields=list(column.type), mask=is_null)


def _branches(column: Column, raw: pa.UnionArray) -> Iterator[tuple[pa.Array, npt.NDArray[np.bool_]]]:
    """Of each branch that is not null, its values spread over all rows, and which rows they are."""
    codes = raw.type_codes.to_numpy()
    if len(codes) and codes.max() >= len(column.children):
        raise Suspect
    at = raw.offsets
    for number, branch in enumerate(column.children):
        if not branch.is_null:
            taken = codes == number
            yield _spread(_value(branch, raw.field(number).field(0)), taken, at), taken


def _spread(values: pa.Array, taken: npt.NDArray[np.bool_], at: pa.Array) -> pa.Array:
    if not len(values):
        return pa.nulls(len(taken), values.type)
    if len(values) == len(taken):
        return values
    return values.take(pa.array(at.to_numpy(), mask=~taken))


_BY_SHAPE: Mapping[Shape, Callable[[Column, Any], pa.Array]] = {
    Shape.EMPTY: lambda _, raw: pa.array(np.ones(len(raw), np.bool_)),
    Shape.SCALAR: _scalar,
    Shape.INT: _scalar,
    Shape.BOOLEAN: _boolean,
    Shape.ENUM: _enum,
    Shape.DATE: _time,
    Shape.TIMESTAMP: _time,
    Shape.DECIMAL: lambda column, raw: decimals(raw, column.type),
    Shape.STRUCT: _struct,
    Shape.LIST: _list,
    Shape.MAP: _map,
    Shape.OPTIONAL: _optional,
    Shape.WIDER: _wider,
    Shape.MEMBERS: _members,
}

# Ends a block. What a sync marker is good for, finding blocks again, nobody needs here.
_SYNC = bytes(16)


def container_head(schema: str) -> bytes:
    """The header of a container of records of this schema."""
    text = schema.encode()
    entries = _long(2) + _bytes(b"avro.schema") + _bytes(text) + _bytes(b"avro.codec") + _bytes(b"null")
    return b"Obj\x01" + entries + _long(0) + _SYNC


def container(head: bytes, bodies: pa.BinaryArray, after_each: bytes) -> bytes:
    """A container with these records in one block, `after_each` behind every one of them."""
    joined = pc.binary_join_element_wise(
        bodies, pa.scalar(after_each, pa.binary()), pa.scalar(b"", pa.binary())
    )
    _, offsets, data = joined.buffers()
    first, last = joined.offset, joined.offset + len(joined)
    edges = memoryview(offsets).cast("i")
    return one_block(head, len(joined), memoryview(data)[edges[first] : edges[last]])


def one_block(head: bytes, count: int, block: bytes | memoryview) -> bytes:
    """A container of one block, which has so many records."""
    return b"".join((head, _long(count), _long(len(block)), block, _SYNC))


def _bytes(raw: bytes) -> bytes:
    return _long(len(raw)) + raw


def _long(value: int) -> bytes:
    """A number from 0 on as Avro writes it."""
    value <<= 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


_WIDTH = 16


def decimals(raw: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    """The numbers in an array of bytes without nulls.

    Raises ValueError for one that is empty, longer than 16 bytes or too large for its type.
    """
    rows = BinaryRows.of(raw)
    size = rows.end - rows.begin
    if len(size) and (size.min() < 1 or size.max() > _WIDTH):
        raise ValueError("a decimal is empty or longer than 16 bytes")
    # Arrow's are little-endian: byte k counts from the end; what is missing repeats the sign.
    place = np.arange(_WIDTH)[None, :]
    at = np.maximum(rows.end[:, None] - 1 - place, rows.begin[:, None])
    filled = rows.data[at] if len(size) else np.zeros((0, _WIDTH), np.uint8)
    sign = np.where(rows.data[rows.begin] >= 0x80, 0xFF, 0).astype(np.uint8) if len(size) else size
    little = np.where(place < size[:, None], filled, sign[:, None]).astype(np.uint8)
    found = pa.Array.from_buffers(kind, len(size), [None, pa.py_buffer(np.ascontiguousarray(little))])
    found.validate(full=True)
    return found
