"""The exact way: one record at a time, each byte accounted for. Its word is final.

It never recurses deeper than MAX_NESTING and never makes more than the payload can hold, which fastavro does: a
payload of 20 kB kills it where a schema contains itself, and one of 5 bytes makes millions of items.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from distributary.codecs import reasons
from distributary.codecs.avro.decode.cursor import Cursor, refused
from distributary.codecs.avro.decode.json_text import json_value
from distributary.codecs.avro.types.columns import Column, JsonPair, Shape, columns_of, schema_of
from distributary.codecs.avro.types.schema import AvroType, Kind
from distributary.codecs.avro.types.times import limits, micros_per_unit
from distributary.codecs.types.json_value import compact

Read: TypeAlias = Callable[[Cursor], Any]

_INT = range(-(2**31), 2**31)

_FLOAT = struct.Struct("<f")

_DOUBLE = struct.Struct("<d")


class ExactDecoder:
    """Decodes records of these columns one by one."""

    def __init__(self, columns: Column) -> None:
        self._schema = schema_of(columns)
        self._read = _Readers(in_json=False).reader(columns)

    def one(self, payload: bytes) -> pa.RecordBatch:
        """One payload as a batch of one row. Raises Undecodable."""
        return self._rows([self.row(payload)])

    def batch(self, payloads: pa.BinaryArray) -> pa.RecordBatch:
        """All payloads as rows. Raises Undecodable if a single one is broken."""
        return self._rows([self.row(payload) for payload in payloads.to_pylist()])

    def row(self, payload: bytes) -> dict[str, Any]:
        """One payload as what pyarrow makes a row of. Raises Undecodable."""
        cursor = Cursor(payload)
        try:
            row: dict[str, Any] = self._read(cursor)
        except RecursionError:
            raise refused(reasons.TOO_DEEP) from None
        cursor.finish()
        return row

    def _rows(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        if not len(self._schema):
            return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), len(rows), [None]))
        return pa.RecordBatch.from_pylist(rows, self._schema)


def value_in_json(column: Column, payload: bytes) -> Any:
    """The value of these bytes as it is within JSON text. Raises Undecodable."""
    return _Readers(in_json=True).reader(column)(Cursor(payload))


class _Readers:
    """Makes a function that reads a value, for each value of a schema; within JSON text values are what JSON has."""

    def __init__(self, *, in_json: bool) -> None:
        self._in_json = in_json
        # Records that contain themselves, by their full names, or by what they are of a pair.
        self._made: set[str | JsonPair] = set()
        self._records: dict[str | JsonPair, Read] = {}

    def reader(self, column: Column) -> Read:
        read = self._by_shape[column.shape](self, column)
        convert = json_value(column) if self._in_json else None
        return read if convert is None else _then(read, convert)

    def scalar(self, column: Column) -> Read:
        if column.avro.kind is Kind.FIXED:
            size = column.avro.size
            return lambda cursor: cursor.take(size)
        return _SCALARS[column.avro.kind]

    def enum(self, column: Column) -> Read:
        symbols = column.avro.names

        def read(cursor: Cursor) -> str:
            index = cursor.long()
            if not 0 <= index < len(symbols):
                raise refused(reasons.MALFORMED)
            return symbols[index]

        return read

    def time(self, column: Column) -> Read:
        low, end = limits(column.avro)
        unit = micros_per_unit(column.avro) if column.shape is Shape.TIMESTAMP else 1
        plain = _SCALARS[column.avro.kind]

        def read(cursor: Cursor) -> int:
            value: int = plain(cursor)
            if not low <= value < end:
                raise refused(reasons.OUT_OF_RANGE)
            return value * unit

        return read

    def decimal(self, column: Column) -> Read:
        plain, scale, end = self.scalar(column), column.avro.scale, 10**column.avro.precision

        def read(cursor: Cursor) -> Decimal:
            raw = plain(cursor)
            unscaled = int.from_bytes(raw, "big", signed=True)
            if not raw:
                raise refused(reasons.MALFORMED)
            if not -end < unscaled < end:
                raise refused(reasons.OUT_OF_RANGE)
            return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))

        return read

    def struct(self, column: Column) -> Read:
        parts = tuple((n, self.reader(c)) for n, c in zip(column.names, column.children, strict=True))
        return self._nested(lambda cursor: {name: read(cursor) for name, read in parts})

    def list_of(self, column: Column) -> Read:
        element = column.children[0]
        one = self.reader(element)

        def read(cursor: Cursor) -> list[Any]:
            values: list[Any] = []
            while count := cursor.block(element.smallest):
                values += [one(cursor) for _ in range(count)]
            return values

        return self._nested(read)

    def map_of(self, column: Column) -> Read:
        value = column.children[0]
        one = self.reader(value)
        as_json = self._in_json

        def read(cursor: Cursor) -> Any:
            entries: dict[str, Any] = {}
            # Each entry has a key, of one byte at least. Of equal keys the last one counts, as in Java's maps.
            while count := cursor.block(1 + value.smallest):
                for _ in range(count):
                    key = _string(cursor)
                    entries[key] = one(cursor)
            # In order within JSON text: a key that has it is to have one text.
            return dict(sorted(entries.items())) if as_json else list(entries.items())

        return self._nested(read)

    def union(self, column: Column) -> Read:
        branches = tuple(self.reader(child) for child in column.children)
        names = column.names

        def read(cursor: Cursor) -> Any:
            index = cursor.long()
            if not 0 <= index < len(branches):
                raise refused(reasons.MALFORMED)
            value = branches[index](cursor)
            return {names[index]: value} if names and names[index] else value

        return read

    def recursive(self, column: Column) -> Read:
        if not self._in_json:
            read = _Readers(in_json=True).recursive(column)
            return lambda cursor: compact(read(cursor))
        return self._record(column.avro) if column.pair is None else self._paired(column.pair)

    def _paired(self, pair: JsonPair) -> Read:
        """Reads records of a writer's that become a reader's; as with `_record`, each pair is made once."""
        if pair not in self._made:
            self._made.add(pair)
            self._records[pair] = _then(self.reader(pair.source), pair.convert)
        return partial(self._read_record, pair)

    def _record(self, avro: AvroType) -> Read:
        """Reads records that contain themselves: inside of its own making one is only named, not made again."""
        if avro.name not in self._made:
            self._made.add(avro.name)
            self._records[avro.name] = self.struct(columns_of(avro))
        return partial(self._read_record, avro.name)

    def _read_record(self, name: str | JsonPair, cursor: Cursor) -> Any:
        return self._records[name](cursor)

    def _nested(self, read: Read) -> Read:
        """Counts how deep it is where that depends on the payload; elsewhere the schema bounds it."""
        if not self._in_json:
            return read

        def counted(cursor: Cursor) -> Any:
            cursor.enter()
            value = read(cursor)
            cursor.leave()
            return value

        return counted

    _by_shape: Mapping[Shape, Callable[[_Readers, Column], Read]] = {
        Shape.NULL: lambda _, __: lambda _: None,
        Shape.EMPTY: lambda _, __: lambda _: True,
        Shape.SCALAR: scalar,
        Shape.BOOLEAN: lambda _, __: _boolean,
        Shape.INT: lambda _, __: _int,
        Shape.ENUM: enum,
        Shape.DATE: time,
        Shape.TIMESTAMP: time,
        Shape.DECIMAL: decimal,
        Shape.STRUCT: struct,
        Shape.LIST: list_of,
        Shape.MAP: map_of,
        Shape.OPTIONAL: union,
        Shape.WIDER: union,
        Shape.MEMBERS: union,
        Shape.JSON: recursive,
    }


def _then(read: Read, convert: Callable[[Any], Any]) -> Read:
    return lambda cursor: convert(read(cursor))


def _boolean(cursor: Cursor) -> bool:
    byte = cursor.take(1)[0]
    if byte > 1:
        raise refused(reasons.MALFORMED)
    return byte == 1


def _int(cursor: Cursor) -> int:
    value = cursor.long()
    if value not in _INT:
        raise refused(reasons.MALFORMED)
    return value


def _string(cursor: Cursor) -> str:
    try:
        return cursor.take(cursor.long()).decode()
    except UnicodeDecodeError:
        raise refused(reasons.INVALID_UTF8) from None


_SCALARS: Mapping[Kind, Read] = {
    Kind.INT: _int,
    Kind.LONG: Cursor.long,
    Kind.FLOAT: lambda cursor: _FLOAT.unpack(cursor.take(4))[0],
    Kind.DOUBLE: lambda cursor: _DOUBLE.unpack(cursor.take(8))[0],
    Kind.BYTES: lambda cursor: cursor.take(cursor.long()),
    Kind.STRING: _string,
}
