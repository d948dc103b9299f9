"""What became of a record type from one schema to the next: each change named and classed, alike for all formats.

First the fields of both are matched (by name, else by number or alias), then what differs between two that match is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.changes.description import FieldDescription, RecordDescription, TypeDescription
from distributary.codecs.types.fields import part
from distributary.codecs.types.fit import widens
from distributary.codecs.types.spark_struct import type_name

ChangeClass = Literal[
    "added",  # a field, at any depth
    "widened",  # every value of the old type is one of the new
    "narrowed",  # every value of the new type is one of the old
    "changed",  # neither
    "dropped",  # a field is gone
    "renamed",  # same number, or an alias
    "made_required",
    "made_optional",
    "enum_value_added",
    "enum_value_removed",
    "oneof_arm_added",  # a field that is a new arm of a oneof that was there
    "record_renamed",
    "format_switched",
]


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One change from a schema to the next.

    column  dotted path in the newer schema's payload names (the older's for a dropped field), one that holds a dot in backticks;
            a list's elements are `element`, a map's keys and values `key` and `value`; empty for the record as a whole
    before  what was there: a type in Spark's spelling, an old name, a symbol, "required" or "optional", a format; empty for
            what is new
    after   what is there now; empty for what is gone
    """

    kind: ChangeClass
    column: str
    before: str = ""
    after: str = ""


def classify(before: RecordDescription, after: RecordDescription) -> list[SchemaChange]:
    """What became of a record type: of itself first, then of its fields in their order, then those that are gone.

    Nothing here depends on a format: what a column's type is counts, not how a value was written.
    """
    return [*_record_changes(before, after), *_field_changes(before, after, "", "")]


def _record_changes(before: RecordDescription, after: RecordDescription) -> Iterator[SchemaChange]:
    if before.format != after.format:
        # Formats name records by rules of their own: the names say nothing of each other.
        yield SchemaChange("format_switched", "", before.format, after.format)
    elif before.name != after.name:
        yield SchemaChange("record_renamed", "", before.name, after.name)


def _field_changes(before: Fields, after: Fields, was: str, now: str) -> Iterator[SchemaChange]:
    """`was` and `now` are the paths of the two records, each with a dot behind it unless it is empty."""
    oneofs = {field.oneof for field in before.fields if field.oneof is not None}
    for old, new in matches(before, after):
        if old is None and new is not None:
            kind: ChangeClass = "oneof_arm_added" if new.oneof in oneofs else "added"
            yield SchemaChange(kind, now + part(new.name), after=type_name(new.type.column))
        elif old is not None and new is None:
            yield SchemaChange("dropped", was + part(old.name), before=type_name(old.type.column))
        elif old is not None and new is not None:
            yield from _changes_of_one(old, new, was + part(old.name), now + part(new.name))


def _changes_of_one(
    old: FieldDescription, new: FieldDescription, was: str, now: str
) -> Iterator[SchemaChange]:
    if old.name != new.name:
        yield SchemaChange("renamed", now, old.name, new.name)
    if old.required != new.required:
        kind: ChangeClass = "made_required" if new.required else "made_optional"
        words = ("optional", "required") if new.required else ("required", "optional")
        yield SchemaChange(kind, now, *words)
    yield from _type_changes(old.type, new.type, was, now)


def _type_changes(old: TypeDescription, new: TypeDescription, was: str, now: str) -> Iterator[SchemaChange]:
    if kinds.is_struct(old.column) and kinds.is_struct(new.column):
        yield from _field_changes(old, new, f"{was}.", f"{now}.")
    elif old.element is not None and new.element is not None:
        yield from _type_changes(old.element, new.element, f"{was}.element", f"{now}.element")
    elif old.value is not None and new.value is not None:
        yield from _column_changes(old.column.key_type, new.column.key_type, f"{now}.key")
        yield from _type_changes(old.value, new.value, f"{was}.value", f"{now}.value")
    else:
        yield from _column_changes(old.column, new.column, now)
        yield from _symbol_changes(old.symbols, new.symbols, now)


