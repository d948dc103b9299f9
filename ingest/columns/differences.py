"""How the Arrow schema of files and the one of a Delta table compare, nested fields included."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pat

from distributary.codecs.types.walk import alike, pairs, rebuilt
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


_Place = tuple[str, pa.DataType | None, pa.DataType]


@dataclass(frozen=True, slots=True)
class Difference:
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


def differences(table: pa.Schema, wanted: pa.Schema) -> Iterator[Difference]:
    """What of `wanted` the table lacks or holds with another type; the table may have more."""
    if table.equals(wanted):
        return  # as nearly always, and told in a hundredth of the time
    for have, want in pairs(pa.struct(list(table)), pa.struct(list(wanted))):
        for path, old, new in _between(have, want, want.name):
            yield Difference(path, old, new, want.name)


def _between(have: pa.Field | None, want: pa.Field, path: str) -> Iterator[_Place]:
    if have is None:
        yield path, None, want.type
    elif have.type.equals(want.type):
        return
    elif alike(have.type, want.type):
        for old, new in pairs(have.type, want.type):
            yield from _between(old, new, f"{path}.{new.name}")
    else:
        yield path, have.type, want.type


def only_wider(found: Difference) -> bool:
    """Whether the table's type holds every value of the files' type."""
    return found.have is not None and delta_widens(found.want, found.have)


def retyped(files: pa.DataType, table: pa.DataType) -> pa.DataType:
    """The files' type with the table's type wherever both have a value, and the files' fields only.

    Where the table is still to become as wide as the files, theirs stays.
    """
    if not alike(files, table):
        return files if delta_widens(table, files) else table
    inside = [
        own if other is None else own.with_type(retyped(own.type, other.type))
        for other, own in pairs(table, files)
    ]
    return rebuilt(files, inside)


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
