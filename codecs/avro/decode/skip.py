"""Where records end that stand one behind the other, as in a container's block: each is passed over, and none of it made.

What a value says, such as a time of no day or a text that is no UTF-8, is not looked at: that concerns its record alone, and who
decodes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from distributary.codecs import reasons
from distributary.codecs.avro.decode.cursor import Cursor, refused
from distributary.codecs.avro.types.schema import AvroType, Kind

Skip: TypeAlias = Callable[[Cursor], None]


def skipping(avro: AvroType) -> Skip:
    """What passes over a value of this type. It raises Undecodable, or RecursionError where values nest too deeply."""
    return _Skips().of(avro)


def takes_bytes(avro: AvroType, above: frozenset[int] = frozenset()) -> bool:
    """Whether each value of this type takes a byte at least."""
    if avro.kind is Kind.RECORD:
        # What contains itself has to say, in a byte at least, that it does not.
        inside = above | {id(avro)}
        return id(avro) in above or any(takes_bytes(part, inside) for part in avro.parts)
    return avro.size > 0 if avro.kind is Kind.FIXED else avro.kind is not Kind.NULL


class _Skips:
    """Makes a function that passes over a value, for each type of a schema; a record's once, however often it is named."""

    def __init__(self) -> None:
        self._made: set[int] = set()
        self._records: dict[int, Skip] = {}

    def of(self, avro: AvroType) -> Skip:
        nested = self._nested.get(avro.kind)
        if nested is not None:
            return nested(self, avro)
        if avro.kind is Kind.FIXED:
            size = avro.size
            return lambda cursor: cursor.skip(size)
        return _LEAVES[avro.kind]

    def record(self, avro: AvroType) -> Skip:
        key = id(avro)
        if key not in self._made:
            self._made.add(key)
            parts = tuple(self.of(part) for part in avro.parts if part.kind is not Kind.NULL)

            def skip(cursor: Cursor) -> None:
                for part in parts:
                    part(cursor)

            self._records[key] = skip
        # Within its own making it is only named.
        return self._records.get(key) or partial(self._skip_record, key)

    def _skip_record(self, key: int, cursor: Cursor) -> None:
        self._records[key](cursor)

    def array(self, avro: AvroType) -> Skip:
        return _in_blocks(self.of(avro.parts[0]) if takes_bytes(avro.parts[0]) else None)

    def map_of(self, avro: AvroType) -> Skip:
        value = self.of(avro.parts[0])

        def entry(cursor: Cursor) -> None:
            cursor.skip(cursor.long())
            value(cursor)

        return _in_blocks(entry)

    def union(self, avro: AvroType) -> Skip:
        branches = tuple(self.of(part) for part in avro.parts)

        def skip(cursor: Cursor) -> None:
            index = cursor.long()
            if not 0 <= index < len(branches):
                raise refused(reasons.MALFORMED)
            branches[index](cursor)

        return skip

    _nested: Mapping[Kind, Callable[[_Skips, AvroType], Skip]] = {
        Kind.RECORD: record,
        Kind.ARRAY: array,
        Kind.MAP: map_of,
        Kind.UNION: union,
    }


def _in_blocks(item: Skip | None) -> Skip:
    """Passes over the blocks of an array or a map; items that take no byte are nothing to pass over."""

    def skip(cursor: Cursor) -> None:
        while count := cursor.long():
            if count < 0:
                # Then the block says how many bytes it has.
                cursor.skip(cursor.long())
            elif item is not None:
                for _ in range(count):
                    item(cursor)

    return skip


def _number(cursor: Cursor) -> None:
    cursor.long()


def _sized(cursor: Cursor) -> None:
    cursor.skip(cursor.long())


_LEAVES: Mapping[Kind, Skip] = {
    Kind.NULL: lambda _: None,
    Kind.BOOLEAN: lambda cursor: cursor.skip(1),
    Kind.INT: _number,
    Kind.LONG: _number,
    Kind.ENUM: _number,
    Kind.FLOAT: lambda cursor: cursor.skip(4),
    Kind.DOUBLE: lambda cursor: cursor.skip(8),
    Kind.BYTES: _sized,
    Kind.STRING: _sized,
}
