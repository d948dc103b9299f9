"""How often each Kafka offset turned up, in a byte an offset, wherever in the topic the offsets lie."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.uint8]

Offsets = npt.NDArray[np.int64]

Partition = tuple[str, int]

BLOCK = 1 << 16

MOST = 255

NONE: Counts = np.zeros(BLOCK, np.uint8)


class Coverage:
    """Counts offsets by topic and partition; a count stays at 255 once it is there."""

    def __init__(self) -> None:
        self._blocks: dict[Partition, dict[int, Counts]] = {}

    def add(self, partition: Partition, offsets: Offsets) -> None:
        """Counts each of these offsets once more."""
        blocks = self._blocks.setdefault(partition, {})
        numbers = offsets // BLOCK
        for number in np.unique(numbers).tolist():
            found = np.bincount(offsets[numbers == number] - number * BLOCK, minlength=BLOCK)
            before = blocks.get(number)
            total = found if before is None else found + before
            blocks[number] = np.minimum(total, MOST).astype(np.uint8)

    def join(self, other: Coverage) -> None:
        """Counts each offset as often more as another coverage does."""
        for partition, number, counts in other:
            mine = self._blocks.setdefault(partition, {})
            total = mine.get(number, NONE).astype(np.int64) + counts
            mine[number] = np.minimum(total, MOST).astype(np.uint8)

    def leave_out(self, other: Coverage) -> None:
        """Counts each offset as often less as another coverage counts it, as far as it does at all."""
        for partition, number, counts in other:
            mine = self._blocks.get(partition, {})
            if number in mine:
                mine[number] = mine[number] - np.minimum(mine[number], counts)

    def __iter__(self) -> Iterator[tuple[Partition, int, Counts]]:
        for partition, blocks in self._blocks.items():
            yield from ((partition, number, counts) for number, counts in blocks.items())

    def partitions(self) -> list[Partition]:
        """Every partition of which an offset was counted."""
        return sorted(self._blocks)

    def total(self, partition: Partition) -> int:
        """The sum of a partition's counts."""
        return sum(int(counts.sum(dtype=np.int64)) for counts in self._blocks.get(partition, {}).values())

    def within(self, partition: Partition, start: int, end: int) -> int:
        """The sum of the counts from `start` to before `end`."""
        blocks = self._blocks.get(partition, {})
        numbers = range(start // BLOCK, -(-end // BLOCK))
        # Offsets of a source that numbers files or versions lie far apart: most of a range has no block.
        there = (
            [n for n in blocks if n in numbers]
            if len(blocks) < len(numbers)
            else [n for n in numbers if n in blocks]
        )
        return sum(
            int(blocks[n][max(start - n * BLOCK, 0) : end - n * BLOCK].sum(dtype=np.int64)) for n in there
        )

    def count(self, partition: Partition, offset: int) -> int:
        """How often this offset turned up."""
        return self.within(partition, offset, offset + 1)

    def lacking(self, partition: Partition, offsets: Offsets) -> Offsets:
        """Those of these offsets that never turned up."""
        blocks = self._blocks.get(partition, {})
        found = np.zeros(len(offsets), bool)
        numbers = offsets // BLOCK
        for number in np.unique(numbers).tolist():
            here = numbers == number
            found[here] = blocks.get(number, NONE)[offsets[here] - number * BLOCK] > 0
        return offsets[~found]

    def more_than_once(self, partition: Partition, beside: Coverage) -> Offsets:
        """The offsets that turned up several times, here or in the other or in both together."""
        found = [np.zeros(0, np.int64)]
        mine, others = self._blocks.get(partition, {}), beside._blocks.get(partition, {})
        for number in sorted({*mine, *others}):
            counts = mine.get(number, NONE).astype(np.int64) + others.get(number, NONE)
            found.append(np.flatnonzero(counts > 1) + number * BLOCK)
        return np.concatenate(found)

    def missing(self, partition: Partition, start: int, end: int) -> Offsets:
        """The offsets from `start` to before `end` that never turned up."""
        found = [
            np.flatnonzero(counts == 0) + first for first, counts in self.stretches(partition, start, end)
        ]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def stretches(self, partition: Partition, start: int, end: int) -> Iterator[tuple[int, Counts]]:
        """The counts from `start` to before `end`, block by block, with the first offset of each."""
        blocks = self._blocks.get(partition, {})
        for number in range(start // BLOCK, -(-end // BLOCK)):
            first, last = max(start, number * BLOCK), min(end, (number + 1) * BLOCK)
            counts = blocks.get(number)
            if counts is None:
                yield first, np.zeros(last - first, np.uint8)
            else:
                yield first, counts[first - number * BLOCK : last - number * BLOCK]
