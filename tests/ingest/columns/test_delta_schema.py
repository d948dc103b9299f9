"""A table's schema as Delta's JSON has it, beside the one before it."""

from __future__ import annotations

import json
from typing import Any

from distributary.ingest.columns.delta_schema import commented


def field(name: str, dtype: Any, comment: str | None = None, **more: str) -> dict[str, Any]:
    said = {} if comment is None else {"comment": comment}
    return {"name": name, "type": dtype, "nullable": True, "metadata": {**said, **more}}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def array(element: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


def test_comments_stay_with_columns_of_their_names_whatever_these_have_become() -> None:
    before = struct(
        field("a", "long", "of a", odd="of another"),
        field("gone", "long", "of what is gone"),
        field("s", struct(field("x", "long", "of x")), "of s"),
        field("l", array(struct(field("y", "long", "of y")))),
        field("other", struct(field("x", "long", "of x"))),
    )
    now = struct(
        field("s", struct(field("new", "long"), field("x", "string"))),
        field("a", "decimal(10,2)"),
        field("l", array(struct(field("y", "long")))),
        field("other", "long"),
    )
    assert json.loads(commented(json.dumps(now), json.dumps(before))) == struct(
        field("s", struct(field("new", "long"), field("x", "string", "of x")), "of s"),
        field("a", "decimal(10,2)", "of a"),
        field("l", array(struct(field("y", "long", "of y")))),
        field("other", "long"),
    )
