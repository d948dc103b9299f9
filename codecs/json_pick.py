"""One field of JSON records, found without reading the rest into columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

# Numbers keep the text that they are written with: 1e3 and 1000 are two values of a routing field.
_READER = json.JSONDecoder(parse_float=str, parse_int=str)


def picked(payloads: pa.BinaryArray, path: Sequence[str]) -> pa.StringArray:
    """What each payload has at this path of names, as text; null for none, an object, a list, or what is no JSON."""
    return pa.array([_picked(payload, path) for payload in payloads.to_pylist()], pa.string())


def _picked(payload: bytes, path: Sequence[str]) -> str | None:
    try:
        value: Any = _READER.decode(payload.decode())
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return _text(value)
    except (ValueError, RecursionError):
        return None


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return None
    # Half of a surrogate pair is no text. Raises UnicodeEncodeError, a ValueError.
    value.encode()
    return value
