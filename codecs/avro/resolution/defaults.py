"""A field's default, JSON in its schema, as the bytes that a record would have had: so it is read as any other value.

https://avro.apache.org/docs/1.12.0/specification/#schema-record has which JSON stands for which type.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from distributary.codecs.avro.types.schema import AvroType, Kind
from distributary.errors import BadSchema

_RANGES = {Kind.INT: 2**31, Kind.LONG: 2**63}

_FLOATS = {Kind.FLOAT: "<f", Kind.DOUBLE: "<d"}

# As Java's Avro takes them, where JSON has no number.
_NOT_FINITE = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf", "INF": "inf", "-INF": "-inf"}


# What a default leaves out has a default of its own: a few types can make more of them than anybody can write.
_MOST_VALUES = 100_000


class _TooMany(Exception):
    """A default makes more values than _MOST_VALUES."""


def default_bytes(avro: AvroType, value: Any) -> bytes:
    """The value as Avro writes it. Raises BadSchema where it is none of the type's, or makes too many values."""
    try:
        return _Writing().of(avro, value)
    except _TooMany:
        raise BadSchema(
            f"the default makes more than {_MOST_VALUES} values, with the defaults of what it leaves out"
        ) from None


def _refused(avro: AvroType) -> BadSchema:
    return BadSchema(f"the default is no value of its type, {avro.name or avro.kind.value}")


def _check(avro: AvroType, right: object) -> None:
    if not right:
        raise _refused(avro)


def _null(avro: AvroType, value: Any) -> bytes:
    _check(avro, value is None)
    return b""


def _boolean(avro: AvroType, value: Any) -> bytes:
    _check(avro, isinstance(value, bool))
    return bytes([value])


def _whole(avro: AvroType, value: Any) -> bytes:
    end = _RANGES[avro.kind]
    _check(avro, type(value) is int and -end <= value < end)
    return long_bytes(value)


def _float(avro: AvroType, value: Any) -> bytes:
    number = _NOT_FINITE.get(value, "") if isinstance(value, str) else value
    _check(avro, number != "" and not isinstance(number, bool))
    return struct.pack(_FLOATS[avro.kind], float(number))


def _string(avro: AvroType, value: Any) -> bytes:
    _check(avro, isinstance(value, str))
    return _counted(value.encode())


def _raw(avro: AvroType, value: Any) -> bytes:
    """Code points 0 to 255 stand for bytes."""
    _check(avro, isinstance(value, str))
    raw: bytes = value.encode("latin-1")
    if avro.kind is Kind.BYTES:
        return _counted(raw)
    _check(avro, len(raw) == avro.size)
    return raw


def _enum(avro: AvroType, value: Any) -> bytes:
    return long_bytes(avro.names.index(value))


def long_bytes(value: int) -> bytes:
    """A number as Avro writes it: zigzag, in groups of seven bits."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def _counted(raw: bytes) -> bytes:
    return long_bytes(len(raw)) + raw


def _block(items: list[bytes]) -> bytes:
    return (long_bytes(len(items)) + b"".join(items) if items else b"") + long_bytes(0)


_LEAVES: Mapping[Kind, Callable[[AvroType, Any], bytes]] = {
    Kind.NULL: _null,
    Kind.BOOLEAN: _boolean,
    Kind.INT: _whole,
    Kind.LONG: _whole,
    Kind.FLOAT: _float,
    Kind.DOUBLE: _float,
    Kind.BYTES: _raw,
    Kind.STRING: _string,
    Kind.FIXED: _raw,
    Kind.ENUM: _enum,
}


class _Writing:
    """Writes one default, counting its values so that no schema can make it run for ever."""

    def __init__(self) -> None:
        self.values = 0

    def of(self, avro: AvroType, value: Any) -> bytes:
        self.values += 1
        if self.values > _MOST_VALUES:
            raise _TooMany
        try:
            nested = self._nested.get(avro.kind)
            return nested(self, avro, value) if nested else _LEAVES[avro.kind](avro, value)
        except (TypeError, ValueError, OverflowError, struct.error, RecursionError):
            raise _refused(avro) from None

    def array(self, avro: AvroType, value: Any) -> bytes:
        _check(avro, isinstance(value, list))
        return _block([self.of(avro.parts[0], one) for one in value])

    def map_of(self, avro: AvroType, value: Any) -> bytes:
        _check(avro, isinstance(value, dict))
        return _block([_counted(key.encode()) + self.of(avro.parts[0], one) for key, one in value.items()])

    def record(self, avro: AvroType, value: Any) -> bytes:
        """What the default leaves out has a default of its own."""
        _check(avro, isinstance(value, dict))
        out = []
        for name, part, extras in zip(avro.names, avro.parts, avro.extras, strict=True):
            _check(avro, name in value or extras.has_default)
            out.append(self.of(part, value.get(name, extras.default)))
        return b"".join(out)

    def union(self, avro: AvroType, value: Any) -> bytes:
        """Of the first branch that has such a value; before Avro 1.12 that had to be the first branch of all."""
        for number, branch in enumerate(avro.parts):
            try:
                return long_bytes(number) + self.of(branch, value)
            except BadSchema:
                continue
        raise _refused(avro)

    _nested: Mapping[Kind, Callable[[_Writing, AvroType, Any], bytes]] = {
        Kind.ARRAY: array,
        Kind.MAP: map_of,
        Kind.RECORD: record,
        Kind.UNION: union,
    }
