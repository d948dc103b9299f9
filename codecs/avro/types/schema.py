"""Avro schema texts understood: names resolved, everything that the specification demands of a schema checked.

Avro's specification: https://avro.apache.org/docs/1.12.0/specification/. As in most implementations, the characters of
names are not looked at, and what stands in `default` not before it is used: neither decides what a record's bytes mean.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from distributary.errors import BadSchema

# Deeper than any table can be; it also keeps the parser within Python's own stack.
MAX_DEPTH = 64


class Kind(Enum):
    """What stands on the wire."""

    NULL = "null"
    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BYTES = "bytes"
    STRING = "string"
    FIXED = "fixed"
    ENUM = "enum"
    ARRAY = "array"
    MAP = "map"
    RECORD = "record"
    UNION = "union"


class Logical(Enum):
    """What a value on the wire stands for, where that changes the column's type."""

    DATE = "date"
    TIMESTAMP_MILLIS = "timestamp-millis"
    TIMESTAMP_MICROS = "timestamp-micros"
    LOCAL_MILLIS = "local-timestamp-millis"
    LOCAL_MICROS = "local-timestamp-micros"
    DECIMAL = "decimal"


@dataclass(frozen=True, slots=True)
class Extras:
    """What a record's field says beside its name and type.

    aliases      its names in other schemas
    has_default  whether it has a value for records written without it
    default      that value, as JSON has it; None also where there is none
    """

    aliases: tuple[str, ...] = ()
    has_default: bool = False
    default: Any = None


@dataclass(eq=False, slots=True)
class AvroType:
    """One type of a schema. Named types are one object however often they are named, so there may be cycles.

    parts    a record's field types, a union's branches, or the one type of an array's items or a map's values
    names    a record's field names or an enum's symbols
    extras   of each of a record's fields
    name     a named type's full name
    aliases  its full names in other schemas
    default  an enum's symbol for those it does not have; None where there is none
    counts   what a number counts by a logical type that leaves it a number in its column; empty for all others
    """

    kind: Kind
    parts: tuple[AvroType, ...] = ()
    names: tuple[str, ...] = ()
    extras: tuple[Extras, ...] = ()
    name: str = ""
    aliases: tuple[str, ...] = ()
    default: str | None = None
    logical: Logical | None = None
    counts: str = ""
    size: int = 0
    precision: int = 0
    scale: int = 0


_PRIMITIVES = {
    kind.value: kind
    for kind in (
        *(Kind.NULL, Kind.BOOLEAN, Kind.INT, Kind.LONG, Kind.FLOAT, Kind.DOUBLE, Kind.BYTES, Kind.STRING),
    )
}

_LOGICALS = {
    (Kind.INT, "date"): Logical.DATE,
    **{
        (Kind.LONG, logical.value): logical
        for logical in (
            *(Logical.TIMESTAMP_MILLIS, Logical.TIMESTAMP_MICROS),
            *(Logical.LOCAL_MILLIS, Logical.LOCAL_MICROS),
        )
    },
}

_COUNTS = {
    (Kind.INT, "time-millis"),
    *((Kind.LONG, name) for name in ("time-micros", "timestamp-nanos", "local-timestamp-nanos")),
}

# Spark's and Arrow's 128-bit decimals end here.
MAX_PRECISION = 38


def parse_schema(text: str, imports: Mapping[str, str]) -> AvroType:
    """The type that a schema text describes; `imports` are texts of named types, in any order.

    Raises BadSchema.
    """
    parser = _Parser()
    waiting = list(imports.items())
    while waiting:
        waiting = _parse_some(parser, waiting)
    return parser.parse(text, "the schema")


