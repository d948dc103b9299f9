"""How much room records take as columns: an item of a list has a place in each of its columns, whatever little said that it is there.

A payload of a megabyte can hold half a million empty messages or objects, which are gigabytes where each has a thousand columns.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.types.walk import children

# Of one record. One that says something in so many places is larger than what Kafka takes.
MOST_BYTES = 256 << 20

_OFFSET_BYTES = 4


def item_bytes(schema: pa.Schema) -> int:
    """The most that one item of a list or a map of these columns takes, without the items that it holds itself."""
    return max((_in_lists(field.type) for field in schema), default=0)


def _in_lists(of: pa.DataType) -> int:
    inside = [field.type for field in children(of)]
    if kinds.is_struct(of):
        return max(map(_in_lists, inside), default=0)
    return max([sum(map(_width, inside)), *map(_in_lists, inside)]) if inside else 0


def _width(of: pa.DataType) -> int:
    if kinds.is_struct(of):
        return sum(_width(field.type) for field in of)
    try:
        return max(int(of.bit_width) // 8, 1)
    except ValueError:  # of a text, bytes, a list or a map it is where each begins
        return _OFFSET_BYTES
