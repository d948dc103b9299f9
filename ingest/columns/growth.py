"""What a record's schema does to a table's layout: the columns that come, and those that become wider.

A column, once there, keeps its name and its place, and its type too unless columns may become wider (widening.py).
Workers, the driver, the schema book and `distributary plan` all ask here, so that they cannot disagree.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.types.fit import is_list, stored_leaf
from distributary.codecs.types.spark_struct import type_name
from distributary.codecs.types.walk import alike, children, pairs, rebuilt
from distributary.errors import BadSchema
from distributary.ingest.columns.differences import differences
from distributary.ingest.columns.layout import SOURCE, Layout, is_own, source_of
from distributary.ingest.columns.safe_names import RESERVED_COLUMNS, column_name, fold
from distributary.ingest.columns.widening import widened

# What became of a column, "created" being one that its table was made with; a "property" is the table's, not a column's.
ChangeKind = Literal["created", "added", "widened", "property"]


@dataclass(frozen=True, slots=True)
class GrowthRules:
    """What a layout may do.

    adds      whether columns come
    widens    whether columns become wider where a record's type is
    reserved  names that no column gets
    fixed     top-level columns that keep their types
    """

    adds: bool = True
    widens: bool = False
    reserved: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that became of a table's layout.

    column  dotted path; a list's elements are `element`, a map's values `value`, as in Spark's ALTER TABLE
    kind    "added", or "widened" where the column was there with a narrower type; "created" with its table
    type    the column's type in Spark's spelling
    source  the same path in the payload's names, part by part
    before  the type that it had; empty for one that was not there
    """

    column: str
    kind: ChangeKind
    type: str
    source: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    before: str = dataclasses.field(default="", compare=False)


def grown(layout: Layout, brought: pa.Schema, rules: GrowthRules) -> Layout:
    """The layout once it has met records with these columns; the very same one where nothing changes.

    What is brought may be another layout as well: its columns keep the names that they have there, where those are
    free. Raises BadSchema for a new field of a type no table can hold.
    """
    columns = layout.columns
    if rules.widens:
        columns = widened(columns, brought, rules.fixed)
    if rules.adds:
        columns = extend(columns, brought, rules.reserved)
    after = Layout(columns)
    return layout if after == layout else after


def extend(base: pa.Schema, record: pa.Schema, reserved: frozenset[str]) -> pa.Schema:
    """`base` with everything that `record` adds, nested columns too.

    No column is called as one of `reserved`. Raises BadSchema for a new field of a type no table can hold.
    """
    return pa.schema(_extended(list(base), list(record), reserved | RESERVED_COLUMNS))


def changes(before: pa.Schema, after: pa.Schema) -> list[Change]:
    """What `after` has and `before` has not, or with another type; a new struct is one change."""
    return list(_between(pa.struct(list(before)), pa.struct(list(after)), "", ()))


def _extended(
    columns: list[pa.Field], fields: Iterable[pa.Field], reserved: frozenset[str]
) -> list[pa.Field]:
    columns = list(columns)
    places = {source_of(column): place for place, column in enumerate(columns)}
    taken = {fold(name) for name in (*reserved, *(column.name for column in columns))}
    for field in fields:
        source = source_of(field)
        if source in places:
            column = columns[places[source]]
            columns[places[source]] = column.with_type(_extended_type(column.type, field.type))
        else:
            places[source] = len(columns)
            columns.append(_new_column(source, field, taken))
            taken.add(fold(columns[-1].name))
    return columns


def _new_column(source: str, field: pa.Field, taken: set[str]) -> pa.Field:
    # A column of another layout has been named already, with names in mind that are not known here.
    named = field.name != source and fold(field.name) not in taken
    name = field.name if named else column_name(source, taken)
    metadata = None if name == source else {SOURCE: source.encode("utf-8", "surrogatepass")}
    if is_own(field):
        return pa.field(name, field.type, metadata=field.metadata)
    return pa.field(name, _new_type(source, field.type), nullable=True, metadata=metadata)


def _new_type(name: str, of: pa.DataType) -> pa.DataType:
    if kinds.is_struct(of):
        if not of.num_fields:
            raise BadSchema(f"field {name} is a struct without fields, which no table can hold")
        return pa.struct(_extended([], list(of), frozenset()))
    if is_list(of):
        return pa.list_(pa.field("element", _new_type(f"{name}.element", of.value_type)))
    if kinds.is_map(of):
        key = pa.field("key", _new_type(f"{name}.key", of.key_type), nullable=False)
        return pa.map_(key, pa.field("value", _new_type(f"{name}.value", of.item_type)))
    stored = stored_leaf(of)
    if stored is None:
        raise BadSchema(f"field {name} has the type {of}, which no Delta table can hold")
    return stored


def _extended_type(column: pa.DataType, record: pa.DataType) -> pa.DataType:
    """A column's type with the nested fields that a record's adds; unchanged where the two do not match."""
    if not alike(column, record):
        return column
    if kinds.is_struct(column):
        return pa.struct(_extended(list(column), list(record), frozenset()))
    # A map's key is taken whole or not at all, so it stays.
    *keys, held = children(column)
    return rebuilt(column, [*keys, held.with_type(_extended_type(held.type, children(record)[-1].type))])


def _between(
    before: pa.DataType, after: pa.DataType, above: str, source: tuple[str, ...]
) -> Iterator[Change]:
    for old, new in pairs(before, after, source_of):
        path, origin = above + new.name, (*source, source_of(new))
        if old is None:
            yield Change(path, "added", type_name(new.type), origin)
        elif alike(old.type, new.type):
            yield from _between(old.type, new.type, f"{path}.", origin)
        elif old.type != new.type and not kinds.is_nested(old.type) and not kinds.is_nested(new.type):
            yield Change(path, "widened", type_name(new.type), origin, type_name(old.type))


def holds(whole: Layout, part: Layout) -> bool:
    """Whether every column of `part` is in `whole` by the same name, type and origin."""
    return not changes(whole.columns, part.columns) and not any(differences(whole.columns, part.columns))
