"""Strings as Google's parser hands them over: in proto2 what is not UTF-8 is no error to it, but bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def valid(value: str | bytes) -> str:
    """The value of a string field. Raises UnicodeError for one that is not UTF-8."""
    return value.decode() if isinstance(value, bytes) else value


def sorted_keys(keys: Iterable[Any]) -> list[Any]:
    """A map's keys in order, none of which is ever of type bytes. Raises UnicodeError for a text that is not UTF-8."""
    return sorted(valid(key) if isinstance(key, bytes) else key for key in keys)
