"""How schemas and their changes are shown: as JSON values, and as lines for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import TYPE_CHECKING, Any

from distributary.registry.base import Schema
from distributary.views.schema_columns import as_list, columns_of
from distributary.views.terminal import one_line, printable

if TYPE_CHECKING:
    from distributary.codecs.changes.classify import SchemaChange
    from distributary.codecs.changes_between import Changes
    from distributary.errors import SchemaError
    from distributary.registry.base import SubjectVersion
    from distributary.registry.confluent.catalogue import Latest

# One subject of a list, as JSON values and in the order of a table's columns.
Row = Mapping[str, Any]

_TITLES = ("subject", "type", "version", "id", "compatibility")


def row(latest: Latest, level: str | None, deleted: bool = False) -> Row:
    """A subject with its latest version."""
    return {
        "subject": latest.subject,
        "type": latest.type,
        "version": latest.version,
        "id": latest.id,
        "compatibility": level,
        "deleted": deleted,
    }


def table(rows: Sequence[Row]) -> str:
    """Subjects one a line, under titles; columns wide enough for all, however narrow the terminal."""
    lines = [list(_TITLES), *([_cell(one, title) for title in _TITLES] for one in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(_TITLES))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _cell(one: Row, title: str) -> str:
    value = "-" if one[title] is None else one_line(str(one[title]))
    return f"{value} (deleted)" if title == "version" and one["deleted"] else value


def shown(schema: Schema, version: SubjectVersion | None) -> dict[str, Any]:
    """A schema, and which version it is where that was asked for."""
    columns = columns_of(schema)
    return {
        "subject": version.subject if version else None,
        "version": version.version if version else None,
        "deleted": version.deleted if version else None,
        "id": schema.id,
        "guid": schema.guid,
        "type": schema.type,
        "rules": list(schema.rules),
        "references": [
            {"name": one.name, "subject": one.subject, "version": one.version} for one in schema.references
        ],
        "imports": dict(schema.imports),
        "text": schema.text,
        "record": columns.record,
        "columns": [{"name": name, "type": kind} for name, kind in columns.types]
        if columns.why_none is None
        else None,
        "why_no_columns": columns.why_none,
    }


def shown_text(answer: Mapping[str, Any], schema: Schema) -> str:
    """The same for a terminal."""
    from distributary.registry.readable_text import readable

    named = f"{answer['subject']} version {answer['version']}, " if answer["subject"] else ""
    gone = ", deleted" if answer["deleted"] else ""
    which = f"schema id {schema.id}" if schema.id or schema.guid is None else f"schema GUID {schema.guid}"
    lines = [one_line(f"{named}{which}, {schema.type}{gone}"), "", *_plain(readable(schema)), ""]
    for one in schema.references:
        lines.append(one_line(f"imports {one.name} from {one.subject} version {one.version}"))
    if schema.rules:
        lines.append(one_line(f"data rules: {', '.join(schema.rules)}"))
    return "\n".join([*lines, *_column_lines(answer)])


def _column_lines(answer: Mapping[str, Any]) -> list[str]:
    if answer["columns"] is None:
        return [one_line(f"no columns: {answer['why_no_columns']}")]
    width = max((len(one["name"]) for one in answer["columns"]), default=0)
    title = f"columns of {answer['record']}:"
    return [title, *(f"  {printable(one['name']).ljust(width)}  {one['type']}" for one in answer["columns"])]


@dataclass(frozen=True, slots=True)
class Difference:
    """Two versions of a subject: what became of their records, and the texts line by line."""

    before: SubjectVersion
    after: SubjectVersion
    changes: Changes
    lines: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return {
            "subject": self.after.subject,
            "from": {"version": self.before.version, "id": self.before.id, "deleted": self.before.deleted},
            "to": {"version": self.after.version, "id": self.after.id, "deleted": self.after.deleted},
            "changes": as_list(self.changes),
            "why_no_changes": self.changes.why_none,
            "text": "\n".join(self.lines),
        }

    def text(self) -> str:
        """The same for a terminal."""
        return "\n".join([*change_lines(self.changes), "", *(self.lines or ("the texts are the same",))])


def difference(before: SubjectVersion, old: Schema, after: SubjectVersion, new: Schema) -> Difference:
    """What changed from one version to another."""
    from distributary.codecs.changes_between import changes_between
    from distributary.registry.readable_text import readable

    names = (f"version {before.version} (id {before.id})", f"version {after.version} (id {after.id})")
    lines = unified_diff(_plain(readable(old)), _plain(readable(new)), *names, lineterm="")
    return Difference(before, after, changes_between(old, new), tuple(lines))


@dataclass(frozen=True, slots=True)
class Step:
    """One version of a subject and what it changed; `changes` is None where the schema itself is not to be had."""

    version: SubjectVersion
    type: str | None
    changes: Changes | None
    is_first: bool
    note: str | None

    def as_dict(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        told = as_list(self.changes) if self.changes and not self.is_first else None
        return {
            "version": self.version.version,
            "id": self.version.id,
            "deleted": self.version.deleted,
            "type": self.type,
            "changes": told,
            "note": self.note,
        }

    def lines(self) -> list[str]:
        """The same for a terminal."""
        gone = ", deleted" if self.version.deleted else ""
        head = f"version {self.version.version}: id {self.version.id}, {self.type or 'unreadable'}{gone}"
        return [head, *(f"  {line}" for line in self._told())]

    def _told(self) -> list[str]:
        if self.changes is None or self.is_first:
            return [one_line(self.note)] if self.note else []
        return change_lines(self.changes)


def steps(versions: Sequence[SubjectVersion], schemas: Sequence[Schema | SchemaError]) -> list[Step]:
    """A subject's versions, each held against the one before it, deleted or not."""
    from distributary.codecs.changes_between import changes_between

    told: list[Step] = []
    before: Schema | None = None
    for version, schema in zip(versions, schemas, strict=True):
        if not isinstance(schema, Schema):
            told.append(Step(version, None, None, before is None, str(schema)))
            continue
        changes = changes_between(before, schema)
        told.append(Step(version, schema.type, changes, before is None, changes.why_none))
        before = schema
    return told


def change_lines(changes: Changes) -> list[str]:
    """Changes for a terminal, one a line: the class, the column, what was and what is."""
    if changes.told is None:
        return [one_line(f"changes are not known: {changes.why_none}")]
    width = max((len(one.kind) for one in changes.told), default=0)
    return [_change_line(one, width) for one in changes.told] or ["no field changed"]


def _change_line(one: SchemaChange, width: int) -> str:
    values = " -> ".join(value for value in (one.before, one.after) if value)
    return printable("  ".join(word for word in (one.kind.ljust(width), one.column, values) if word))


def _plain(text: str) -> list[str]:
    return [printable(line.expandtabs()) for line in text.splitlines()]
