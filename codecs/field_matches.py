"""Which field of a newer record is which of an older one: by its name, or else by what tells a field that was renamed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from distributary.codecs.schema_description import FieldDescription


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
    before: Fields, after: Fields
) -> Iterator[tuple[FieldDescription | None, FieldDescription | None]]:
    """Each field as it was and as it is: the newer ones in their order, then those that are gone in theirs.

    The name comes first, as it is what a table's column goes by, whatever number a field has got. Going back from the newer to
    the older record matches the same fields.
    """
    earlier = {field.name: field for field in before.fields}
    names = {field.name for field in after.fields}
    gone = [field for field in before.fields if field.name not in names]
    new = [field for field in after.fields if field.name not in earlier]
    renamed = _renamed(before, gone, after, new)
    for field in after.fields:
        yield earlier.get(renamed.get(field.name, field.name)), field
    left = set(renamed.values())
    yield from ((field, None) for field in gone if field.name not in left)


def _renamed(
    before: Fields, gone: Sequence[FieldDescription], after: Fields, new: Sequence[FieldDescription]
) -> dict[str, str]:
    """The older name by the newer of each field that only has another name."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    # Aliases may leave a choice; made by the two names alone it is the same on the way back.
    for was, now in sorted(_pairs(before, gone, after, new), key=sorted):
        if now not in found and was not in taken:
            found[now] = was
            taken.add(was)
    return found


def _pairs(
    before: Fields, gone: Sequence[FieldDescription], after: Fields, new: Sequence[FieldDescription]
) -> Iterator[tuple[str, str]]:
    """The older and the newer name of all that may be one field."""
    numbers = {field.number: field for field in gone if field.number is not None}
    names = {field.name for field in gone}
    for field in new:
        same = None if field.number is None else numbers.get(field.number)
        # A number is no sign where either version says that the other's field is gone for good.
        if same is not None and not _is_retired(same, after) and not _is_retired(field, before):
            yield same.name, field.name
        yield from ((alias, field.name) for alias in field.aliases if alias in names)
    newer = {field.name for field in new}
    yield from ((field.name, alias) for field in gone for alias in field.aliases if alias in newer)


def _is_retired(field: FieldDescription, by: Fields) -> bool:
    number = -1 if field.number is None else field.number
    return field.name in by.reserved_names or any(
        first <= number <= last for first, last in by.reserved_numbers
    )
