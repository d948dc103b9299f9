"""Fields that a rule hides and a producer calls otherwise: a schema tells by an alias, or a number, which one it was, and so nobody may see it by its new name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.changes.classify import Fields, SchemaChange, matches
from distributary.codecs.changes.description import FieldDescription, RecordDescription, TypeDescription
from distributary.codecs.types.fields import part, parts
from distributary.codecs.types.fit import is_number
from distributary.codecs.types.walk import children, rebuilt
from distributary.ingest.reshaping.leftovers import landing
from distributary.ingest.reshaping.rule import Path, Reshape


def shown(
    rule: Reshape, changes: Iterable[SchemaChange], record: pa.Schema, told: Iterable[SchemaChange] = ()
) -> SchemaChange | None:
    """The first field of records with these columns by whose name something would be seen that the rule hides; None where there is none. `after` is where that would be.

    changes  what led to these records from others, as they are without the rule
    told     what other schemas of such records tell of theirs: an alias goes in time, and what it told is so all the same
    """
    before: dict[Path, list[str]] = {}
    for change in (*changes, *told):
        if change.kind == "renamed":
            before.setdefault(parts(change.column), []).append(change.before)
    for path in before:
        now = landing(rule, record, path) if _has(record, path) else None
        # Whoever wrote a rule that names the very field knows of it.
        if now is None or now[1].here:
            continue
        name = _hidden_as(rule, record, path, before)
        if name is not None:
            return SchemaChange("renamed", _dotted(path), name, _dotted(now[0]))
    return None


def _dotted(path: Path) -> str:
    return ".".join(map(part, path))


def _hidden_as(
    rule: Reshape, record: pa.Schema, path: Path, before: Mapping[Path, Sequence[str]]
) -> str | None:
    """By which of the names that a field had, one after the other, the rule hides it; None for none."""
    left, seen = list(before[path]), set[str]()
    for name in left:
        earlier = (*path[:-1], name)
        # Where both are there they are two.
        if name in seen or _has(record, earlier):
            continue
        seen.add(name)
        landed = landing(rule, pa.schema(_as_before(record, path, name)), earlier)
        if landed is None:
            return name
        if not landed[1].here:
            left += before.get(earlier, ())
    return None


def _has(fields: Iterable[pa.Field], path: Path) -> bool:
    found = next((field for field in fields if field.name == path[0]), None)
    return found is not None and (len(path) == 1 or _has(children(found.type), path[1:]))


def _as_before(fields: Iterable[pa.Field], path: Path, name: str) -> Iterator[pa.Field]:
    """The same with the one at a path called by this name: what a rule says of a place goes by what is there."""
    for field in fields:
        if field.name != path[0]:
            yield field
        elif len(path) == 1:
            yield field.with_name(name)
        else:
            inside = list(_as_before(children(field.type), path[1:], name))
            yield field.with_type(rebuilt(field.type, inside))


def why_shown(change: SchemaChange) -> str:
    """Why records with such a field are not to land, in words."""
    return (
        f"field {change.column} was called {change.before}, by which the table's rule hides it: name it there, too, under leave, hash or mask; "
        "or under cast or rename to have it seen"
    )


def called_before(said: RecordDescription) -> Iterator[SchemaChange]:
    """What a schema itself tells of how its fields were called, whether or not anybody knows the schema that had them so."""
    return _renamed(said.fields, "")


def _renamed(fields: Sequence[FieldDescription], above: str) -> Iterator[SchemaChange]:
    names = {field.name for field in fields}
    for field in fields:
        path = above + part(field.name)
        for alias in field.aliases:
            if alias not in names:
                yield SchemaChange("renamed", path, alias, field.name)
        inside, within = _innermost(field.type, path)
        yield from _renamed(within.fields, f"{inside}.")


def called_otherwise(
    before: Fields, after: Fields, above: str = "", *, anew: bool = False
) -> Iterator[SchemaChange]:
    """The fields that are called otherwise in the second of two schemas of one record.

    Where a number is reused whose name is reserved, as Protobuf advises who renames a field, old values come by the new name. What is in
    a record is in it also where one became a list of them.

    anew  whether numbers were given anew, as in another version of a package: they tell it of fields of one kind alone
    """
    for old, new in matches(before, after, reserved_too=True):
        if old is None or new is None:
            continue
        path = above + part(new.name)
        _, was = _innermost(old.type, "")
        inside, now = _innermost(new.type, path)
        if old.name != new.name:
            if anew and not _are_one_by_aliases(old, new) and _kind(was) != _kind(now):
                continue
            yield SchemaChange("renamed", path, old.name, new.name)
        yield from called_otherwise(was, now, f"{inside}.", anew=anew)


def _are_one_by_aliases(old: FieldDescription, new: FieldDescription) -> bool:
    return old.name in new.aliases or new.name in old.aliases


def _kind(of: TypeDescription) -> str:
    """What values are like: an address may become bytes, and no time."""
    if of.fields:
        return "struct"
    is_text = any(has(of.column) for has in (kinds.is_string, kinds.is_binary, kinds.is_large_string))
    return "text" if is_text else "number" if is_number(of.column) else str(of.column)


def _innermost(of: TypeDescription, path: str) -> tuple[str, TypeDescription]:
    """What is in a field's lists and maps, and the path that leads there."""
    if of.element is not None:
        return _innermost(of.element, f"{path}.element")
    if of.value is not None:
        return _innermost(of.value, f"{path}.value")
    return path, of
