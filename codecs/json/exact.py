"""The exact way: JSON records read one at a time against a schema. Its word is final, and nothing is lost.

What no column takes is kept as it was written, under its path: a value that does not fit, a field that the schema
lacks, and the earlier ones of several values under one name (the last one counts, as in Spark).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs import reasons
from distributary.codecs.broken_payloads import Undecodable
from distributary.codecs.json.inference import names_column, says_type
from distributary.codecs.json.leaves import MISFIT, Leaf, leaf
from distributary.codecs.json.text import (
    BROKEN,
    END,
    NotJson,
    after_space,
    broken_at,
    first_at,
    is_unicode,
    more_at,
    name_at,
    quoted,
    text_of,
    value_at,
)
from distributary.codecs.types.fields import part as path_part
from distributary.errors import BadSchema

# The way to a value: that to what it is in, and its own name or number there. Nearly no value is ever told of by it, and where names
# are long a text for each value of a record would be gigabytes.
Path: TypeAlias = "tuple[Path, str | int] | None"

# What is kept beside the columns, ways among it, is no more than so many times the payload, and so much of any.
_MOST_TIMES, _ALWAYS = 16, 2**16

_TOO_MUCH = "what no column takes of the record would be far larger than the record, since each value is told of by all names around it"


@dataclass(slots=True)
class Leftover:
    """What of one record no column took: texts by path, whether a field was among it that the schema lacks, and a misfit.

    room    how much may be kept
    misfit  the path of the first value that its own column did not take; None where there is none
    """

    room: int
    texts: dict[str, list[str]] = field(default_factory=dict)
    unknown: bool = False
    misfit: str | None = None

    def keep(self, path: Path, text: str) -> None:
        """Keeps the text of a value; a null says nothing. Raises Undecodable where it is too much."""
        if text == "null":
            return
        written = _written(path)
        # Each time, also where the way is kept already: to write it takes as long.
        self.room -= len(text) + len(written)
        if self.room < 0:
            raise Undecodable(reasons.TOO_LARGE, _TOO_MUCH)
        self.texts.setdefault(written, []).append(text)

    def keep_misfit(self, path: Path, text: str) -> None:
        """Keeps the text of a value that its column does not take."""
        self.keep(path, text)
        self.misfit = self.misfit or _written(path)

    def keep_unknown(self, path: Path, text: str, name: str, value: Any) -> None:
        """Keeps the text of a field that the schema lacks, and notes it if the schema could have it."""
        self.keep(path, text)
        self.unknown = self.unknown or (names_column(name) and says_type(value))

    def json(self) -> str | None:
        """An object of all texts by path; several of one path stand in a list; null where there are none."""
        if not self.texts:
            return None
        members = (
            f"{quoted(path)}:{texts[0] if len(texts) == 1 else '[' + ','.join(texts) + ']'}"
            for path, texts in self.texts.items()
        )
        return "{" + ",".join(members) + "}"


def _written(path: Path) -> str:
    parts: list[str] = []
    while path is not None:
        path, part = path
        parts.append(str(part))
    return ".".join(reversed(parts))


class Node(Protocol):
    """Reads values of one type."""

    def read(self, text: str, at: int, path: Path, left: Leftover) -> tuple[Any, int]:
        """The value that begins here, or None, or MISFIT; and where it ends. Raises NotJson."""
        ...


class ExactReader:
    """Reads records of one schema. Raises BadSchema for types that no column has."""

    def __init__(self, schema: pa.Schema) -> None:
        self._record = _Struct({one.name: _node(one.type, one.name) for one in schema})

    def record(self, payload: bytes) -> tuple[dict[str, Any], Leftover]:
        """The columns' values, and what none of them took. Raises Undecodable."""
        text = text_of(payload)
        left = Leftover(_MOST_TIMES * len(payload) + _ALWAYS)
        try:
            at = after_space(text, 0)
            if text[at] != "{":
                self._refuse_other(text, at)
            values, at = self._record.read(text, at, None, left)
            _expect_end(text, at)
        except BROKEN as error:
            place = broken_at(error)
            raise Undecodable(
                reasons.MALFORMED,
                f"the payload is not JSON: it breaks off or goes wrong at character {place}",
            ) from None
        except RecursionError:
            raise Undecodable(reasons.TOO_DEEP, reasons.SENTENCES[reasons.TOO_DEEP]) from None
        return values, left

    def _refuse_other(self, text: str, at: int) -> None:
        _, end = value_at(text, at)
        _expect_end(text, end)
        raise Undecodable(reasons.MALFORMED, "the payload is JSON, but not an object")


