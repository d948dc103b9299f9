"""Which fields JSON records have, counted as they come: told in time that names are made of data, before a schema of them is.

Spark's reader puts each record's fields into those of all before it, which takes for ever where every record has new ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.broken_payloads import Undecodable
from distributary.codecs.json.inference import names_column, says_type
from distributary.codecs.json.text import BROKEN, END, after_space, text_of, value_at

# What is known of a field: an object's fields, a list's element, a plain value, or values that only a text column takes.
_LEAF, _TEXT = "leaf", "text"

_Known: TypeAlias = "dict[str, Any] | list[Any] | str | None"

# A type that is known, as a tree of names: what is inside of it adds no field.
_Typed: TypeAlias = "Mapping[str, Any]"


class JsonSurvey:
    """The fields of records, and the records as a schema is to be inferred from them."""

    def __init__(self, known: pa.Schema) -> None:
        """`known` are fields whose types are settled; structs among them may have further fields."""
        self.fields = 0
        self._typed = _tree(known)
        self._found: dict[str, Any] = {}

    def take(self, payload: bytes) -> str | None:
        """A record's text, in which fields of settled types hold a number instead of their values; None for what is none.

        Fields with names that no column may have are left out.
        """
        try:
            text = text_of(payload)
            value, end = value_at(text, after_space(text, 0))
            if after_space(text, end) != len(text) - len(END) or not isinstance(value, dict):
                return None
            text = text[: -len(END)]
            settles, strange = _has(value, self._typed), _is_strange(value)
            if settles or strange:
                value = json.loads(text, parse_int=_whole)
                value = _without_strange(value) if strange else value
                _settle(value, self._typed)
                text = json.dumps(value)
        except (Undecodable, RecursionError, *BROKEN):
            return None
        self._join(self._found, value)
        return text

    def _join(self, known: _Known, value: Any) -> _Known:
        """What is known with this value; None where nothing is yet."""
        if value is None or known is _TEXT:
            return known
        if isinstance(value, dict):
            return self._join_object({} if known is None else known, value)
        if isinstance(value, list):
            return self._join_list([None] if known is None else known, value)
        return _LEAF if known is None or known is _LEAF else self._text(known)

    def _join_object(self, known: _Known, value: dict[str, Any]) -> _Known:
        if not isinstance(known, dict):
            return self._text(known) if says_type(value) else known
        for name, inner in value.items():
            before = known.get(name)
            after = self._join(before, inner)
            if after is not None:
                self.fields += before is None
                known[name] = after
        return known or None

    def _join_list(self, known: _Known, value: list[Any]) -> _Known:
        if not isinstance(known, list):
            return self._text(known) if says_type(value) else known
        for inner in value:
            known[0] = self._join(known[0], inner)
        return None if known[0] is None else known

    def _text(self, known: _Known) -> _Known:
        self.fields -= _inside(known)
        return _TEXT


def _inside(known: _Known) -> int:
    if isinstance(known, dict):
        return sum(1 + _inside(inner) for inner in known.values())
    return _inside(known[0]) if isinstance(known, list) else 0


def _tree(of: pa.Schema | pa.StructType) -> _Typed:
    return {field.name: _tree(field.type) if kinds.is_struct(field.type) else None for field in of}


def _has(value: Any, typed: _Typed) -> bool:
    """Whether there is a value of a settled type."""
    if not isinstance(value, dict):
        return False
    return any(name in value and (inner is None or _has(value[name], inner)) for name, inner in typed.items())


def _is_strange(value: Any) -> bool:
    """Whether there is a name that no column may have."""
    if isinstance(value, dict):
        return not all(map(names_column, value)) or any(map(_is_strange, value.values()))
    return isinstance(value, list) and any(map(_is_strange, value))


def _without_strange(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_strange(inner) for name, inner in value.items() if names_column(name)}
    return [_without_strange(inner) for inner in value] if isinstance(value, list) else value


def _settle(value: Any, typed: _Typed) -> None:
    if not isinstance(value, dict):
        return
    for name, inner in typed.items():
        if name in value and inner is None:
            value[name] = 0
        elif name in value:
            _settle(value[name], inner or {})


def _whole(text: str) -> int | float:
    """A whole number; one with more digits than any column holds as Spark infers it, which is a double."""
    return int(text) if len(text) < 100 else float(text)
