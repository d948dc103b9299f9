"""The columns that a registered schema gives, by our own codecs, and how those of two schemas differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from distributary.errors import BadSchema, UnknownCodec

if TYPE_CHECKING:
    import pyarrow as pa

    from distributary.codecs.base import RecordPath
    from distributary.registry.base import Schema

# The codec for each of the registry's schema types.
_CODECS = {"AVRO": "avro", "JSON": "jsonschema", "PROTOBUF": "protobuf"}


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of one record type, nested ones too: dotted path and type in Spark's spelling, in their order.

    Paths are as in Spark's ALTER TABLE: a list's elements are `element`, a map's `key` and `value`. `why_none` says why
    there are no columns, such as a format that no codec here reads.
    """

    record: str | None
    types: Mapping[str, str] = field(default_factory=dict)
    top: tuple[str, ...] = ()
    why_none: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """What one schema's columns have and another's have not. A struct that is new is one change, as one that is gone."""

    added: tuple[tuple[str, str], ...]
    removed: tuple[tuple[str, str], ...]
    changed: tuple[tuple[str, str, str], ...]

    def as_dict(self) -> dict[str, object]:
        """The same as plain JSON values."""
        return {
            "added": [{"column": column, "type": kind} for column, kind in self.added],
            "removed": [{"column": column, "type": kind} for column, kind in self.removed],
            "changed": [{"column": column, "from": old, "to": new} for column, old, new in self.changed],
        }

    def lines(self) -> list[str]:
        """One line a change."""
        return [
            *(f"+ {column} {kind}" for column, kind in self.added),
            *(f"- {column} {kind}" for column, kind in self.removed),
            *(f"~ {column} {old} -> {new}" for column, old, new in self.changed),
        ]


def columns_of(schema: Schema, path: RecordPath | None = None) -> Columns:
    """The columns of a schema's record type; by default of the one its codec takes it to be about."""
    from distributary.codecs.base import load_codec

    try:
        codec = load_codec(_CODECS[schema.type])
        reader = codec.reader(schema, codec.default_path if path is None else path)
        return _of_table(reader.name, reader.schema)
    except (UnknownCodec, BadSchema) as error:
        return Columns(None, why_none=str(error))


def compare(before: Columns, after: Columns) -> ColumnChanges | None:
    """What became of the columns; None where either schema gives none that are known."""
    if before.why_none is not None or after.why_none is not None:
        return None
    old, new = before.types, after.types
    changed = [(path, old[path], new[path]) for path in old if path in new and old[path] != new[path]]
    return ColumnChanges(
        tuple(_outermost(new, old)),
        tuple(_outermost(old, new)),
        # A struct's type names its children: where one of them says what changed, the struct need not.
        tuple(one for one in changed if not _is_told_by_children(one[0], old, new)),
    )


def _of_table(record: str, payload: pa.Schema) -> Columns:
    import pyarrow as pa

    from distributary.ingest.layout import extend

    table = extend(pa.schema([]), payload, frozenset())
    return Columns(record, dict(_paths(list(table), "")), tuple(table.names))


def _paths(fields: list[pa.Field], above: str) -> Iterator[tuple[str, str]]:
    from distributary.ingest.layout import spark_type

    for one in fields:
        path = f"{above}{one.name}"
        yield path, spark_type(one.type)
        yield from _paths(_children(one.type), f"{path}.")


def _children(of: pa.DataType) -> list[pa.Field]:
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_struct(of):
        return list(of)
    if kinds.is_map(of):
        return [pa.field("key", of.key_type), pa.field("value", of.item_type)]
    return [pa.field("element", of.value_type)] if kinds.is_list(of) else []


def _outermost(there: Mapping[str, str], elsewhere: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for path, kind in there.items():
        parent = path.rpartition(".")[0]
        if path not in elsewhere and (not parent or parent in elsewhere):
            yield path, kind


def _is_told_by_children(path: str, old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    below = f"{path}."
    same_kind = old[path].partition("<")[0] == new[path].partition("<")[0]
    return same_kind and any(name.startswith(below) for name in (*old, *new))