@dataclass(frozen=True, slots=True)
class _Leaf:
    take: Leaf

    def read(self, text: str, at: int, path: Path, left: Leftover) -> tuple[Any, int]:
        value, end = value_at(text, at)
        return (None if value is None else self.take(value, text[at:end])), end


class _Struct:
    def __init__(self, children: Mapping[str, Node]) -> None:
        self._children = {name: (path_part(name), node) for name, node in children.items()}

    def read(self, text: str, at: int, path: Path, left: Leftover) -> tuple[Any, int]:
        if text[at] != "{":
            return _other(text, at)
        values: dict[str, Any] = {}
        starts: dict[str, tuple[int, int]] = {}
        more, at = first_at(text, at, "}")
        while more:
            name, at = name_at(text, at)
            known = self._children.get(name)
            if known is None:
                value, end = value_at(text, at)
                left.keep_unknown((path, path_part(name)), text[at:end], name, value)
            else:
                part, child = known
                if name in values:
                    _displace(starts[name], values[name], (path, part), text, left)
                value, end = child.read(text, at, (path, part), left)
                if value is MISFIT:
                    left.keep_misfit((path, part), text[at:end])
                    value = None
                values[name] = value
                starts[name] = at, end
            more, at = more_at(text, end, "}")
        return values, at


@dataclass(frozen=True, slots=True)
class _List:
    element: Node

    def read(self, text: str, at: int, path: Path, left: Leftover) -> tuple[Any, int]:
        if text[at] != "[":
            return _other(text, at)
        values: list[Any] = []
        more, at = first_at(text, at, "]")
        while more:
            here = (path, len(values))
            value, end = self.element.read(text, at, here, left)
            if value is MISFIT:
                left.keep_misfit(here, text[at:end])
                value = None
            values.append(value)
            more, at = more_at(text, end, "]")
        return values, at


@dataclass(frozen=True, slots=True)
class _Map:
    value: Node

    def read(self, text: str, at: int, path: Path, left: Leftover) -> tuple[Any, int]:
        if text[at] != "{":
            return _other(text, at)
        values: dict[str, Any] = {}
        starts: dict[str, tuple[int, int]] = {}
        more, at = first_at(text, at, "}")
        while more:
            name, at = name_at(text, at)
            here = (path, path_part(name))
            if name in values:
                _displace(starts[name], values[name], here, text, left)
            value, end = self.value.read(text, at, here, left)
            # A name that is no Unicode cannot be a key.
            if value is MISFIT or not is_unicode(name):
                left.keep_misfit(here, text[at:end])
                value = None
            if is_unicode(name):
                values[name] = value
                starts[name] = at, end
            more, at = more_at(text, end, "}")
        # In the order of the keys, as the native reader has them.
        return sorted(values.items(), key=lambda item: item[0]), at


def _other(text: str, at: int) -> tuple[Any, int]:
    value, end = value_at(text, at)
    return (None if value is None else MISFIT), end


def _displace(span: tuple[int, int], value: Any, path: Path, text: str, left: Leftover) -> None:
    # A misfit was kept already.
    if value is not None:
        left.keep(path, text[span[0] : span[1]])


def _expect_end(text: str, at: int) -> None:
    at = after_space(text, at)
    if at != len(text) - len(END):
        raise NotJson(at)


def _node(of: pa.DataType, name: str) -> Node:
    if kinds.is_struct(of):
        _refuse_twins([one.name for one in of], name)
        return _Struct({one.name: _node(one.type, f"{name}.{one.name}") for one in of})
    if kinds.is_list(of):
        return _List(_node(of.value_type, f"{name}.element"))
    if kinds.is_map(of) and of.key_type == pa.string():
        return _Map(_node(of.item_type, f"{name}.value"))
    take = leaf(of)
    if take is None:
        raise BadSchema(f"field {name!r} has the type {of}, which no JSON value can be read as")
    return _Leaf(take)


def _refuse_twins(names: Sequence[str], where: str) -> None:
    if len(set(names)) < len(names):
        raise BadSchema(f"two fields of {where!r} have one name")
