"""How the Arrow schema of files and the one of a Delta table compare, nested fields included."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pat

from distributary.errors import BadSchema
from distributary.ingest.columns.widening import delta_widens

# https://github.com/delta-io/delta/blob/master/PROTOCOL.md#primitive-types, in the one Arrow spelling of each that
# Spark reads. Unsigned integers and nanoseconds commit without an error through delta-rs and then cannot be read.
_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())

_TIMES = (pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"))

_PRIMITIVES = frozenset(
    {*_INTEGERS, *_TIMES, pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.binary()}
)

_REFUSED_IN_NAMES = re.compile(r"[ ,;{}()\n\t=]")


_Difference = tuple[str, pa.DataType | None, pa.DataType]


@dataclass(frozen=True, slots=True)
class Misfit:
    """One place where files and table differ.

    path  dotted, with `element`, `key` and `value` for what lists and maps hold
    have  the table's type; None where the table has no such field
    want  the files' type
    top   the top-level column it is in, whose name may hold dots itself
    """

    path: str
    have: pa.DataType | None
    want: pa.DataType
    top: str

    def __str__(self) -> str:
        if self.have is None:
            return f"no column {self.path} ({self.want}) in the table"
        return f"column {self.path} is {self.have} in the table and {self.want} in the files"


def misfits(table: pa.Schema, wanted: pa.Schema) -> Iterator[Misfit]:
    """What of `wanted` the table lacks or holds with another type; the table may have more."""
    known = {field.name: field.type for field in table}
    for field in wanted:
        for path, have, want in _differences(known.get(field.name), field.type, field.name):
            yield Misfit(path, have, want, field.name)


def _differences(have: pa.DataType | None, want: pa.DataType, path: str) -> Iterator[_Difference]:
    if have is None:
        yield path, None, want
    elif pat.is_struct(have) and pat.is_struct(want):
        known = {field.name: field.type for field in have}
        for field in want:
            yield from _differences(known.get(field.name), field.type, f"{path}.{field.name}")
    elif pat.is_list(have) and pat.is_list(want):
        yield from _differences(have.value_type, want.value_type, f"{path}.element")
    elif pat.is_map(have) and pat.is_map(want):
        yield from _differences(have.key_type, want.key_type, f"{path}.key")
        yield from _differences(have.item_type, want.item_type, f"{path}.value")
    elif not have.equals(want):
        yield path, have, want


def only_wider(misfit: Misfit) -> bool:
    """Whether the table's type holds every value of the files' type."""
    return misfit.have is not None and delta_widens(misfit.want, misfit.have)


def retyped(files: pa.DataType, table: pa.DataType) -> pa.DataType:
    """The files' type with the table's type wherever both have a value, and the files' fields only.

    Where the table is still to become as wide as the files, theirs stays.
    """
    if pat.is_struct(files):
        known = {field.name: field.type for field in table}
        fields = [field.with_type(retyped(field.type, known.get(field.name, field.type))) for field in files]
        return pa.struct(fields)
    if pat.is_list(files):
        return pa.list_(retyped(files.value_type, table.value_type))
    if pat.is_map(files):
        return pa.map_(retyped(files.key_type, table.key_type), retyped(files.item_type, table.item_type))
    return files if delta_widens(table, files) else table


def storable(schema: pa.Schema) -> pa.Schema:
    """`schema` with every field nullable (map keys cannot be).

    Raises BadSchema for a name or a type that Delta cannot store or Spark cannot read.
    """
    return pa.schema([_storable_field(field, field.name) for field in schema])


def _storable_field(field: pa.Field, path: str) -> pa.Field:
    if not field.name or _REFUSED_IN_NAMES.search(field.name):
        raise BadSchema(
            f"column {path!r} cannot be stored: its name is empty or holds one of ' ,;{{}}()\\n\\t='"
        )
    return pa.field(field.name, _storable_type(field.type, path), nullable=True, metadata=field.metadata)


def _storable_type(dtype: pa.DataType, path: str) -> pa.DataType:
    if pat.is_struct(dtype) and dtype.num_fields > 0:
        return pa.struct([_storable_field(child, f"{path}.{child.name}") for child in dtype])
    if pat.is_list(dtype):
        return pa.list_(pa.field("element", _storable_type(dtype.value_type, f"{path}.element")))
    if pat.is_map(dtype):
        return pa.map_(
            _storable_type(dtype.key_type, f"{path}.key"), _storable_type(dtype.item_type, f"{path}.value")
        )
    if dtype in _PRIMITIVES or pat.is_decimal128(dtype):
        return dtype
    raise BadSchema(f"column {path!r} cannot be stored: Delta has no type for {dtype}")
