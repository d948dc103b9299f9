"""Columns that a table's rows lie near each other by: which may be, and what a table has of those that are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa
import pyarrow.types as kinds

from distributary.ingest.columns.layout import source_of
from distributary.ingest.columns.single_values import value_path

Path: TypeAlias = tuple[str, ...]
"""The names of the columns that lead to one, from a table's own down."""

MOST = 4
"""As many columns as Delta's own writer takes: https://docs.delta.io/latest/delta-clustering.html"""

TYPES = "strings, numbers, dates and times"
"""What may be, as users read it."""


def takes(dtype: pa.DataType) -> bool:
    """Whether a table can be clustered by a column of this type: whether its files' statistics say between what its values lie."""
    return bool(
        kinds.is_string(dtype)
        or kinds.is_signed_integer(dtype)
        or kinds.is_floating(dtype)
        or kinds.is_decimal128(dtype)
        or kinds.is_date32(dtype)
        or kinds.is_timestamp(dtype)
    )


@dataclass(frozen=True, slots=True)
class ClusterBy:
    """What a table is to be clustered by; by nothing where there are no fields.

    fields   of its records, dotted where they are nested, or columns that no record has
    own      those that no record has, such as Kafka's offset, by their columns' names
    setting  which says so
    """

    fields: tuple[str, ...] = ()
    own: frozenset[str] = frozenset()
    setting: str = field(default="", compare=False)

    def paths(self, columns: pa.Schema) -> tuple[Path, ...]:
        """The columns of a table with these; fields that it does not have, or has as something that may not be one, are left out."""
        found = (self._path(name, columns) for name in self.fields)
        return tuple(path for path in found if path is not None)

    def lacking(self, schemas: Sequence[pa.Schema]) -> tuple[str, ...]:
        """Fields that no table can be clustered by, as they are in no schema, or as nothing that may be one in any."""
        return tuple(
            name
            for name in self.fields
            if name not in self.own
            and schemas
            and all(self._path(name, columns) is None for columns in schemas)
        )

    def _path(self, name: str, columns: pa.Schema) -> Path | None:
        path = (name,) if name in self.own else value_path(columns, name)
        dtype = None if path is None else type_at(columns, path)
        return path if dtype is not None and takes(dtype) else None


def type_at(columns: pa.Schema, path: Path) -> pa.DataType | None:
    """The type of the column at a path; None where there is none."""
    found = list(_at(columns, path))
    return found[-1].type if len(found) == len(path) else None


def source_at(columns: pa.Schema, path: Path) -> str | None:
    """A column by the payload's names, dotted; None where there is none."""
    found = list(_at(columns, path))
    return ".".join(map(source_of, found)) if len(found) == len(path) else None


def sources(columns: pa.Schema, paths: Iterable[Path]) -> tuple[str, ...]:
    """Columns by the payload's names, dotted, without those that are not there."""
    return tuple(name for path in paths if (name := source_at(columns, path)) is not None)


def spelled(paths: Iterable[Path]) -> str | None:
    """Columns as people read them; None for none."""
    return ", ".join(map(".".join, paths)) or None


def _at(columns: pa.Schema, path: Path) -> Iterator[pa.Field]:
    fields = list(columns)
    for name in path:
        found = next((one for one in fields if one.name == name), None)
        if found is None:
            return
        yield found
        fields = list(found.type) if kinds.is_struct(found.type) else []
