"""Whether a routing expression goes with records of some columns, found out before there is any record."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from distributary.errors import ConfigError
from distributary.ingest.expression_tree import Node, evaluate


@dataclass(frozen=True, slots=True)
class ReadExpression:
    """A routing expression that Spark's parser has read.

    tree    what workers evaluate; None where Spark evaluates it
    fields  the paths of the fields that it names
    """

    tree: Node | None
    fields: tuple[tuple[str, ...], ...]

    def refusal(self, columns: pa.Schema) -> str | None:
        """What stops a run that meets records with these columns; None where they go with it, as far as is known."""
        if self.tree is None:
            return None
        arrays = [pa.nulls(0, field.type) for field in columns]
        try:
            # Types alone decide about that, so that no row is needed.
            evaluate(self.tree, pa.RecordBatch.from_arrays(arrays, schema=columns))
        except ConfigError as error:
            return str(error)
        return None

    def lacked_by(self, columns: pa.Schema) -> list[tuple[str, ...]]:
        """The fields that records with these columns do not have, so that they are null."""
        return [path for path in self.fields if not has_field(columns, path)]


def has_field(columns: pa.Schema, path: tuple[str, ...]) -> bool:
    """Whether an expression's field is there, whatever its case; what is within a map or a list counts as there."""
    return _has(pa.struct(list(columns)), path)


def _has(dtype: pa.DataType, path: tuple[str, ...]) -> bool:
    if not path or not pa.types.is_struct(dtype):
        return True
    inner = [field.type for field in dtype if field.name.lower() == path[0].lower()]
    return bool(inner) and _has(inner[0], path[1:])