def _parse_some(parser: _Parser, waiting: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Parses those that name nothing unknown so far, and returns the others. Raises BadSchema if that is all."""
    others, errors = [], []
    for name, text in waiting:
        try:
            parser.parse(text, f"the referenced schema {name!r}")
        except BadSchema as error:
            others.append((name, text))
            errors.append(error)
    if len(others) == len(waiting):
        raise errors[0]
    return others


class _Parser:
    """Reads texts one after another; later ones may name the types of earlier ones."""

    def __init__(self) -> None:
        self.named: dict[str, AvroType] = {}

    def parse(self, text: str, where: str) -> AvroType:
        before = dict(self.named)
        try:
            return self.type_of(json.loads(text), "", 1)
        except (ValueError, RecursionError) as error:
            self.named = before
            raise BadSchema(f"{where} is no Avro schema: {_sentence(error)}") from None

    def type_of(self, spec: Any, namespace: str, depth: int) -> AvroType:
        if depth > MAX_DEPTH:
            raise BadSchema(f"it nests more than {MAX_DEPTH} levels, which no table can hold")
        if isinstance(spec, str):
            return self.called(spec, namespace)
        if isinstance(spec, list):
            return self.union(spec, namespace, depth)
        if isinstance(spec, dict):
            return self.described(spec, namespace, depth)
        raise BadSchema(f"a type is a name, a list or an object, not {json.dumps(spec)[:40]}")

    def called(self, name: str, namespace: str) -> AvroType:
        if name in _PRIMITIVES:
            return AvroType(_PRIMITIVES[name])
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self.named.get(full) or self.named.get(name)
        if found is None:
            raise BadSchema(f"it names the type {full!r}, which neither it nor its references define")
        return found

    def union(self, specs: list[Any], namespace: str, depth: int) -> AvroType:
        branches = tuple(self.type_of(spec, namespace, depth + 1) for spec in specs)
        keys = [branch.name or branch.kind.value for branch in branches]
        if not branches or Kind.UNION.value in keys or len(set(keys)) < len(keys):
            raise BadSchema("a union is empty, holds a union directly, or holds one type twice")
        return AvroType(Kind.UNION, branches)

    def described(self, spec: dict[str, Any], namespace: str, depth: int) -> AvroType:
        kind = spec.get("type")
        if isinstance(kind, dict | list):
            return self.type_of(kind, namespace, depth + 1)
        if not isinstance(kind, str):
            raise BadSchema("a type's object has no 'type'")
        made = self._described.get(kind)
        if made:
            return made(self, spec, namespace, depth)
        return (
            _logical(AvroType(_PRIMITIVES[kind]), spec)
            if kind in _PRIMITIVES
            else self.called(kind, namespace)
        )

    def array(self, spec: dict[str, Any], namespace: str, depth: int) -> AvroType:
        return AvroType(Kind.ARRAY, (self.type_of(_required(spec, "items"), namespace, depth + 1),))

    def map_of(self, spec: dict[str, Any], namespace: str, depth: int) -> AvroType:
        return AvroType(Kind.MAP, (self.type_of(_required(spec, "values"), namespace, depth + 1),))

    def enum(self, spec: dict[str, Any], namespace: str, _depth: int) -> AvroType:
        symbols, default = _symbols(spec), spec.get("default")
        enum = AvroType(Kind.ENUM, names=symbols, default=default if default in symbols else None)
        return self.define(spec, namespace, enum)

    def fixed(self, spec: dict[str, Any], namespace: str, _depth: int) -> AvroType:
        return _logical(self.define(spec, namespace, AvroType(Kind.FIXED, size=_size(spec))), spec)

    def record(self, spec: dict[str, Any], namespace: str, depth: int) -> AvroType:
        record = self.define(spec, namespace, AvroType(Kind.RECORD))
        inner = record.name.rpartition(".")[0]
        fields = _required(spec, "fields")
        if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
            raise BadSchema(f"the fields of {record.name} are no list of objects")
        names = [_name(field, f"a field of {record.name}") for field in fields]
        if len(set(names)) < len(names):
            raise BadSchema(f"{record.name} has two fields of one name")
        record.parts = tuple(self.type_of(_required(field, "type"), inner, depth + 1) for field in fields)
        record.names, record.extras = tuple(names), tuple(map(_extras, fields))
        return record

    def define(self, spec: dict[str, Any], namespace: str, named: AvroType) -> AvroType:
        name = _name(spec, f"a {named.kind.value}")
        own = spec.get("namespace", namespace)
        named.name = name if "." in name or not own else f"{own}.{name}"
        _check_text(named.name)
        if named.name in self.named or named.name in _PRIMITIVES:
            raise BadSchema(f"it defines the type {named.name!r} twice, or by the name of a primitive type")
        self.named[named.name] = named
        space = named.name.rpartition(".")[0]
        named.aliases = tuple(a if "." in a or not space else f"{space}.{a}" for a in _aliases(spec))
        return named

    _described: Mapping[str, Callable[[_Parser, dict[str, Any], str, int], AvroType]] = {
        "array": array,
        "map": map_of,
        "record": record,
        "error": record,
        "enum": enum,
        "fixed": fixed,
    }


def _required(spec: dict[str, Any], key: str) -> Any:
    if key not in spec:
        raise BadSchema(f"{json.dumps(spec.get('name', spec.get('type')))} has no {key!r}")
    return spec[key]


def _name(spec: dict[str, Any], what: str) -> str:
    name = spec.get("name")
    if not isinstance(name, str) or not name:
        raise BadSchema(f"{what} has no name")
    _check_text(name)
    return name


def _check_text(name: str) -> None:
    """Raises ValueError for half of a surrogate pair, which JSON's escapes can spell: neither a column nor a value can hold it."""
    name.encode()


def _aliases(spec: dict[str, Any]) -> tuple[str, ...]:
    """What is listed as other names; anything else there is ignored, since no record's bytes depend on it."""
    listed = spec.get("aliases")
    return tuple(one for one in listed if isinstance(one, str)) if isinstance(listed, list) else ()


def _extras(field: dict[str, Any]) -> Extras:
    return Extras(_aliases(field), "default" in field, field.get("default"))


def _symbols(spec: dict[str, Any]) -> tuple[str, ...]:
    symbols = _required(spec, "symbols")
    right = isinstance(symbols, list) and all(isinstance(symbol, str) for symbol in symbols)
    if not right or not symbols or len(set(symbols)) < len(symbols):
        raise BadSchema(f"the symbols of {json.dumps(spec.get('name'))} are no list of different texts")
    for symbol in symbols:
        _check_text(symbol)
    return tuple(symbols)


def _size(spec: dict[str, Any]) -> int:
    size = _required(spec, "size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**31:
        raise BadSchema(f"the size of {json.dumps(spec.get('name'))} is no whole number of bytes")
    return size


def _logical(plain: AvroType, spec: dict[str, Any]) -> AvroType:
    """The type with its logical type; one that is unknown, or not allowed there, is ignored as Avro demands."""
    name = spec.get("logicalType")
    if not isinstance(name, str):
        return plain
    plain.logical = _LOGICALS.get((plain.kind, name))
    plain.counts = name if (plain.kind, name) in _COUNTS else ""
    if name == "decimal":
        _set_decimal(plain, spec.get("precision"), spec.get("scale", 0))
    return plain


def _set_decimal(plain: AvroType, precision: object, scale: object) -> None:
    if type(precision) is not int or type(scale) is not int:
        return
    most = {Kind.BYTES: MAX_PRECISION, Kind.FIXED: min(_digits(plain.size), MAX_PRECISION)}.get(plain.kind, 0)
    if 1 <= precision <= most and 0 <= scale <= precision:
        plain.logical, plain.precision, plain.scale = Logical.DECIMAL, precision, scale


def _digits(size: int) -> int:
    """How many decimal digits always fit into so many bytes."""
    return math.floor(math.log10(2) * (8 * size - 1)) if size else 0


def _sentence(error: Exception) -> str:
    return "it nests too deeply" if isinstance(error, RecursionError) else str(error)
