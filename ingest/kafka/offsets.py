"""Offsets of topics and partitions: ranges and single places, as values and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

# The offset of the first record and the one after the last: topic -> partition -> (start, end).
Offsets = dict[str, dict[int, tuple[int, int]]]

# One offset a partition: where to begin, or where something ends.
Positions = dict[str, dict[int, int]]

# Stretches of offsets of a partition, each from its first to the one behind its last, ascending: topic -> partition -> stretches.
Stretches = Mapping[str, Mapping[int, Sequence[tuple[int, int]]]]


def starts(offsets: Offsets) -> Positions:
    """Where each partition starts."""
    return {topic: {number: pair[0] for number, pair in ranges.items()} for topic, ranges in offsets.items()}


def ends(offsets: Offsets) -> Positions:
    """Where each partition ends."""
    return {topic: {number: pair[1] for number, pair in ranges.items()} for topic, ranges in offsets.items()}


def highest(*of: Positions) -> Positions:
    """The highest of several positions, of each partition that one of them names."""
    return _chosen(of, max)


def lowest(*of: Positions) -> Positions:
    """The lowest of them."""
    return _chosen(of, min)


def _chosen(of: Sequence[Positions], choose: Callable[[int, int], int]) -> Positions:
    found: Positions = {}
    for positions in of:
        for topic, numbers in positions.items():
            mine = found.setdefault(topic, {})
            for number, position in numbers.items():
                mine[number] = choose(position, mine.get(number, position))
    return found


def differences(left: Offsets, right: Offsets) -> list[str]:
    """The partitions in which two differ, in words; an empty list means that they are equal."""
    places = sorted({(topic, number) for side in (left, right) for topic in side for number in side[topic]})
    pairs = ((place, _range(left, place), _range(right, place)) for place in places)
    return [
        f"{topic}/{number}: {one} against {other}" for (topic, number), one, other in pairs if one != other
    ]


def offsets_to_json(offsets: Offsets) -> dict[str, dict[str, list[int]]]:
    """The ranges with JSON's keys."""
    return {
        topic: {str(number): list(pair) for number, pair in ranges.items()}
        for topic, ranges in offsets.items()
    }


def offsets_from_json(value: Mapping[str, Mapping[str, list[int]]]) -> Offsets:
    """What `offsets_to_json` gave. Raises ValueError for anything else."""
    return {
        topic: {int(number): (int(start), int(end)) for number, (start, end) in ranges.items()}
        for topic, ranges in value.items()
    }


def stretches_within(stretches: Stretches, offsets: Offsets) -> Stretches:
    """Those stretches, or parts of them, that lie within a range of offsets."""
    found: dict[str, dict[int, list[tuple[int, int]]]] = {}
    for topic, partitions in stretches.items():
        for number, own in partitions.items():
            begin, end = offsets.get(topic, {}).get(number, (0, 0))
            cut = [(max(first, begin), min(last, end)) for first, last in own if first < end and last > begin]
            if cut:
                found.setdefault(topic, {})[number] = cut
    return found


def stretches_to_json(stretches: Stretches) -> dict[str, dict[str, list[list[int]]]]:
    """The stretches with JSON's keys."""
    return {
        topic: {str(number): [list(one) for one in own] for number, own in partitions.items()}
        for topic, partitions in stretches.items()
    }


def stretches_from_json(value: Mapping[str, Mapping[str, Sequence[Sequence[int]]]]) -> Stretches:
    """What `stretches_to_json` gave. Raises ValueError for anything else."""
    return {
        topic: {int(number): [(int(one), int(end)) for one, end in own] for number, own in partitions.items()}
        for topic, partitions in value.items()
    }


def positions_to_json(positions: Mapping[str, Mapping[int, int]]) -> dict[str, dict[str, int]]:
    """One offset a partition, as Spark's Kafka source reads and writes them."""
    return {
        topic: {str(number): offset for number, offset in sorted(partitions.items())}
        for topic, partitions in sorted(positions.items())
    }


def positions_from_json(value: Mapping[str, Mapping[str, int]]) -> Positions:
    """What `positions_to_json` gave. Raises ValueError for anything else."""
    return {
        topic: {int(number): int(offset) for number, offset in partitions.items()}
        for topic, partitions in value.items()
    }


def _range(offsets: Offsets, place: tuple[str, int]) -> str:
    pair = offsets.get(place[0], {}).get(place[1])
    return "not there" if pair is None else f"{pair[0]} to {pair[1]}"
