"""The JSON Schema of a game event: the same fields as the Protobuf schema, in the words of draft 7.

Objects are closed (`additionalProperties: false`): only then may a later version add an optional property and
still be backward compatible, since an open one might have had the name with any type before.
"""

from __future__ import annotations

import json
from typing import Any

from distributary.producer_sim.versions import TIMESTAMP, EventSchema, Field

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


def json_schema_text(schema: EventSchema) -> str:
    """The schema's text; the same for the same schema, always."""
    record = schema.record
    definitions = {name: _object(name, schema) for name in schema.messages if name != record}
    document = {"$schema": DRAFT, "title": record, **_object(record, schema), "definitions": definitions}
    return json.dumps(document)


def _object(name: str, schema: EventSchema) -> dict[str, Any]:
    fields = schema.messages[name]
    return {
        "type": "object",
        "properties": {field.name: _type(field, schema) for field in fields},
        # What came later is optional, and so is a message: JSON has it or leaves it out.
        "required": [
            field.name for field in fields if field.since == 1 and field.type not in schema.messages
        ],
        "additionalProperties": False,
    }


def _type(field: Field, schema: EventSchema) -> dict[str, Any]:
    if field.is_map:
        return {"type": "object", "additionalProperties": SCALARS[field.value_type]}
    found = _single_type(field.type, schema)
    return {"type": "array", "items": found} if field.label == "repeated" else found


def _single_type(name: str, schema: EventSchema) -> dict[str, Any]:
    if name in schema.messages:
        return {"$ref": f"#/definitions/{name}"}
    if name in schema.enums:
        return {"type": "string", "enum": list(schema.enums[name])}
    return SCALARS[name]
