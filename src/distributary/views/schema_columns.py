"""The columns that a schema gives, and changes from one schema to the next as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from distributary.errors import BadSchema

if TYPE_CHECKING:
    import pyarrow as pa

    from distributary.codecs.changes_between import Changes
    from distributary.registry.base import Schema


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of the record type that a schema is taken to be about: name and type in Spark's spelling, in their order.

    `why_none` says why there are none, such as a schema that no codec here reads.
    """

    record: str | None
    types: tuple[tuple[str, str], ...] = ()
    why_none: str | None = None


def columns_of(schema: Schema) -> Columns:
    """The columns of a schema, as a table has them."""
    from distributary.codecs.base import load_codec
    from distributary.codecs.changes_between import ANY_CODEC

    try:
        reader = load_codec(ANY_CODEC).reader(schema, ())
        return Columns(reader.name, _of_table(reader.schema))
    except BadSchema as error:
        return Columns(None, why_none=str(error))


def as_list(changes: Changes) -> list[dict[str, str]] | None:
    """Changes as plain JSON values."""
    if changes.told is None:
        return None
    return [
        {"class": one.kind, "column": one.column, "before": one.before, "after": one.after}
        for one in changes.told
    ]


def _of_table(payload: pa.Schema) -> tuple[tuple[str, str], ...]:
    import pyarrow as pa

    from distributary.codecs.types.spark_struct import type_name
    from distributary.ingest.columns.growth import extend

    table = extend(pa.schema([]), payload, frozenset())
    return tuple((column.name, type_name(column.type)) for column in table)
