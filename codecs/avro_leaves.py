"""How values without parts become the reader's: promotions, and what a logical type on either side means for them.

Avro resolves what is on the wire and then looks at the reader's logical type alone, by which milliseconds become microseconds
a thousand times too small. Here a value stays what it stands for: where that cannot be, the schemas do not fit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from distributary.codecs.avro_schema import AvroType, Logical
from distributary.codecs.avro_steps import Cast, Keep, Step, Unreadable, named
from distributary.codecs.avro_types import Column, leaf

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
