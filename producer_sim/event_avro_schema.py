"""The Avro schema of a game event: the same fields as the Protobuf schema, in Avro's words.

Whatever came after version 1 is nullable with null as its default, as additions to Avro schemas mostly are: each
version can read the one before it, and what an old event lacks is null by whichever schema it is read. A oneof
is one nullable field a member, of which at most one is not null: the columns are then those of the others.
"""

from __future__ import annotations

import json
from typing import Any

from distributary.producer_sim.event_model import PACKAGE, TIMESTAMP, EventSchema, Field

SCALARS: dict[str, Any] = {
    "string": "string",
    "bytes": "bytes",
    "bool": "boolean",
    "int32": "int",
    "int64": "long",
    "uint32": "long",  # Avro has no unsigned types
    "float": "float",
    "double": "double",
    TIMESTAMP: {"type": "long", "logicalType": "timestamp-micros"},
}


def avro_schema(schema: EventSchema, imported: bool = False) -> dict[str, Any]:
    """The record, as JSON has it; with `imported` its parts are named only."""
    aliases = {"aliases": list(schema.former)} if schema.former else {}
    return {**_record(schema.record, schema, imported), "namespace": PACKAGE, **aliases}


def avro_text(schema: EventSchema, imported: bool = False) -> str:
    """The schema's text; the same for the same schema, always."""
    return json.dumps(avro_schema(schema, imported))


def part_text(part: str, schema: EventSchema) -> str:
    """The text of a schema of one of the record's parts alone."""
    return json.dumps({**_record(part, schema), "namespace": PACKAGE})


def full_name(part: str) -> str:
    """By which name a part is referred to."""
    return f"{PACKAGE}.{part}"


def _is_nullable(field: Field, schema: EventSchema) -> bool:
    if field.label == "required":
        return False
    may_be_absent = field.label == "optional" or bool(field.oneof) or field.type in schema.messages
    return field.since > 1 or (may_be_absent and field.label != "repeated")


def _record(name: str, schema: EventSchema, imported: bool = False) -> dict[str, Any]:
    fields = [_field(field, schema, imported) for field in schema.messages[name]]
    return {"type": "record", "name": name, "fields": fields}


def _field(field: Field, schema: EventSchema, imported: bool) -> dict[str, Any]:
    kind = _type(field, schema, imported)
    aliases = {"aliases": [field.alias]} if field.alias else {}
    if _is_nullable(field, schema):
        return {"name": field.name, "type": ["null", kind], "default": None, **aliases}
    return {"name": field.name, "type": kind, **aliases}


def _type(field: Field, schema: EventSchema, imported: bool) -> Any:
    if field.is_map:
        return {"type": "map", "values": _single_type(field.value_type, schema, imported)}
    found = _single_type(field.type, schema, imported)
    return {"type": "array", "items": found} if field.label == "repeated" else found


def _single_type(name: str, schema: EventSchema, imported: bool) -> Any:
    """Each message and each enum has one field of its type, so it is defined right there, unless it is imported."""
    if name in schema.messages:
        return full_name(name) if imported else _record(name, schema)
    if name in schema.enums:
        symbols = schema.enums[name]
        return {"type": "enum", "name": name, "symbols": list(symbols), "default": symbols[0]}
    return SCALARS[name]
