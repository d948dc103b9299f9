"""Schemas written briefly, and described by the codec for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from distributary.codecs.base import RecordPath, load_codec
from distributary.codecs.changes.description import RecordDescription
from distributary.codecs.types.spark_struct import struct_json
from distributary.registry.base import Schema

# What is told of the changes between two: the class, the column, what was there and what is there now.
Told = Sequence[tuple[str, str, str, str]]


def protobuf(text: str, path: RecordPath = (0,), syntax: str = "proto3") -> RecordDescription:
    schema = Schema(1, "PROTOBUF", f'syntax = "{syntax}"; package p; {text}')
    return load_codec("protobuf").description(schema, path)


def message(fields: str, name: str = "E") -> RecordDescription:
    """A proto3 message; its enum is `Colour`, its inner message `In`, unless `fields` say otherwise."""
    return protobuf(f"message {name} {{ {fields} }}")


def avro(spec: Any) -> RecordDescription:
    return load_codec("avro").description(Schema(1, "AVRO", json.dumps(spec)), ())


def avro_record(*fields: Any, **more: Any) -> RecordDescription:
    return avro(record(*fields, **more))


def record(*fields: Any, name: str = "E", **more: Any) -> dict[str, Any]:
    """An Avro record of fields given as (name, type) or (name, type, more of the field)."""
    written = [
        {"name": field[0], "type": field[1], **(field[2] if len(field) > 2 else {})} for field in fields
    ]
    return {"type": "record", "name": name, "fields": written, **more}


def json_schema(properties: dict[str, Any], **more: Any) -> RecordDescription:
    text = json.dumps({"type": "object", "properties": properties, **more})
    return load_codec("jsonschema").description(Schema(1, "JSON", text), ())


def inferred(**columns: pa.DataType) -> RecordDescription:
    text = struct_json(pa.schema(list(columns.items())))
    return load_codec("json").description(Schema(1, "STRUCT", text), ())
