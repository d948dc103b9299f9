"""What stands in the place of a file, or of the rest of one, that cannot be read: a record that names it, and goes to quarantine."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Literal

import pyarrow as pa

Why = Literal["file_damaged", "file_rows_damaged", "file_gone", "file_changed", "file_rewritten"]

READ_ONCE_THERE = "it is read once it is there again"
"""How a record tells of a file that was known to be gone before its batch was read."""

_BEGIN = b'{"distributary_file":'

_MOST_SHOWN = 3

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

_SENTENCES: dict[str, str] = {
    "file_damaged": "the rest of its file cannot be read, from this row on; what stood before it is in its tables",
    "file_rows_damaged": "some rows of its file cannot be read, from this one on; those before and behind them are in its tables",
    "file_gone": "its file was registered, and was not there any more when it was to be read",
    "file_changed": "its file was written to between the look at it and its reading, and none of it was read",
    "file_rewritten": "its file was read before, and has other content now, which was not read (source.files.on_rewrite)",
}

# What is told without a word on how it went: of a file that went as its batch was read, and by earlier versions of each that was gone.
_WITHOUT_DETAIL = {
    "file_gone": "it counts as read, so put it there under another name, with bytes that differ, to have it read"
}


def record(path: str, row: int, why: Why, how: str = "") -> bytes:
    """The value of the record that tells of a file, from a row on."""
    told = {"path": path, "row": row, "reason": why, **({"detail": how} if how else {})}
    return _BEGIN + json.dumps(told, separators=(",", ":")).encode() + b"}"


def read(value: bytes | None) -> tuple[str, str] | None:
    """The reason and the sentence of such a record; None of any other."""
    if value is None or not value.startswith(_BEGIN):
        return None
    try:
        told = json.loads(value)["distributary_file"]
        reason = str(told["reason"])
        how = str(told.get("detail") or _WITHOUT_DETAIL.get(reason, ""))
        return (reason, _SENTENCES[reason] + (f": {how}" if how else "")) if reason in _SENTENCES else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def reasons(values: pa.Array) -> list[tuple[str, str] | None]:
    """The same of each value."""
    return [read(value.as_py()) for value in values]


def shown(paths: Sequence[str]) -> str:
    """The first of some paths, for a sentence, which is one line whatever they are called."""
    found = ", ".join(paths[:_MOST_SHOWN]) + (", ..." if len(paths) > _MOST_SHOWN else "")
    return _CONTROL.sub(lambda one: repr(one[0])[1:-1], found)
