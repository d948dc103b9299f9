"""What is still to be read up to an end, and the next piece of it."""

from __future__ import annotations

from distributary.ingest.kafka.offsets import Offsets, Positions


def remaining(read: Positions, ends: Positions) -> int:
    """How many offsets are to be read yet where these were read."""
    return sum(
        max(0, end - read.get(topic, {}).get(number, 0))
        for topic, numbers in ends.items()
        for number, end in numbers.items()
    )


def next_range(read: Positions, ends: Positions, most: int) -> Offsets:
    """The next offsets of each partition, at most so many together (one of each, where partitions are more); nothing at the end.

    Each partition gives the same part of what it has left, so that all of them come to their ends together.
    """
    left = remaining(read, ends)
    if not left:
        return {}
    return {
        topic: {
            number: (at, at + _share(max(0, ends.get(topic, {}).get(number, at) - at), most, left))
            for number, at in numbers.items()
        }
        for topic, numbers in read.items()
    }


def _share(of: int, most: int, left: int) -> int:
    return of if left <= most else min(of, max(1, of * most // left))
