"""Debezium's envelopes in the formats that schemas are registered for, as Kafka Connect's converters make them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import fastavro
from google.protobuf.json_format import ParseDict
from tests.codecs.protobuf_samples import message_class
from tests.debezium import SOURCES, Row

from distributary.codecs.base import RecordPath
from distributary.registry.base import Schema, SchemaType

# The columns of rows; what may be null is, as a database's columns are.
COLUMNS: Mapping[str, str] = {"id": "long", "name": "string", "score": "long"}

_PROTO = {"long": "int64", "string": "string"}
_JSON = {"long": "integer", "string": "string"}


def _type_of(value: Any) -> str:
    return "long" if isinstance(value, int) else "string"


def _nullable(type_: Any) -> list[Any]:
    return ["null", type_]


def _avro(source: Row, columns: Mapping[str, str]) -> str:
    fields = [
        {"name": name, "type": type_}
        if name == "id"
        else {"name": name, "type": _nullable(type_), "default": None}
        for name, type_ in columns.items()
    ]
    value = {"type": "record", "name": "Value", "fields": fields}
    told = [{"name": name, "type": _nullable(_type_of(one))} for name, one in source.items()]
    envelope = {
        "type": "record",
        "name": "Envelope",
        "namespace": "server.shop.customers",
        "fields": [
            {"name": "before", "type": _nullable(value), "default": None},
            {"name": "after", "type": _nullable("Value"), "default": None},
            {"name": "source", "type": {"type": "record", "name": "Source", "fields": told}},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": _nullable("long"), "default": None},
        ],
    }
    return json.dumps(envelope)


def _jsonschema(source: Row, columns: Mapping[str, str]) -> str:
    def nullable(type_: Mapping[str, Any]) -> dict[str, Any]:
        return {"oneOf": [{"type": "null"}, type_]}

    rows = {
        name: {"type": _JSON[type_]} if name == "id" else nullable({"type": _JSON[type_]})
        for name, type_ in columns.items()
    }
    # Closed, so that a registry takes another field for a compatible change.
    value = {
        "type": "object",
        "title": "server.shop.customers.Value",
        "properties": rows,
        "additionalProperties": False,
    }
    told = {name: nullable({"type": _JSON[_type_of(one)]}) for name, one in source.items()}
    envelope = {
        "type": "object",
        "title": "server.shop.customers.Envelope",
        "properties": {
            "before": nullable(value),
            "after": nullable(value),
            "source": {"type": "object", "title": "Source", "properties": told},
            "op": {"type": "string"},
            "ts_ms": nullable({"type": "integer"}),
            "transaction": nullable({"type": "object", "properties": {"id": {"type": "string"}}}),
        },
    }
    return json.dumps(envelope)


def _protobuf(source: Row, columns: Mapping[str, str]) -> str:
    rows = "\n".join(
        f"    optional {_PROTO[type_]} {name} = {n};" for n, (name, type_) in enumerate(columns.items(), 1)
    )
    told = "\n".join(
        f"    optional {_PROTO[_type_of(one)]} {name} = {n};"
        for n, (name, one) in enumerate(source.items(), 1)
    )
    return f"""syntax = "proto3";
package server.shop.customers;
message Envelope {{
  message Value {{
{rows}
  }}
  message Source {{
{told}
  }}
  Value before = 1;
  Value after = 2;
  Source source = 3;
  optional string op = 4;
  optional int64 ts_ms = 5;
}}
"""


def _avro_body(schema: str, value: Row) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), value)
    return out.getvalue()


def _protobuf_body(schema: str, value: Row) -> bytes:
    there = {name: one for name, one in value.items() if one is not None and name != "transaction"}
    for name in ("before", "after", "source"):
        if name in there:
            there[name] = {key: one for key, one in there[name].items() if one is not None}
    made = ParseDict(there, message_class(schema, "server.shop.customers.Envelope")())
    return bytes(made.SerializeToString())


@dataclass(frozen=True)
class Format:
    """How a format has envelopes: the text of a schema for a `source` and columns, and the body of a value."""

    type: SchemaType
    path: RecordPath
    text: Callable[[Row, Mapping[str, str]], str]
    body: Callable[[str, Row], bytes]

    def schema(self, connector: str, columns: Mapping[str, str] = COLUMNS, id_: int = 1) -> Schema:
        """The schema of a connector's envelopes around rows of these columns."""
        return Schema(id_, self.type, self.text(SOURCES[connector](1, "customers"), columns))


FORMATS: Mapping[str, Format] = {
    "avro": Format("AVRO", (), _avro, _avro_body),
    "jsonschema": Format("JSON", (), _jsonschema, lambda _, value: json.dumps(value).encode()),
    "protobuf": Format("PROTOBUF", (0,), _protobuf, _protobuf_body),
}
