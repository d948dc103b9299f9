"""Random pairs of a writer's and a reader's Avro schema, with values of the writer's: what evolution makes of schemas.

The reader's wide unions have branches that Python's types tell apart, since fastavro does not say which branch a value is of. No list or
map is empty: fastavro would take empty ones whatever they may hold.
"""

from __future__ import annotations

import base64
import itertools
import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from tests.codecs.avro_samples import Branch, expected_columns, kind_of


class Pair(NamedTuple):
    """Two types, and values of the first."""

    writer: Any
    reader: Any
    values: st.SearchStrategy[Any]


_NUMBERS = itertools.count()
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(allow_nan=False, width=32),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=3),
    "string": st.text(max_size=4),
}
_READ_AS = {
    "int": ["int", "long", "float", "double"],
    "long": ["long", "float", "double"],
    "float": ["float", "double"],
    "string": ["string", "bytes"],
    "bytes": ["bytes", "string"],
}
_DEFAULTS = [
    ("null", None),
    ("boolean", True),
    ("int", -7),
    ("double", 2),
    ("string", "ä"),
    (["null", "long"], None),
    (["long", "null"], 5),
    ({"type": "array", "items": "long"}, [1, 2]),
    ({"type": "map", "values": ["null", "string"]}, {"k": "v", "n": None}),
]


