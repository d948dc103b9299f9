"""The fast way: ptars decodes a batch to Arrow, and whole columns are then turned into what they should be.

What ptars gets wrong without saying so is found in its result, and the batch refused (`Suspect`): two members of
one oneof, a key twice in one map, a map's value that is missing, a time out of range. The exact way then decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import ptars
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import Descriptor

from distributary.codecs.protobuf.columns import Column, Many, Shape, schema_of
from distributary.codecs.protobuf.exact import enum_text
from distributary.codecs.protobuf.json_text import JsonWriter
from distributary.codecs.protobuf.text import LIMITS, SECOND
from distributary.codecs.types.map_keys import has_a_key_twice
from distributary.codecs.types.walk import around, held

# ptars walks into groups that it does not know with the stack of the process, which holds a hundred thousand of them; each
# takes a byte that could be such a tag.
_MOST_GROUPS = 20_000

_START_GROUP, _WIRE_TYPE = 3, 7


class Suspect(Exception):
    """The result may not be what Protobuf says; decode the records one by one."""


class ArrowDecoder:
    """Decodes batches of records of these columns; `wire` is the plainer type of plain_type.py."""

    def __init__(self, columns: tuple[Column, ...], wire: Descriptor, json: Mapping[str, JsonWriter]) -> None:
        self._columns = columns
        self._schema = schema_of(columns)
        # Of a value that is missing it makes a null then; otherwise it panics, and tells of that on stderr.
        config = ptars.PtarsConfig(list_nullable=True, map_nullable=True, map_value_nullable=True)
        self._handler = ptars.HandlerPool([wire.file], config).get_for_message(wire)
        self._json = json

    def batch(self, payloads: pa.BinaryArray) -> pa.RecordBatch:
        """All payloads as rows. Raises whatever ptars does, or Suspect, if a single one is not right."""
        if _may_overflow(payloads):
            raise Suspect
        raw = self._handler.array_to_record_batch(payloads)
        arrays = self._fields(self._columns, raw.columns)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _fields(self, columns: tuple[Column, ...], raw: list[pa.Array]) -> list[pa.Array]:
        _refuse_twofold_oneofs(columns, raw)
        return [self._column(column, array) for column, array in zip(columns, raw, strict=True)]

    def _column(self, column: Column, raw: pa.Array) -> pa.Array:
        if column.many is Many.LIST:
            return around(raw, column.type, [self._values(column, one) for one in held(raw)])
        if column.many is Many.MAP:
            return self._map(column, raw)
        if column.shape is Shape.JSON:
            return self._json_of_parts(column, raw)
        values = self._values(column, raw)
        if column.absent.zero_is_null:
            return pc.if_else(_is_zero(raw), pa.scalar(None, values.type), values)
        if column.absent.default is None:
            return values
        default = column.absent.default
        default = enum_text(column, default) if column.shape is Shape.ENUM else default
        return values.fill_null(pa.scalar(default, column.type))

    def _map(self, column: Column, raw: pa.MapArray) -> pa.Array:
        keys, items = held(raw)
        if items.null_count or has_a_key_twice(raw):
            raise Suspect
        return around(raw, column.type, [keys.cast(column.type.key_type), self._values(column, items)])

    def _values(self, column: Column, raw: pa.Array) -> pa.Array:
        return self._readers[column.shape](self, column, raw)

    def _struct(self, column: Column, raw: pa.StructArray) -> pa.Array:
        return around(raw, column.value_type, self._fields(column.children, held(raw)))

    def _wrapped(self, column: Column, raw: pa.StructArray) -> pa.Array:
        return _where_set(raw, self._column(column.children[0], raw.field(0)))

    def _json_of_parts(self, column: Column, raw: pa.ListArray) -> pa.Array:
        if not len(raw.values):
            return pa.nulls(len(raw), pa.string())
        return self._text_of(column, [b"".join(parts) if parts else None for parts in raw.to_pylist()])

    def _text_of(self, column: Column, payloads: list[bytes | None]) -> pa.Array:
        writer = self._json[column.wire.message]
        return pa.array([None if p is None else writer.text(p) for p in payloads], pa.string())

    _readers: Mapping[Shape, Callable[[ArrowDecoder, Column, Any], pa.Array]] = {
        Shape.SCALAR: lambda _, column, raw: (
            raw if raw.type == column.value_type else raw.cast(column.value_type)
        ),
        Shape.ENUM: lambda _, column, raw: _enum_names(column, raw),
        Shape.TIMESTAMP: lambda _, column, raw: _where_set(raw, _times(column, raw)),
        Shape.DURATION: lambda _, column, raw: _where_set(raw, _times(column, raw)),
        Shape.WRAPPER: _wrapped,
        Shape.JSON: lambda self, column, raw: self._text_of(column, raw.to_pylist()),
        Shape.EMPTY: lambda _, __, raw: pc.if_else(raw.is_valid(), True, pa.scalar(None, pa.bool_())),
        Shape.DUMMY: lambda _, column, raw: _dummies(column, raw),
        Shape.STRUCT: _struct,
    }


def _may_overflow(payloads: pa.BinaryArray) -> bool:
    """Whether groups in one of the payloads could be nested so deep that the process would be killed."""
    edges = np.frombuffer(payloads.buffers()[1], np.int32, len(payloads) + 1, payloads.offset * 4)
    long = np.flatnonzero(np.diff(edges) > _MOST_GROUPS)
    if not len(long):
        return False
    data = np.frombuffer(payloads.buffers()[2], np.uint8)
    return any(
        np.count_nonzero(data[edges[row] : edges[row + 1]] & _WIRE_TYPE == _START_GROUP) > _MOST_GROUPS
        for row in long
    )


def _refuse_twofold_oneofs(columns: tuple[Column, ...], raw: list[pa.Array]) -> None:
    seen: dict[str, Any] = {}
    for column, array in zip(columns, raw, strict=True):
        oneof = column.absent.oneof
        if oneof is None:
            continue
        in_parts = column.shape is Shape.JSON
        is_set = pc.greater(pc.list_value_length(array), 0).fill_null(False) if in_parts else array.is_valid()
        member = is_set.to_numpy(zero_copy_only=False)
        if oneof in seen and (seen[oneof] & member).any():
            raise Suspect
        seen[oneof] = seen[oneof] | member if oneof in seen else member


def _enum_names(column: Column, raw: pa.Array) -> pa.Array:
    numbers, names = zip(*column.wire.names, strict=True)
    found = pc.index_in(raw, value_set=pa.array(numbers, pa.int32()))
    named = pa.array(names, pa.string()).take(found)
    return named if named.null_count == raw.null_count else pc.coalesce(named, raw.cast(pa.string()))


def _where_set(raw: pa.StructArray, values: pa.Array) -> pa.Array:
    """The values, null where their message is not set."""
    return pc.if_else(raw.is_valid(), values, pa.scalar(None, values.type)) if raw.null_count else values


def _dummies(column: Column, raw: pa.StructArray) -> pa.StructArray:
    nothing = pa.nulls(len(raw), pa.string())
    return pa.StructArray.from_arrays([nothing], fields=list(column.value_type), mask=raw.is_null())


def _is_zero(raw: pa.Array) -> pa.Array:
    """Which values are written by writing nothing; a negative zero is not."""
    kind = raw.type
    if pa.types.is_floating(kind):
        raw = raw.view(pa.int64() if pa.types.is_float64(kind) else pa.int32())
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        raw = pc.binary_length(raw)
    return pc.equal(raw, pa.scalar(0, raw.type)) if not pa.types.is_boolean(kind) else pc.invert(raw)


def _times(column: Column, raw: pa.StructArray) -> pa.Array:
    """Microseconds since the epoch, or long, of (seconds, nanoseconds); nanoseconds are cut off towards zero."""
    seconds = raw.field(0).fill_null(0).to_numpy()
    nanos = raw.field(1).fill_null(0).to_numpy().astype(np.int64)
    low, high = LIMITS[column.shape]
    if len(seconds) and (seconds.min() < low // SECOND - 3 or seconds.max() > high // SECOND + 3):
        raise Suspect
    micros = seconds * SECOND + np.sign(nanos) * (np.abs(nanos) // 1_000)
    if len(micros) and (micros.min() < low or micros.max() > high):
        raise Suspect
    return pa.array(micros).cast(column.value_type)
