"""A table's schema as Delta's JSON has it, with further columns, or with what was said of others of their names.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#schema-serialization-format
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Fields = Sequence[Mapping[str, Any]]

# What a list's elements, and a map's values, are called.
_HELD = ("elementType", "valueType")

_COMMENT = "comment"


def with_columns(have: Fields, more: Fields) -> list[dict[str, Any]]:
    """Fields with those that they lack, in structs, elements of lists and values of maps too; what is there stays as it is."""
    wanted = {field["name"]: field for field in more}
    known = {field["name"] for field in have}
    kept = [
        {**field, "type": _with(field["type"], wanted[field["name"]]["type"])}
        if field["name"] in wanted
        else dict(field)
        for field in have
    ]
    return [*kept, *(dict(field) for field in more if field["name"] not in known)]


def _with(have: Any, more: Any) -> Any:
    if not (isinstance(have, Mapping) and isinstance(more, Mapping)) or have["type"] != more["type"]:
        return have
    if have["type"] == "struct":
        return {**have, "fields": with_columns(have["fields"], more["fields"])}
    return {**have, **{held: _with(have[held], more[held]) for held in _HELD if held in have}}


def commented(schema: str, before: str) -> str:
    """A schema with the comments that columns of these names had in the one before it, those in structs, lists and maps too."""
    found, was = json.loads(schema), json.loads(before)
    return json.dumps({**found, "fields": _commented(found["fields"], was["fields"])})


def _commented(fields: Fields, before: Fields) -> list[dict[str, Any]]:
    had = {field["name"]: field for field in before}
    return [_as_told(field, had[field["name"]]) if field["name"] in had else dict(field) for field in fields]


def _as_told(field: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    said = {name: text for name, text in before["metadata"].items() if name == _COMMENT}
    return {**field, "metadata": {**said, **field["metadata"]}, "type": _told(field["type"], before["type"])}


def _told(dtype: Any, before: Any) -> Any:
    if not (isinstance(dtype, Mapping) and isinstance(before, Mapping)) or dtype["type"] != before["type"]:
        return dtype
    if dtype["type"] == "struct":
        return {**dtype, "fields": _commented(dtype["fields"], before["fields"])}
    return {**dtype, **{held: _told(dtype[held], before[held]) for held in _HELD if held in dtype}}
