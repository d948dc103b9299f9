"""Rescued values as a text that is the same whenever they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

# Under which name the rescued values count in a row's checksum, whatever the table calls their column.
RESCUED = "_rescued_data"


def canonical_text(values: Mapping[str, Any]) -> str:
    """An object as JSON, its members sorted."""
    return json.dumps(values, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def with_canonical_rescued(rows: pa.RecordBatch, column: str) -> pa.RecordBatch:
    """The rows with their rescued values in this form, in a column of this name; what is no object stays as it is."""
    place = rows.schema.get_field_index(column)
    if place < 0:
        return rows
    texts = pa.array([_canonical(text) for text in rows.column(place).to_pylist()], pa.string())
    return rows.set_column(place, RESCUED, texts)


def _canonical(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return canonical_text(found) if isinstance(found, dict) else text
