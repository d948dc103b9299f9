"""Which of a reader's types a writer's type is: Avro's rules on names, aliases and promotions.

https://avro.apache.org/docs/1.12.0/specification/#schema-resolution
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from distributary.codecs.avro_schema import AvroType, Kind

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
