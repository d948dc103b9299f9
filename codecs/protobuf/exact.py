"""The exact way: one record at a time through Google's own parser. For records and types that the fast way refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from distributary.codecs import reasons
from distributary.codecs.broken_payloads import Undecodable
from distributary.codecs.protobuf.columns import Column, Many, Shape, schema_of
from distributary.codecs.protobuf.json_text import JsonWriter
from distributary.codecs.protobuf.plain_type import wire_message
from distributary.codecs.protobuf.text import OutOfRange, micros, sorted_keys, valid

_STRING = FieldDescriptor.TYPE_STRING


class UpbDecoder:
    """Decodes records of these columns one by one; `json` writes the messages that become JSON text."""

    def __init__(self, columns: tuple[Column, ...], json: Mapping[str, JsonWriter]) -> None:
        self._columns = columns
        self._schema = schema_of(columns)
        self._class = GetMessageClass(wire_message(columns, exact=True))
        self._json = json

    def one(self, payload: bytes) -> pa.RecordBatch:
        """One payload as a batch of one row. Raises Undecodable."""
        return self._rows([self.row(payload)])

    def batch(self, payloads: pa.BinaryArray) -> pa.RecordBatch:
        """All payloads as rows. Raises Undecodable if a single one is broken."""
        return self._rows([self.row(payload) for payload in payloads.to_pylist()])

    def _rows(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        if not self._columns:
            return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), len(rows), [None]))
        return pa.RecordBatch.from_pylist(rows, self._schema)

    def row(self, payload: bytes) -> dict[str, Any]:
        """One payload as what pyarrow makes a row of. Raises Undecodable."""
        try:
            return self._struct(self._columns, self._class.FromString(payload))
        except OutOfRange:
            raise _undecodable(reasons.OUT_OF_RANGE) from None
        except UnicodeError:
            raise _undecodable(reasons.INVALID_UTF8) from None
        except RecursionError:
            raise _undecodable(reasons.TOO_DEEP) from None
        except (DecodeError, ValueError) as error:
            raise _undecodable(_reason(str(error))) from None

    def _struct(self, columns: tuple[Column, ...], message: Any) -> dict[str, Any]:
        return {column.name: self._column(column, message) for column in columns}

    def _column(self, column: Column, message: Any) -> Any:
        value = getattr(message, column.wire.name)
        if column.many is Many.LIST:
            return [self._one(column, one) for one in value]
        if column.many is Many.MAP:
            return [(key, self._one(column, value[key])) for key in sorted_keys(value)]
        if column.absent.has_presence and not message.HasField(column.wire.name):
            value = column.absent.default
            return value if value is None or column.shape is not Shape.ENUM else enum_text(column, value)
        return None if column.absent.zero_is_null and _is_zero(value) else self._one(column, value)

    def _one(self, column: Column, value: Any) -> Any:
        return self._readers[column.shape](self, column, value)

    def _time(self, column: Column, value: Any) -> int:
        return micros(column.shape, value.f1, value.f2)

    def _text(self, column: Column, value: Any) -> str:
        return self._json[column.wire.message].text(value.SerializeToString())

    _readers: Mapping[Shape, Callable[[UpbDecoder, Column, Any], Any]] = {
        Shape.SCALAR: lambda _, column, value: valid(value) if column.wire.scalar == _STRING else value,
        Shape.ENUM: lambda _, column, value: enum_text(column, value),
        Shape.TIMESTAMP: _time,
        Shape.DURATION: _time,
        Shape.WRAPPER: lambda self, column, value: self._column(column.children[0], value),
        Shape.JSON: _text,
        Shape.EMPTY: lambda _, __, ___: True,
        Shape.DUMMY: lambda _, __, ___: {},
        Shape.STRUCT: lambda self, column, value: self._struct(column.children, value),
    }


def enum_text(column: Column, number: int) -> str:
    """An enum's name; the number itself, as text, where the schema has none for it."""
    return dict(column.wire.names).get(number, str(number))


def _is_zero(value: Any) -> bool:
    """Whether a value is written by writing nothing; a negative zero is not."""
    return not value and str(value) != "-0.0"


def _reason(parser_message: str) -> str:
    if "UTF-8" in parser_message:
        return reasons.INVALID_UTF8
    return reasons.TOO_DEEP if "MaxDepth" in parser_message else reasons.MALFORMED


def _undecodable(reason: str) -> Undecodable:
    return Undecodable(reason, reasons.SENTENCES[reason])
