"""A payload read byte by byte, each step checked: nothing is taken that is not there."""

from __future__ import annotations

from typing import Final

from distributary.codecs import reasons
from distributary.codecs.broken_payloads import Undecodable

# How deeply values that contain themselves may nest, every record, array and map in them counted.
MAX_NESTING: Final = 100

# How many values that take no byte (of `array<null>` and its like) a payload may ask for.
MAX_EMPTY_ITEMS: Final = 10_000


def refused(reason: str) -> Undecodable:
    """What to raise for this reason."""
    return Undecodable(reason, reasons.SENTENCES[reason])


class Cursor:
    """Where a payload has been read to."""

    __slots__ = ("_at", "_data", "_depth", "_empty", "_size")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self._size = len(data)
        self._at = at
        self._depth = 0
        self._empty = 0

    def long(self) -> int:
        """A number of up to 64 bits, zigzag in groups of seven bits. Raises Undecodable."""
        data, at = self._data, self._at
        value = shift = 0
        try:
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
                if shift > 63:
                    raise refused(reasons.MALFORMED)
        except IndexError:
            raise refused(reasons.MALFORMED) from None
        if value >> 64:
            raise refused(reasons.MALFORMED)
        self._at = at
        return (value >> 1) ^ -(value & 1)

    def take(self, count: int) -> bytes:
        """So many bytes. Raises Undecodable."""
        at = self._at
        if count < 0 or count > self._size - at:
            raise refused(reasons.MALFORMED)
        self._at = at + count
        return self._data[at : at + count]

    @property
    def at(self) -> int:
        """How many bytes were read, or passed over."""
        return self._at

    def skip(self, count: int) -> None:
        """Pass over so many bytes. Raises Undecodable."""
        if count < 0 or count > self._size - self._at:
            raise refused(reasons.MALFORMED)
        self._at += count

    def block(self, smallest: int) -> int:
        """How many items the next block of an array or map has; 0 ends it.

        `smallest` is the fewest bytes an item takes: a block that cannot be in the payload is refused before a single
        item of it is read. Raises Undecodable.
        """
        count = self.long()
        if count < 0:
            count = -count
            if self.long() < 0:
                raise refused(reasons.MALFORMED)
        if not smallest:
            self._empty += count
            if self._empty > MAX_EMPTY_ITEMS:
                raise refused(reasons.TOO_MANY_ITEMS)
        elif count * smallest > self._size - self._at:
            raise refused(reasons.MALFORMED)
        return count

    def enter(self) -> None:
        """One level deeper. Raises Undecodable."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise refused(reasons.TOO_DEEP)

    def leave(self) -> None:
        """One level up again."""
        self._depth -= 1

    def finish(self) -> None:
        """Nothing may be left. Raises Undecodable."""
        if self._at != self._size:
            raise refused(reasons.TRAILING_BYTES)
