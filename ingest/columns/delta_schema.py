"""A table's schema as Delta's JSON has it, with further columns.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#schema-serialization-format
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Fields = Sequence[Mapping[str, Any]]

# What a list's elements, and a map's values, are called.
_HELD = ("elementType", "valueType")


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