def _column_changes(old: pa.DataType, new: pa.DataType, column: str) -> Iterator[SchemaChange]:
    wider, narrower = widens(old, new), widens(new, old)
    # Where each has all values of the other, only Arrow's encoding differs.
    if not (wider and narrower):
        kind: ChangeClass = "widened" if wider else "narrowed" if narrower else "changed"
        yield SchemaChange(kind, column, type_name(old), type_name(new))


def _symbol_changes(old: tuple[str, ...], new: tuple[str, ...], column: str) -> Iterator[SchemaChange]:
    """An enum that becomes a text, or was one, is none: its column is a text in both, and takes every value."""
    if not (old and new):
        return
    before, after = set(old), set(new)
    yield from (SchemaChange("enum_value_removed", column, before=one) for one in old if one not in after)
    yield from (SchemaChange("enum_value_added", column, after=one) for one in new if one not in before)


class Fields(Protocol):
    """A record's fields, be it the whole or one that becomes a struct."""

    @property
    def fields(self) -> tuple[FieldDescription, ...]:
        """In the order of the schema."""

    @property
    def reserved_numbers(self) -> tuple[tuple[int, int], ...]:
        """Numbers of fields that are gone, as (first, last)."""

    @property
    def reserved_names(self) -> tuple[str, ...]:
        """Their names."""


def matches(
    before: Fields, after: Fields, *, reserved_too: bool = False
) -> Iterator[tuple[FieldDescription | None, FieldDescription | None]]:
    """Each field as it was and as it is: the newer ones in their order, then those that are gone in theirs.

    The name comes first, as it is what a table's column goes by, whatever number a field has got. Going back from the newer to
    the older record matches the same fields.

    reserved_too  whether a field that keeps its number is the same one though its name of before is reserved
    """
    earlier = {field.name: field for field in before.fields}
    names = {field.name for field in after.fields}
    gone = [field for field in before.fields if field.name not in names]
    new = [field for field in after.fields if field.name not in earlier]
    numbered = (gone, new) if reserved_too else (_not_retired(gone, after), _not_retired(new, before))
    renamed = _renamed((*_by_numbers(*numbered), *_by_aliases(gone, new)))
    for field in after.fields:
        yield earlier.get(renamed.get(field.name, field.name)), field
    left = set(renamed.values())
    yield from ((field, None) for field in gone if field.name not in left)


def _renamed(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The older name by the newer of each field that only has another name."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    # Aliases may leave a choice; made by the two names alone it is the same on the way back.
    for was, now in sorted(pairs, key=sorted):
        if now not in found and was not in taken:
            found[now] = was
            taken.add(was)
    return found


def _by_numbers(
    gone: Iterable[FieldDescription], new: Iterable[FieldDescription]
) -> Iterator[tuple[str, str]]:
    """The older and the newer name of all that have one number."""
    numbers = {field.number: field for field in gone if field.number is not None}
    yield from ((numbers[field.number].name, field.name) for field in new if field.number in numbers)


def _by_aliases(
    gone: Sequence[FieldDescription], new: Sequence[FieldDescription]
) -> Iterator[tuple[str, str]]:
    """The older and the newer name of all that one of them says were one field."""
    names, newer = {field.name for field in gone}, {field.name for field in new}
    yield from ((alias, field.name) for field in new for alias in field.aliases if alias in names)
    yield from ((field.name, alias) for field in gone for alias in field.aliases if alias in newer)


def _not_retired(fields: Iterable[FieldDescription], by: Fields) -> list[FieldDescription]:
    """Those of which a version does not say that they are gone for good: a number is no sign then."""
    return [field for field in fields if not _is_retired(field, by)]


def _is_retired(field: FieldDescription, by: Fields) -> bool:
    number = -1 if field.number is None else field.number
    return field.name in by.reserved_names or any(
        first <= number <= last for first, last in by.reserved_numbers
    )
