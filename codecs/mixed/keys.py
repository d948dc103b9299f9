"""Kafka keys whose bytes name a schema: each decoded by it, and written as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs import reasons
from distributary.codecs.avro.types.schema import Kind, parse_schema
from distributary.codecs.base import Codec, Decoded, Failure, Mode, RecordPath, RecordReader
from distributary.codecs.mixed.codec import AutoCodec
from distributary.codecs.types.json_value import compact, encoded, number
from distributary.codecs.types.walk import children
from distributary.codecs.wire import header as wire_header
from distributary.codecs.wire.header import Frames
from distributary.errors import DecoderUnavailable
from distributary.registry.base import Schema, SchemaRef, SchemaType

if TYPE_CHECKING:
    from pyspark.sql import Column

# What a key comes to: its text, and whether it is one value instead of a record.
KEY = pa.schema([("text", pa.string()), ("scalar", pa.bool_())])

_Text = tuple[str | None, bool]

_Naming = Callable[[Any], Any]


class KeyReader(RecordReader):
    """Decodes keys of one schema to `KEY`: a scalar as it is written, a record as JSON. Made by `KeyCodec.reader`."""

    schema = KEY

    def __init__(self, name: str, texts: Callable[[pa.BinaryArray], Sequence[_Text | None]]) -> None:
        """`texts` gives each payload's text, None for a broken one."""
        self.name, self._texts = name, texts

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """All keys (bodies without any header, no nulls) as text; the broken ones as failures."""
        found = self._texts(payloads)
        good = [row for row, text in enumerate(found) if text is not None]
        rows = [dict(zip(KEY.names, text, strict=True)) for text in found if text is not None]
        why = reasons.SENTENCES[reasons.MALFORMED]
        failures = [Failure(row, reasons.MALFORMED, why) for row, text in enumerate(found) if text is None]
        return Decoded(pa.RecordBatch.from_pylist(rows, KEY), np.array(good, np.int64), failures)

    def column(self, payload: Column, mode: Mode = "FAILFAST") -> Column:
        """Keys are decoded in workers alone."""
        raise DecoderUnavailable(f"{self.name}: keys are not decoded by Spark's functions; take kafka_key")


class KeyCodec(Codec):
    """Keys in the Confluent wire format, of any type of schema."""

    def __init__(self, types: Mapping[SchemaRef, SchemaType] | None = None) -> None:
        """`types` are those of the schemas that are known."""
        self._auto = AutoCodec(types)

    def split(self, values: pa.BinaryArray, header_ids: pa.BinaryArray | None) -> Frames:
        """Each key's schema reference, message path if its schema is Protobuf's, and where its body starts."""
        return self._auto.split(values, header_ids)

    def reader(self, schema: Schema, path: RecordPath) -> KeyReader:
        """The reader for keys of a schema. Raises BadSchema."""
        if schema.type == "JSON":
            return KeyReader("json", _json_texts)
        if schema.type == "AVRO" and parse_schema(schema.text, dict(schema.imports)).kind is not Kind.RECORD:
            return _rows(self._auto.reader(schema, path), _scalar)
        return _rows(self._auto.reader(schema, path), _record)


def _rows(inner: RecordReader, text: Callable[[dict[str, Any], _Naming], _Text]) -> KeyReader:
    named = _naming_of(pa.struct(list(inner.schema)))

    def texts(payloads: pa.BinaryArray) -> list[_Text | None]:
        decoded = inner.decode(payloads)
        found: list[_Text | None] = [None] * len(payloads)
        rows = decoded.rows.to_pylist(maps_as_pydicts="lossy")
        for row, values in zip(decoded.source.tolist(), rows, strict=True):
            found[row] = text(values, named)
        return found

    return KeyReader(inner.name, texts)


def _scalar(row: dict[str, Any], named: _Naming) -> _Text:
    """The one value of a schema that is no record; a list or a map is none either."""
    value = next(iter(row.values()), None)
    if isinstance(value, dict | list):
        (value,) = named(row).values()
        return compact(value, _plain), False
    return _written(value), True


def _written(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return _plain(value)
    plain = number(value) if isinstance(value, float) else value
    return compact(plain, _plain) if isinstance(plain, bool | int | float) else _plain(plain)


def _record(row: dict[str, Any], named: _Naming) -> _Text:
    return compact(named(row), _plain), False


def _naming_of(of: pa.DataType) -> _Naming:
    """What gives values of a type with what JSON lacks as text: NaN, and a map's keys of unsigned 64 bits, which are decimals.

    A map's entries come in no particular order, and one key is to have one text.
    """
    within = [_naming_of(field.type) for field in children(of)]
    if not any(one is not _as_it_is for one in within) and not kinds.is_map(of):
        return _number if kinds.is_floating(of) else _as_it_is
    if kinds.is_map(of):
        item = within[1]
        return lambda value: (
            value
            and {
                str(name) if isinstance(name, Decimal) else name: item(value[name]) for name in sorted(value)
            }
        )
    if kinds.is_struct(of):
        fields = [(field.name, one) for field, one in zip(of, within, strict=True)]
        return lambda value: value and {name: one(value[name]) for name, one in fields}
    element = within[0]
    return lambda value: value and [element(one) for one in value]


def _as_it_is(value: Any) -> Any:
    return value


def _number(value: float | None) -> float | str | None:
    return None if value is None else number(value)


def _plain(value: Any) -> str:
    """What JSON has no form for: bytes in base64, times as ISO 8601."""
    if isinstance(value, bytes):
        return encoded(value)
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)


def _json_texts(payloads: pa.BinaryArray) -> list[_Text | None]:
    return [_json_text(payload.as_py()) for payload in payloads]


def _json_text(payload: bytes) -> _Text | None:
    try:
        text = payload.decode()
        value = json.loads(text)
        if isinstance(value, str):
            value.encode()  # half a surrogate pair is fine in JSON's escapes, but UTF-8 cannot hold it
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict | list):
        return text, False
    return (value if value is None or isinstance(value, str) else text.strip()), True


def has_header(keys: pa.BinaryArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which keys begin like one of the wire format's headers."""
    frames = wire_header.split(keys, None, message_index=False)
    return frames.kind >= 0
