"""Which of a reader's types a writer's type is, by names, aliases and promotions, and the step for one without parts.

https://avro.apache.org/docs/1.12.0/specification/#schema-resolution
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from distributary.codecs.avro.resolution.steps import Cast, Keep, Step, Unreadable, named
from distributary.codecs.avro.types.columns import Column, leaf
from distributary.codecs.avro.types.schema import AvroType, Kind, Logical

# What a value of the one kind can be read as besides itself.
PROMOTIONS: Final = {
    Kind.INT: (Kind.LONG, Kind.FLOAT, Kind.DOUBLE),
    Kind.LONG: (Kind.FLOAT, Kind.DOUBLE),
    Kind.FLOAT: (Kind.DOUBLE,),
    Kind.STRING: (Kind.BYTES,),
    Kind.BYTES: (Kind.STRING,),
}


def matches(writer: AvroType, reader: AvroType) -> bool:
    """Whether Avro says that the two match, without a look at what is in records and unions."""
    if Kind.UNION in (writer.kind, reader.kind):
        return True
    if writer.kind is not reader.kind:
        return reader.kind in PROMOTIONS.get(writer.kind, ())
    if writer.kind in (Kind.ARRAY, Kind.MAP):
        return matches(writer.parts[0], reader.parts[0])
    return (writer.size == reader.size) and (not reader.name or goes_by(writer, reader))


def goes_by(writer: AvroType, reader: AvroType) -> bool:
    """Whether the writer's named type is called what the reader's is called, or was; namespaces do not count."""
    return _unqualified(writer.name) in map(_unqualified, (reader.name, *reader.aliases))


def branch_for(writer: AvroType, branches: Sequence[AvroType]) -> int | None:
    """Which of the reader's branches takes what is of the writer's type; None where none does.

    That of the very type, else the first that matches: Avro's specification says "the first", its Java library
    does this, and so no number changes its kind where it need not.
    """
    fitting = [number for number, branch in enumerate(branches) if matches(writer, branch)]
    very = [number for number in fitting if _is_very(writer, branches[number])]
    return next(iter([*very, *fitting]), None)


def same(first: AvroType, second: AvroType) -> bool:
    """Whether two types are one in all that decides what becomes of a value."""
    seen: set[tuple[int, int]] = set()
    waiting = [(first, second)]
    while waiting:
        one, other = waiting.pop()
        if (id(one), id(other)) in seen:
            continue
        seen.add((id(one), id(other)))
        if _signature(one) != _signature(other):
            return False
        waiting.extend(zip(one.parts, other.parts, strict=True))
    return True


def _signature(avro: AvroType) -> tuple[object, ...]:
    logical = (avro.logical, avro.counts, avro.precision, avro.scale)
    return avro.kind, avro.name, avro.names, avro.size, len(avro.parts), *logical


def _is_very(writer: AvroType, reader: AvroType) -> bool:
    return writer.kind is reader.kind and writer.name == reader.name


def _unqualified(name: str) -> str:
    return name.rpartition(".")[2]


# In each group columns are the same, whatever was counted on the wire.
_SAME_TIMES: Final = (
    {Logical.TIMESTAMP_MILLIS, Logical.TIMESTAMP_MICROS},
    {Logical.LOCAL_MILLIS, Logical.LOCAL_MICROS},
)


def leaf_step(writer: AvroType, target: Column, place: str) -> Step:
    """The step for a pair that matches by Avro's rules. Raises Unreadable where the two stand for different things."""
    view = _view(writer, target.avro)
    if view is None:
        raise Unreadable(place, f"{named(writer)} does not stand for what {named(target.avro)} does")
    column = leaf(view)
    return (Keep if column.type.equals(target.type) else Cast)(column, target)


def _view(writer: AvroType, reader: AvroType) -> AvroType | None:
    """The writer's type, as it has to be read so that the reader's follows from it; None where nothing does."""
    written, read = _stands_for(writer), _stands_for(reader)
    if writer.kind is not reader.kind:
        return None if read or written is Logical.DECIMAL else AvroType(writer.kind)
    if written and read:
        return writer if _agree(writer, reader) else None
    # One of the two says nothing of the number or bytes: the other decides.
    return replace(reader, name=writer.name)


def _stands_for(avro: AvroType) -> Logical | str:
    return avro.logical or avro.counts


def _agree(writer: AvroType, reader: AvroType) -> bool:
    if writer.logical is Logical.DECIMAL and reader.logical is Logical.DECIMAL:
        more_digits = reader.precision - reader.scale >= writer.precision - writer.scale
        return more_digits and reader.scale >= writer.scale
    if _stands_for(writer) == _stands_for(reader):
        return True
    return any({writer.logical, reader.logical} <= group for group in _SAME_TIMES)
