"""Where each record of a container's block ends: many blocks at once by their values, and where that does not come out even one by one."""

from __future__ import annotations

import numpy as np

from distributary.codecs.avro.decode.cursor import Cursor
from distributary.codecs.avro.decode.fast import can_read
from distributary.codecs.avro.decode.sizes import Sizes
from distributary.codecs.avro.decode.skip import skipping, takes_bytes
from distributary.codecs.avro.types.columns import columns_of
from distributary.codecs.avro.types.schema import parse_schema
from distributary.codecs.broken_payloads import Undecodable
from distributary.codecs.wire.binary_rows import Longs

MOST_EMPTY = 1 << 20
"""How many records that take no byte a block may have: they say nothing, and a few bytes could ask for any number of them."""

# Not the bytes' fault: see broken_payloads.py.
_NOT_THE_BYTES = (KeyboardInterrupt, SystemExit, MemoryError)


class RecordEnds:
    """Tells where records of one schema end."""

    def __init__(self, schema: str) -> None:
        """Raises BadSchema."""
        top = parse_schema(schema, {})
        columns = columns_of(top)
        self._skip, self._takes_bytes = skipping(top), takes_bytes(top)
        self._sizes = Sizes(columns) if columns.smallest and can_read(columns) else None

    def quickly(self, count: int, block: bytes) -> Longs | None:
        """Where so many records end that are the whole block; None where that cannot be told without a look at each."""
        if self._sizes is None or not 0 < count <= len(block):
            return None
        try:
            sizes = self._sizes.of(count, block)
        except _NOT_THE_BYTES:
            raise
        # A panic of native code arrives as a BaseException of its own.
        except BaseException:  # noqa: BLE001
            return None
        even = len(sizes) == count and int(sizes.sum()) == len(block)
        return np.cumsum(sizes) if even else None

    def one_by_one(self, count: int, block: bytes) -> Longs | None:
        """The same by a look at each; None where the block is no such records, or something is left of it."""
        if count < 0 or (count > len(block) if self._takes_bytes else count > MOST_EMPTY):
            return None
        ends, at = np.zeros(count, np.int64), 0
        try:
            for number in range(count):
                cursor = Cursor(block, at)
                self._skip(cursor)
                at = ends[number] = cursor.at
        except (Undecodable, RecursionError):
            return None
        return ends if at == len(block) else None
