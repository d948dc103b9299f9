"""Records of Avro schemas made by hand, as a producer sends them."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_writer

from distributary.ingest.pins import PinnedRecord
from distributary.producer_sim.formats.corruption import HEADER
from distributary.registry.base import Schema

GAME = {"name": "game", "type": "string"}


def event(schema_id: int, *fields: dict[str, Any], **named: Any) -> Schema:
    """A record type with these fields, `games.Event` unless it is named otherwise."""
    text = {"type": "record", "namespace": "games", "name": "Event", "fields": list(fields), **named}
    return Schema(schema_id, "AVRO", json.dumps(text))


def one(of: Any, name: str = "x", **more: Any) -> dict[str, Any]:
    """A field."""
    return {"name": name, "type": of, **more}


def sent_as(schema: Schema, **fields: Any) -> bytes:
    """A record as it goes on the wire."""
    body = BytesIO()
    schemaless_writer(body, parse_schema(json.loads(schema.text)), fields)
    return HEADER.pack(0, schema.id) + body.getvalue()


def pinned(*schemas: Schema) -> tuple[PinnedRecord, ...]:
    """These schemas as the driver knows them."""
    return tuple(PinnedRecord((schema.id, ()), schema) for schema in schemas)
