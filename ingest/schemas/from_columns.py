"""Schemas of sources that say themselves what their records are made of, as tables do: kept where those are that are inferred."""

from __future__ import annotations

import json

from distributary.codecs.base import load_codec
from distributary.errors import SchemaNotFound
from distributary.ingest.schemas.hints import with_hints
from distributary.ingest.settings.groups import Decode
from distributary.registry.base import Schema, SchemaRegistry


def take_columns(registry: SchemaRegistry, subject: str, decode: Decode, told: str) -> bool:
    """Have the newest version take these columns as well, a StructType's JSON; whether that makes another one. Raises BadSchema."""
    latest, growing = _newest(registry, subject), load_codec(decode.codec).capabilities.growing
    new = Schema(0, "STRUCT", with_hints(told, decode.schema_hints))
    if latest is not None and growing is not None:
        new = growing.merged([latest, new])
    if latest is not None and json.loads(latest.text) == json.loads(new.text):
        return False
    registry.register(subject, new.text, "STRUCT")
    return True


def _newest(registry: SchemaRegistry, subject: str) -> Schema | None:
    try:
        return registry.by_ref(registry.versions(subject)[-1].id)
    except SchemaNotFound:
        return None
