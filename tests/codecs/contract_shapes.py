"""Record types that every format can express, each format's schema for one, and its records by the reference library.

Avro is written by fastavro, Protobuf by Google's upb, JSON by the json module: never by code of our own. The row that a
record should become is the same in all formats, and is the record itself.
"""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
from hypothesis import strategies as st
from tests.codecs.protobuf_samples import message_class

from distributary.codecs.base import RecordPath
from distributary.codecs.types.spark_struct import list_of, struct_json
from distributary.registry.base import Schema

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
COLOURS = ("RED", "BLUE")

LEAVES = ("long", "double", "bool", "text", "time", "colour")


class ListOf(NamedTuple):
    """Any number of leaves or records."""

    of: Any


class MapOf(NamedTuple):
    """Leaves or records by text."""

    of: Any


class Field(NamedTuple):
    """A field of a record; only leaves and records are optional, since Protobuf knows no absent list."""

    name: str
    type: Any
    optional: bool = False


@dataclass(frozen=True)
class Record:
    """Named fields."""

    fields: tuple[Field, ...]


def _names() -> Iterator[str]:
    return (f"T{number}" for number in itertools.count())


# What follows says the same for each format: its schema for a record type, and one record's body.


def avro_schema(record: Record) -> Any:
    return _avro(record, _names())


def _avro(kind: Any, names: Iterator[str]) -> Any:
    if isinstance(kind, Record):
        name = next(names)
        fields = [{"name": one.name, "type": _avro_field(one, names)} for one in kind.fields]
        return {"type": "record", "name": name, "fields": fields}
    if isinstance(kind, ListOf):
        return {"type": "array", "items": _avro(kind.of, names)}
    if isinstance(kind, MapOf):
        return {"type": "map", "values": _avro(kind.of, names)}
    return {
        "long": "long",
        "double": "double",
        "bool": "boolean",
        "text": "string",
        "time": {"type": "long", "logicalType": "timestamp-micros"},
        "colour": {"type": "enum", "name": next(names), "symbols": list(COLOURS)},
    }[kind]


def _avro_field(field: Field, names: Iterator[str]) -> Any:
    one = _avro(field.type, names)
    return ["null", one] if field.optional else one


