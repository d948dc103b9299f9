"""The columns that a schema gives, and what became of its records from one schema to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from distributary.errors import BadSchema

if TYPE_CHECKING:
    import pyarrow as pa

    from distributary.codecs.base import Codec
    from distributary.codecs.changes.classify import SchemaChange
    from distributary.registry.base import Schema

# Whatever a registry holds, by the codec of its type.
_CODEC = "auto"


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of the record type that a schema is taken to be about: name and type in Spark's spelling, in their order.

    `why_none` says why there are none, such as a schema that no codec here reads.
    """

    record: str | None
    types: tuple[tuple[str, str], ...] = ()
    why_none: str | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """What became of a record type; `told` is None where that is not known, and `why_none` says why."""

    told: tuple[SchemaChange, ...] | None
    why_none: str | None = None

    def as_list(self) -> list[dict[str, str]] | None:
        """The same as plain JSON values."""
        if self.told is None:
            return None
        return [
            {"class": one.kind, "column": one.column, "before": one.before, "after": one.after}
            for one in self.told
        ]


def columns_of(schema: Schema) -> Columns:
    """The columns of a schema, as a table has them."""
    from distributary.codecs.base import load_codec

    try:
        reader = load_codec(_CODEC).reader(schema, ())
        return Columns(reader.name, _of_table(reader.schema))
    except BadSchema as error:
        return Columns(None, why_none=str(error))


def changes_between(before: Schema | None, after: Schema, codec: Codec | None = None) -> Changes:
    """What one schema says of its records otherwise than another; nothing of the first schema of all.

    `codec` is the one for both where a registry does not tell.
    """
    from distributary.codecs.base import describe, load_codec
    from distributary.codecs.changes.classify import classify

    codec = load_codec(_CODEC) if codec is None else codec
    try:
        new = describe(codec, after, codec.default_path)
        old = new if before is None else describe(codec, before, codec.default_path)
    except BadSchema as error:
        return Changes(None, str(error))
    return Changes(tuple(classify(old, new)))


def _of_table(payload: pa.Schema) -> tuple[tuple[str, str], ...]:
    import pyarrow as pa

    from distributary.codecs.types.struct_type import type_name
    from distributary.ingest.columns.growth import extend

    table = extend(pa.schema([]), payload, frozenset())
    return tuple((column.name, type_name(column.type)) for column in table)
