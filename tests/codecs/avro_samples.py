"""Random Avro schemas and values, how a value is written, and what it should become, by independent rules.

Leaves are written by fastavro. Arrays, maps and unions are written here, since only so it is known which branch of a
union is meant, and blocks take every form that the specification allows.
"""

from __future__ import annotations

import io
import itertools
import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

import fastavro
from hypothesis import strategies as st

from distributary.registry.base import Schema

UTC = timezone.utc


class Branch(NamedTuple):
    """A value of a union: which branch it is of."""

    number: int
    value: Any


def schema(spec: Any, imports: dict[str, str] | None = None, id_: int = 1) -> Schema:
    return Schema(id_, "AVRO", json.dumps(spec), imports=imports or {})


def record(*types: Any, name: str = "R") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"c{n}", "type": kind} for n, kind in enumerate(types)],
    }


def long(value: int) -> bytes:
    """A number as Avro writes it."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def by_fastavro(spec: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(spec, _write_hint=False), value)
    return out.getvalue()


def kind_of(spec: Any) -> str:
    if isinstance(spec, list):
        return "union"
    return str(spec["type"] if isinstance(spec, dict) else spec)


def write(spec: Any, value: Any, blocks: int = 0) -> bytes:
    """A value's bytes. `blocks`: 0 one block, 1 a block an item, 2 a block an item with its size in bytes."""
    kind = kind_of(spec)
    if kind == "union":
        return long(value.number) + write(spec[value.number], value.value, blocks)
    if kind == "record":
        return b"".join(write(field["type"], value[field["name"]], blocks) for field in spec["fields"])
    if kind == "array":
        return _blocks([write(spec["items"], one, blocks) for one in value], blocks)
    if kind == "map":
        return _blocks(
            [by_fastavro("string", k) + write(spec["values"], v, blocks) for k, v in value.items()], blocks
        )
    return by_fastavro(spec, value)


def _blocks(items: list[bytes], blocks: int) -> bytes:
    if not items:
        return long(0)
    if blocks == 0:
        return long(len(items)) + b"".join(items) + long(0)
    if blocks == 1:
        return b"".join(long(1) + item for item in items) + long(0)
    return b"".join(long(-1) + long(len(item)) + item for item in items) + long(0)


def untagged(spec: Any, value: Any) -> Any:
    """The value as fastavro reads it, which does not tell branches."""
    kind = kind_of(spec)
    if kind == "union":
        return untagged(spec[value.number], value.value)
    if kind == "record":
        return {field["name"]: untagged(field["type"], value[field["name"]]) for field in spec["fields"]}
    if kind == "array":
        return [untagged(spec["items"], one) for one in value]
    if kind == "map":
        return {key: untagged(spec["values"], one) for key, one in value.items()}
    return value


def expected(spec: Any, value: Any) -> Any:
    """What a column of this type should hold; maps as dicts."""
    kind = kind_of(spec)
    if kind == "union":
        return _of_union(spec, value)
    if kind == "record":
        return {
            field["name"]: expected(field["type"], value[field["name"]])
            for field in spec["fields"]
            if field["type"] != "null"
        } or True
    if kind == "array":
        return [expected(spec["items"], one) for one in value]
    if kind == "map":
        return {key: expected(spec["values"], one) for key, one in value.items()}
    return value


def _of_union(spec: list[Any], value: Branch) -> Any:
    others = [kind for kind in spec if kind != "null"]
    if spec[value.number] == "null":
        return None
    one = expected(spec[value.number], value.value)
    kinds = {kind_of(kind) for kind in others}
    if len(others) == 1:
        return one
    if kinds == {"int", "long"}:
        return _number(spec[value.number], value.value)
    if kinds == {"float", "double"}:
        return float(one)
    place = others.index(spec[value.number])
    return {f"member{n}": one if n == place else None for n in range(len(others))}


def _number(spec: Any, value: Any) -> int:
    """What is written of a value, whatever it stands for."""
    written = io.BytesIO(write(spec, value))
    number: Any = fastavro.schemaless_reader(written, {"type": kind_of(spec)}, None)
    return int(number)


_MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999))
_FLOATS = st.floats(allow_nan=False, width=32)
_LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("float", _FLOATS),
    ("double", st.floats(allow_nan=False)),
    ("bytes", st.binary(max_size=5)),
    ("string", st.text(max_size=5)),
    ({"type": "string", "logicalType": "unknown-to-all"}, st.text(max_size=3)),
    ({"type": "int", "logicalType": "date"}, st.dates()),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        _MOMENTS.map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000, tzinfo=UTC)),
    ),
    (
        {"type": "long", "logicalType": "timestamp-micros"},
        _MOMENTS.map(lambda t: t.replace(tzinfo=UTC)),
    ),
    (
        {"type": "long", "logicalType": "local-timestamp-millis"},
        _MOMENTS.map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    ),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, _MOMENTS),
]
_DECIMALS = [(1, 0), (9, 2), (18, 18), (19, 4), (38, 0), (38, 10), (38, 38)]
_COUNTER = itertools.count()


def _decimal(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    end = 10**precision - 1
    return st.integers(-end, end).map(lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)))


def _name() -> str:
    return f"N{next(_COUNTER)}"


@st.composite
def _leaf(draw: st.DrawFn) -> tuple[Any, st.SearchStrategy[Any]]:
    which = draw(st.integers(0, len(_LEAVES) + 2))
    if which < len(_LEAVES):
        return _LEAVES[which]
    if which == len(_LEAVES):
        symbols = draw(st.lists(st.sampled_from("ABCDEFGH"), min_size=1, max_size=4, unique=True))
        return {"type": "enum", "name": _name(), "symbols": symbols}, st.sampled_from(symbols)
    if which == len(_LEAVES) + 1:
        size = draw(st.integers(1, 4))
        return {"type": "fixed", "name": _name(), "size": size}, st.binary(min_size=size, max_size=size)
    precision, scale = draw(st.sampled_from(_DECIMALS))
    logical = {"logicalType": "decimal", "precision": precision, "scale": scale}
    base: dict[str, Any] = (
        {"type": "fixed", "name": _name(), "size": 16} if draw(st.booleans()) else {"type": "bytes"}
    )
    return {**base, **logical}, _decimal(precision, scale)


Typed = tuple[Any, st.SearchStrategy[Any]]


@st.composite
def _typed(draw: st.DrawFn, depth: int) -> Typed:
    how = draw(st.integers(0, 9 if depth else 4))
    if how <= 4:
        return draw(_leaf())
    if how == 5:
        items, values = draw(_typed(depth - 1))
        return {"type": "array", "items": items}, st.lists(values, max_size=3)
    if how == 6:
        items, values = draw(_typed(depth - 1))
        return {"type": "map", "values": items}, st.dictionaries(st.text(max_size=3), values, max_size=3)
    if how == 7:
        return draw(_record(depth - 1))
    return draw(_union(depth - 1))


@st.composite
def _union(draw: st.DrawFn, depth: int) -> Typed:
    parts: dict[str, Typed] = {}
    for _ in range(draw(st.integers(1, 4))):
        spec, values = draw(_typed(depth))
        kind = kind_of(spec)
        if kind != "union":
            parts.setdefault(spec["name"] if kind in ("record", "enum", "fixed") else kind, (spec, values))
    found = list(parts.values())
    if draw(st.booleans()) or not found:
        found.insert(draw(st.integers(0, len(found))), ("null", st.none()))
    if len(found) == 1 and found[0][0] == "null":
        found.append(("long", st.integers(-9, 9)))
    branches = [values.map(partial(Branch, number)) for number, (_, values) in enumerate(found)]
    return [spec for spec, _ in found], st.one_of(branches)


@st.composite
def _record(draw: st.DrawFn, depth: int, least: int = 0) -> Typed:
    names = draw(
        st.lists(
            st.sampled_from(["a", "b", "A", "nonce", "f0", "value"]), min_size=least, max_size=4, unique=True
        )
    )
    parts = {name: draw(_typed(depth)) if draw(st.integers(0, 9)) else ("null", st.none()) for name in names}
    fields = [{"name": name, "type": spec} for name, (spec, _) in parts.items()]
    values = st.fixed_dictionaries({name: values for name, (_, values) in parts.items()})
    return {"type": "record", "name": _name(), "fields": fields}, values


@st.composite
def schemas_with_values(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    """A record type that has a column, and a few values of it."""
    spec, values = draw(_record(3, 1).filter(lambda typed: expected_columns(typed[0])))
    return spec, draw(st.lists(values, min_size=1, max_size=5))


def expected_columns(spec: Any) -> list[str]:
    return [field["name"] for field in spec["fields"] if field["type"] != "null"]


def moment(days: int, micros: int = 0) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=days, microseconds=micros)


def day(days: int) -> date:
    return date(1970, 1, 1) + timedelta(days=days)