def avro_body(record: Record, row: Mapping[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(avro_schema(record)), row)
    return out.getvalue()


PROTO = 'syntax = "proto3"; package contract; import "google/protobuf/timestamp.proto";'
COLOUR = f"enum Colour {{ {' '.join(f'{name} = {number};' for number, name in enumerate(COLOURS))} }}"


def protobuf_message(record: Record, name: str) -> str:
    """A message with the messages inside of it."""
    return f"message {name} {{ {' '.join(_protobuf_fields(record))} }}"


def _protobuf_fields(record: Record) -> Iterator[str]:
    for number, field in enumerate(record.fields, 1):
        many = isinstance(field.type, ListOf | MapOf)
        kind = field.type.of if many else field.type
        if isinstance(kind, Record):
            yield protobuf_message(kind, f"M{number}")
            one = f"M{number}"
        else:
            one = {
                "long": "int64",
                "text": "string",
                "time": "google.protobuf.Timestamp",
                "colour": "Colour",
            }.get(kind, kind)
        label = "repeated " if isinstance(field.type, ListOf) else "optional " if field.optional else ""
        written = f"map<string, {one}>" if isinstance(field.type, MapOf) else f"{label}{one}"
        yield f"{written} {field.name} = {number};"


def protobuf_text(record: Record) -> str:
    return f"{PROTO} {COLOUR} {protobuf_message(record, 'Event')}"


def protobuf_body(record: Record, row: Mapping[str, Any]) -> bytes:
    message = message_class(protobuf_text(record), "contract.Event")()
    fill(message, record, row)
    return bytes(message.SerializeToString())


def fill(message: Any, record: Record, row: Mapping[str, Any]) -> None:
    """Set a message's fields to a row's values."""
    for name, kind, _ in record.fields:
        value, target = row[name], getattr(message, name)
        if value is None:
            continue
        if isinstance(kind, ListOf):
            for one in value:
                if isinstance(kind.of, Record) or kind.of == "time":
                    _fill_message(target.add(), kind.of, one)
                else:
                    target.append(_protobuf_leaf(kind.of, one))
        elif isinstance(kind, MapOf):
            for key, one in value.items():
                if isinstance(kind.of, Record) or kind.of == "time":
                    _fill_message(target[key], kind.of, one)
                else:
                    target[key] = _protobuf_leaf(kind.of, one)
        elif isinstance(kind, Record) or kind == "time":
            _fill_message(target, kind, value)
        else:
            setattr(message, name, _protobuf_leaf(kind, value))


def _fill_message(message: Any, kind: Any, value: Any) -> None:
    message.SetInParent()
    if isinstance(kind, Record):
        fill(message, kind, value)
    else:
        micros = (value - EPOCH) // timedelta(microseconds=1)
        message.seconds, message.nanos = micros // 10**6, micros % 10**6 * 1_000


def _protobuf_leaf(kind: str, value: Any) -> Any:
    return COLOURS.index(value) if kind == "colour" else value


def json_schema(kind: Any) -> Any:
    if isinstance(kind, Record):
        return {"type": "object", "properties": {one.name: json_schema(one.type) for one in kind.fields}}
    if isinstance(kind, ListOf):
        return {"type": "array", "items": json_schema(kind.of)}
    if isinstance(kind, MapOf):
        return {"type": "object", "additionalProperties": json_schema(kind.of)}
    return {
        "long": {"type": "integer"},
        "double": {"type": "number"},
        "bool": {"type": "boolean"},
        "text": {"type": "string"},
        "time": {"type": "string", "format": "date-time"},
        "colour": {"enum": list(COLOURS)},
    }[kind]


def json_value(kind: Any, value: Any) -> Any:
    """A value as the json module takes it; what is absent is left out."""
    if isinstance(kind, Record):
        return {name: json_value(of, value[name]) for name, of, _ in kind.fields if value[name] is not None}
    if isinstance(kind, ListOf):
        return [json_value(kind.of, one) for one in value]
    if isinstance(kind, MapOf):
        return {key: json_value(kind.of, one) for key, one in value.items()}
    return value.isoformat().replace("+00:00", "Z") if kind == "time" else value


def json_body(record: Record, row: Mapping[str, Any]) -> bytes:
    return json.dumps(json_value(record, row)).encode()


def _arrow(kind: Any) -> pa.DataType:
    if isinstance(kind, Record):
        return pa.struct([(one.name, _arrow(one.type)) for one in kind.fields])
    if isinstance(kind, ListOf):
        return list_of(_arrow(kind.of))
    if isinstance(kind, MapOf):
        return pa.map_(pa.string(), _arrow(kind.of))
    time = pa.timestamp("us", "UTC")
    return {"long": pa.int64(), "double": pa.float64(), "bool": pa.bool_(), "time": time}.get(
        kind, pa.string()
    )


def pipe_body(record: Record, row: Mapping[str, Any]) -> bytes:
    return "|".join(row[one.name] for one in record.fields).encode()


def schema_of(format_: str, record: Record) -> tuple[Schema, RecordPath]:
    """The schema of a record type, as a registry holds it, and which of the schema's record types it is."""
    if format_ == "avro":
        return Schema(7, "AVRO", json.dumps(avro_schema(record))), ()
    if format_ == "protobuf":
        return Schema(7, "PROTOBUF", protobuf_text(record)), (0,)
    if format_ == "json":
        return Schema(
            7, "STRUCT", struct_json(pa.schema([(one.name, _arrow(one.type)) for one in record.fields]))
        ), ()
    required = {"required": [one.name for one in record.fields]} if format_ == "pipe" else {}
    return Schema(7, "JSON", json.dumps({**json_schema(record), **required})), ()


BODY = {
    "avro": avro_body,
    "json": json_body,
    "jsonschema": json_body,
    "pipe": pipe_body,
    "protobuf": protobuf_body,
}


def plain(kind: Any, value: Any) -> Any:
    """A decoded value as the record had it: maps as dicts."""
    if value is None:
        return None
    if isinstance(kind, Record):
        return {name: plain(of, value[name]) for name, of, _ in kind.fields}
    if isinstance(kind, ListOf):
        return [plain(kind.of, one) for one in value]
    if isinstance(kind, MapOf):
        assert len(dict(value)) == len(value)
        return {key: plain(kind.of, one) for key, one in value}
    return value


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "bool": st.booleans(),
    "text": _TEXT,
    "time": st.datetimes(
        datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59), timezones=st.just(timezone.utc)
    ),
    "colour": st.sampled_from(COLOURS),
}


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type; a record's are rows."""
    if isinstance(kind, Record):
        return st.fixed_dictionaries(
            {
                one.name: st.none() | values(one.type) if one.optional else values(one.type)
                for one in kind.fields
            }
        )
    if isinstance(kind, ListOf):
        return st.lists(values(kind.of), max_size=3)
    return st.dictionaries(_TEXT, values(kind.of), max_size=3) if isinstance(kind, MapOf) else _VALUES[kind]


@st.composite
def records(draw: st.DrawFn, depth: int = 0) -> Record:
    """Record types of a few fields, nested a little."""
    return Record(tuple(draw(_field(f"c{number}", depth)) for number in range(draw(st.integers(1, 4)))))


@st.composite
def _field(draw: st.DrawFn, name: str, depth: int) -> Field:
    inner = draw(st.sampled_from(LEAVES) if depth > 1 else st.sampled_from(LEAVES) | records(depth + 1))
    many = draw(st.sampled_from([None, None, ListOf, MapOf]))
    return Field(name, inner, draw(st.booleans())) if many is None else Field(name, many(inner))


def lines() -> st.SearchStrategy[Record]:
    """Record types of texts alone: all that the format of the docs' own codec has."""
    return st.integers(1, 3).map(lambda count: Record(tuple(Field(f"c{n}", "text") for n in range(count))))


@st.composite
def samples(draw: st.DrawFn, format_: str) -> tuple[Record, list[dict[str, Any]]]:
    """A record type that the format can express, and some records of it."""
    record = draw(lines() if format_ == "pipe" else records())
    rows = draw(st.lists(values(record), min_size=1, max_size=12))
    if format_ == "pipe":
        rows = [{name: text.replace("|", "/") for name, text in row.items()} for row in rows]
    return record, rows