def _spelt(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """How the reader may call what the writer calls `name`."""
    return draw(
        st.sampled_from(
            [
                {"name": name},
                {"name": name, "namespace": "other"},
                {"name": f"New{name}", "aliases": [name]},
            ]
        )
    )


def _name() -> str:
    return f"N{next(_NUMBERS)}"


@st.composite
def _leaf(draw: st.DrawFn) -> Pair:
    kind = draw(st.sampled_from([*_VALUES, "enum", "fixed", "null"]))
    if kind == "null":
        return Pair("null", draw(st.sampled_from(["null", ["null", "string"]])), st.none())
    if kind == "enum":
        return draw(_enum())
    name = _name()
    if kind == "fixed":
        fixed = {"type": "fixed", "name": name, "size": 2}
        return Pair(fixed, {**fixed, **_spelt(draw, name)}, st.binary(min_size=2, max_size=2))
    # Now and then a type that cannot be read as the other.
    others = list(_VALUES) if draw(st.integers(0, 9)) == 9 else _READ_AS.get(kind, [kind])
    return Pair(kind, draw(st.sampled_from(others)), _VALUES[kind])


@st.composite
def _enum(draw: st.DrawFn) -> Pair:
    name, letters = _name(), st.lists(st.sampled_from("ABCD"), min_size=1, max_size=4, unique=True)
    written, read = draw(letters), draw(letters)
    default = {"default": draw(st.sampled_from(read))} if draw(st.booleans()) else {}
    reader = {"type": "enum", "symbols": read, **_spelt(draw, name), **default}
    return Pair({"type": "enum", "name": name, "symbols": written}, reader, st.sampled_from(written))


@st.composite
def _pair(draw: st.DrawFn, depth: int) -> Pair:
    how = draw(st.integers(0, 9 if depth else 4))
    if how <= 4:
        return draw(_leaf())
    if how == 5:
        one = draw(_pair(depth - 1))
        written, read = ({"type": "array", "items": kind} for kind in one[:2])
        return Pair(written, read, st.lists(one.values, min_size=1, max_size=3))
    if how == 6:
        one = draw(_pair(depth - 1))
        written, read = ({"type": "map", "values": kind} for kind in one[:2])
        return Pair(written, read, st.dictionaries(st.text(max_size=2), one.values, min_size=1, max_size=3))
    return draw(records(depth - 1)) if how == 7 else draw(_optional(depth - 1))


@st.composite
def _optional(draw: st.DrawFn, depth: int) -> Pair:
    """A type that may be null for one side or both, or one of several for one side or both."""
    one = draw(_pair(depth).filter(lambda pair: "null" not in (pair.writer, pair.reader)))
    if "union" in (kind_of(one.writer), kind_of(one.reader)):
        return one
    written, read = [one.writer], [one.reader]
    values = [one.values]
    for kind, extra in (("null", st.none()), ("boolean", st.booleans())):
        if kind_of(one.writer) != kind and draw(st.booleans()):
            place = draw(st.integers(0, len(written)))
            written.insert(place, kind)
            values.insert(place, extra)
        if kind_of(one.reader) != kind and draw(st.integers(0, 2)):
            read.insert(draw(st.integers(0, len(read))), kind)
    reader = read if len(read) > 1 or draw(st.booleans()) else read[0]
    if len(written) == 1 and draw(st.booleans()):
        return Pair(one.writer, reader, one.values)
    return Pair(written, reader, st.one_of([v.map(partial(Branch, n)) for n, v in enumerate(values)]))


@st.composite
def records(draw: st.DrawFn, depth: int) -> Pair:
    """Two versions of a record: fields kept, renamed, dropped, added and moved about."""
    written, read, values = [], [], {}
    for name in draw(st.lists(st.sampled_from("abcde"), max_size=4, unique=True)):
        how = draw(st.sampled_from(["keep", "keep", "rename", "drop", "add"]))
        if how == "add":
            kind, default = draw(st.sampled_from(_DEFAULTS))
            read.append({"name": name, "type": kind, "default": default})
            continue
        one = draw(_pair(depth))
        written.append({"name": name, "type": one.writer})
        values[name] = one.values
        if how != "drop":
            new = {"name": name} if how == "keep" else {"name": f"{name}2", "aliases": ["none", name]}
            read.append({**new, "type": one.reader})
    name = _name()
    writer = {"type": "record", "name": name, "fields": written}
    reader = {"type": "record", **_spelt(draw, name), "fields": draw(st.permutations(read))}
    return Pair(writer, reader, st.fixed_dictionaries(values))


@st.composite
def pairs_with_values(draw: st.DrawFn) -> tuple[Any, Any, list[Any]]:
    """A writer's record type, a reader's that has a column, and a few values of the writer's."""
    pair = draw(records(3).filter(lambda pair: expected_columns(pair.reader)))
    return pair.writer, pair.reader, draw(st.lists(pair.values, min_size=1, max_size=5))


def shaped(spec: Any, value: Any) -> Any:
    """A value as fastavro reads it, as the column of this type should hold it; maps as dicts."""
    kind = kind_of(spec)
    if kind == "union":
        return _of_union(spec, value)
    if kind == "record":
        fields = [field for field in spec["fields"] if field["type"] != "null"]
        return {field["name"]: shaped(field["type"], value[field["name"]]) for field in fields} or True
    if kind == "array":
        return [shaped(spec["items"], one) for one in value]
    if kind == "map":
        return {key: shaped(spec["values"], one) for key, one in value.items()}
    if kind == "float":
        return float(np.float32(value))
    return float(value) if kind == "double" else value


_PYTHON = {"boolean": bool, "int": int, "long": int, "float": float, "double": float, "bytes": bytes}


def _of_union(spec: list[Any], value: Any) -> Any:
    others = [kind for kind in spec if kind != "null"]
    if value is None:
        return None
    if len(others) == 1:
        return shaped(others[0], value)
    types = [_python_type(kind) for kind in others]
    place = types.index(type(value))
    return {f"member{n}": shaped(others[n], value) if n == place else None for n in range(len(others))}


def _python_type(spec: Any) -> type:
    kind = kind_of(spec)
    return {**_PYTHON, "array": list, "map": dict, "record": dict, "fixed": bytes}.get(kind, str)


def in_json(spec: Any, value: Any) -> Any:
    """A value as fastavro reads it, as JSON text should hold it."""
    kind = kind_of(spec)
    if kind == "union":
        return _union_in_json([one for one in spec if one != "null"], value)
    if kind == "record":
        fields = [field for field in spec["fields"] if field["type"] != "null"]
        return {field["name"]: in_json(field["type"], value[field["name"]]) for field in fields} or True
    if kind == "array":
        return [in_json(spec["items"], one) for one in value]
    if kind == "map":
        return {key: in_json(spec["values"], one) for key, one in value.items()}
    return _leaf_in_json(kind, shaped(spec, value))


def _leaf_in_json(kind: str, value: Any) -> Any:
    if kind in ("bytes", "fixed"):
        return base64.b64encode(value).decode()
    return ("Infinity" if value > 0 else "-Infinity") if value in (math.inf, -math.inf) else value


def _union_in_json(others: list[Any], value: Any) -> Any:
    if value is None:
        return None
    if len(others) == 1:
        return in_json(others[0], value)
    place = [_python_type(kind) for kind in others].index(type(value))
    return {f"member{place}": in_json(others[place], value)}
