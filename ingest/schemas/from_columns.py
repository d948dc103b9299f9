"""Schemas of sources that say themselves what their records are made of, as tables do: kept where those are that are inferred."""

from __future__ import annotations

import json
from dataclasses import dataclass

from pyspark.sql.types import StructType

from distributary.codecs.base import load_codec
from distributary.errors import SchemaNotFound
from distributary.ingest.schemas.hints import hinted, with_hints
from distributary.ingest.settings.groups import Decode
from distributary.registry.base import Schema, SchemaRegistry


@dataclass(frozen=True, slots=True)
class Brought:
    """The next version of a schema, which takes what a source says that its records are made of; nothing keeps it yet.

    text     a StructType's JSON
    columns  those that the version before has not, or not so
    first    whether there was none before
    """

    text: str
    columns: tuple[str, ...]
    first: bool


def brought(
    registry: SchemaRegistry, subject: str, decode: Decode, told: str, hints: StructType | None = None
) -> Brought | None:
    """What these columns, a StructType's JSON, make of the newest version; None where it takes them. Raises BadSchema.

    hints  the settings', where they are read already
    """
    latest, growing = _newest(registry, subject), load_codec(decode.codec).capabilities.growing
    if hints is None:
        new = Schema(0, "STRUCT", with_hints(told, decode.schema_hints))
    else:
        new = Schema(0, "STRUCT", hinted(StructType.fromJson(json.loads(told)), hints).json())
    if latest is not None and growing is not None:
        new = growing.merged([latest, new])
    before, after = _fields(latest), _fields(new)
    if latest is not None and before == after:
        return None
    return Brought(new.text, tuple(name for name, of in after if (name, of) not in before), latest is None)


def take_columns(registry: SchemaRegistry, subject: str, decode: Decode, told: str) -> bool:
    """Have the newest version take these columns as well; whether that makes another one. Raises BadSchema.

    Where `decode.evolution` lets none come, that is for who knows whether there are tables: only a first version is made then.
    """
    found = brought(registry, subject, decode, told)
    if found is None or (decode.evolution == "fail" and not found.first):
        return False
    keep(registry, subject, found)
    return True


def keep(registry: SchemaRegistry, subject: str, found: Brought) -> None:
    """Keep the next version."""
    registry.register(subject, found.text, "STRUCT")


def _fields(schema: Schema | None) -> list[tuple[str, str]]:
    fields = [] if schema is None else json.loads(schema.text)["fields"]
    return [(one["name"], json.dumps(one, sort_keys=True)) for one in fields]


def _newest(registry: SchemaRegistry, subject: str) -> Schema | None:
    try:
        return registry.by_ref(registry.versions(subject)[-1].id)
    except SchemaNotFound:
        return None
