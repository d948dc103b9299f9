"""What a schema says of its records, as a rule of tables has them: so that evolution sees no other columns than tables do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.changes.description import (
    FieldDescription,
    RecordDescription,
    TypeDescription,
    described_column,
)
from distributary.codecs.types.fit import is_list
from distributary.ingest.reshaping.nodes import Inside, Keep, Kept, Node, Struct
from distributary.ingest.reshaping.rule import Reshape
from distributary.ingest.reshaping.shape import Unshapeable, shape_of


def described(rule: Reshape | None, said: RecordDescription, record: pa.Schema) -> RecordDescription:
    """The description of records with these columns, by the rule; without fields where they cannot be what it says."""
    if rule is None:
        return said
    try:
        shape = shape_of(rule, record)
    except Unshapeable:
        return replace(said, fields=())
    added = shape.columns.names[len(shape.fields) :]
    fields = [
        *_fields(shape.fields, list(record), said.fields),
        *(FieldDescription(name, described_column(shape.columns.field(name).type)) for name in added),
    ]
    return replace(said, fields=tuple(fields))


def _fields(
    kept: Iterable[Kept], given: Sequence[pa.Field], said: Iterable[FieldDescription]
) -> Iterator[FieldDescription]:
    by_name = {field.name: field for field in said}
    for one in kept:
        field = given[one.place]
        known = by_name.get(field.name)
        if known is None:
            yield FieldDescription(one.name, described_column(one.node.type))
        else:
            # What it was called before says nothing of a name that the rule gives.
            aliases = known.aliases if one.name == field.name else ()
            yield replace(known, name=one.name, aliases=aliases, type=_type(one.node, field.type, known.type))


def _type(node: Node, of: pa.DataType, said: TypeDescription) -> TypeDescription:
    if isinstance(node, Keep):
        return said
    if isinstance(node, Struct):
        return replace(said, column=node.type, fields=tuple(_fields(node.fields, list(of), said.fields)))
    if isinstance(node, Inside) and kinds.is_map(of) and said.value is not None:
        return replace(said, column=node.type, value=_type(node.node, of.item_type, said.value))
    if isinstance(node, Inside) and is_list(of) and said.element is not None:
        return replace(said, column=node.type, element=_type(node.node, of.value_type, said.element))
    return described_column(node.type)
