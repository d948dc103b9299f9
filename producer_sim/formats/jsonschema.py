"""Events as JSON in Confluent's wire format: their JSON Schema, how they are encoded, and how they are corrupted.

The schema has the same fields as the Protobuf schema, in the words of draft 7
(https://json-schema.org/draft-07/json-schema-validation).
Objects are closed (`additionalProperties: false`): only then may a later version add an optional property and
still be backward compatible, since an open one might have had the name with any type before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from distributary.producer_sim.events.model import (
    ARROW_TYPES,
    TIMESTAMP,
    EventSchema,
    Field,
    typed_column,
)
from distributary.producer_sim.formats.base import Corruption, InWireFormat, full_name
from distributary.producer_sim.formats.corruption import HEADER_CORRUPTIONS
from distributary.producer_sim.formats.json import TEXT_CORRUPTIONS, JsonEncoder, as_json
from distributary.producer_sim.formats.json import TYPES as JSON_TYPES
from distributary.registry.base import SchemaType

DRAFT = "http://json-schema.org/draft-07/schema#"

SCALARS: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "contentEncoding": "base64"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer"},
    "int64": {"type": "integer"},
    "uint32": {"type": "integer", "minimum": 0},
    "float": {"type": "number"},
    "double": {"type": "number"},
    TIMESTAMP: {"type": "string", "format": "date-time"},
}


def reference(part: str) -> str:
    """By which name a part is referred to."""
    return f"{full_name(part)}.json"


def _document(name: str, schema: EventSchema, imported: bool = False) -> dict[str, Any]:
    """The schema of the record or of one of its parts; with `imported` other parts are referred to."""
    return {"$schema": DRAFT, "title": name, **_object(name, schema, imported)}


def _object(name: str, schema: EventSchema, imported: bool = False) -> dict[str, Any]:
    fields = schema.messages[name]
    return {
        "type": "object",
        "properties": {field.name: _type(field, schema, imported) for field in fields},
        "required": [field.name for field in fields if _is_required(field, schema)],
        "additionalProperties": False,
    }


def _is_required(field: Field, schema: EventSchema) -> bool:
    """What came later is optional, and so is a message: JSON has it or leaves it out."""
    if field.label in ("required", "optional"):
        return field.label == "required"
    return field.since == 1 and field.type not in schema.messages


def _type(field: Field, schema: EventSchema, imported: bool) -> dict[str, Any]:
    if field.is_map:
        return {
            "type": "object",
            "additionalProperties": _single_type(field.value_type, schema, imported),
        }
    found = _single_type(field.type, schema, imported)
    return {"type": "array", "items": found} if field.label == "repeated" else found


def _single_type(name: str, schema: EventSchema, imported: bool) -> dict[str, Any]:
    if name in schema.messages:
        return {"$ref": reference(name) if imported else f"#/definitions/{name}"}
    if name in schema.enums:
        return {"type": "string", "enum": list(schema.enums[name])}
    return SCALARS[name]


# What JSON Schema can tell of besides maps: timestamps.
TYPES: Mapping[str, pa.DataType] = {**JSON_TYPES, TIMESTAMP: ARROW_TYPES[TIMESTAMP]}


class JsonSchemaFormat(InWireFormat):
    """The header and an object."""

    schema_type: SchemaType | None = "JSON"
    types: Mapping[str, pa.DataType] = TYPES
    corruptions: Mapping[str, Corruption] = {**HEADER_CORRUPTIONS, **TEXT_CORRUPTIONS}

    def record_name(self, schema: EventSchema) -> str:
        """The schema's title."""
        return schema.record

    def schema_text(self, schema: EventSchema, imported: bool = False) -> str:
        """The JSON Schema of these events."""
        document = _document(schema.record, schema, imported)
        if not imported:
            document["definitions"] = {name: _object(name, schema) for name in schema.parts}
        return json.dumps(document)

    def part_text(self, part: str, schema: EventSchema) -> str:
        """The JSON Schema of one object inside."""
        return json.dumps(_document(part, schema))

    def import_name(self, part: str) -> str:
        """What `$ref` says."""
        return reference(part)

    def encoder(self, schema: EventSchema) -> JsonSchemaEncoder:
        """The writer of a schema's events."""
        return JsonSchemaEncoder(schema)


class JsonSchemaEncoder(JsonEncoder):
    """Plain JSON's writer, whose columns have the types that the schema tells; what is null is always left out."""

    def __init__(self, schema: EventSchema) -> None:
        super().__init__(schema, writes_nulls=False)
        self._schema = schema

    def column(self, field: Field, values: Sequence[Any]) -> pa.Array:
        """The values in a column of the field's type, and last a null."""
        spoken = [as_json(value) if isinstance(value, bytes) else value for value in values]
        return typed_column(field, spoken, self._schema, TYPES)
