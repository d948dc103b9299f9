"""Spark's own files, read: which offsets a batch is made of.

`foreachBatch` is told its batch id but not its offsets. Its end is the last line of `offsets/<batch_id>`, there
before the call; its start is the end of the batch before, for batch 0 the file `sources/0/0`. A partition that is
new in a batch starts at offset 0: Spark reads it from its earliest offset and, with `failOnDataLoss` (always on
here), refuses to go on when that is not 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from distributary.errors import CheckpointMismatch
from distributary.ingest.checkpoint import Checkpoint

# The offset of the first record and the one after the last: topic -> partition -> (start, end).
Offsets = dict[str, dict[int, tuple[int, int]]]

# One offset a partition: where to begin, or where something ends.
Positions = dict[str, dict[int, int]]

_REMEDY = "restore Spark's files, or go on with a new checkpoint and `start: from_tables`"


def batch_offsets(checkpoint: Checkpoint, batch_id: int) -> Offsets:
    """The offsets of a batch that Spark has planned. Raises CheckpointMismatch for files lost, cut off or edited."""
    return between(batch_start(checkpoint, batch_id), batch_end(checkpoint, batch_id), f"batch {batch_id}")


def batch_start(checkpoint: Checkpoint, batch_id: int) -> Positions:
    """Where a batch starts: the end of the one before; partitions new in this batch are not in it."""
    return batch_end(checkpoint, batch_id - 1) if batch_id > 0 else _initial(checkpoint.initial_offsets)


def batch_end(checkpoint: Checkpoint, batch_id: int) -> Positions:
    """Where a batch ends, each partition's first offset after it."""
    path = checkpoint.offsets / str(batch_id)
    lines = _text(path).splitlines()
    # A version, the query's settings, then one line a source: ours has one.
    if len(lines) != 3 or lines[0] != "v1":
        raise _unreadable(path, f"it has {len(lines)} lines, not the three of a query with one source")
    return _positions(path, lines[2])


def between(start: Positions, end: Positions, what: str) -> Offsets:
    """The ranges from start to end. Raises CheckpointMismatch, naming `what`, where these do not belong together."""
    gone = [
        f"{topic}/{number}" for topic in start for number in start[topic] if number not in end.get(topic, {})
    ]
    if gone:
        raise CheckpointMismatch(
            f"{what}: Spark's files know partitions that are not there any more: {', '.join(gone)}; "
            "the topic was made anew or a file was edited. " + _REMEDY
        )
    offsets = {
        topic: {
            number: (start.get(topic, {}).get(number, 0), last) for number, last in sorted(partitions.items())
        }
        for topic, partitions in sorted(end.items())
    }
    _check_forward(offsets, what)
    return offsets


def total(offsets: Offsets) -> int:
    """How many offsets the ranges span; on compacted or transactional topics there are fewer records."""
    return sum(end - start for ranges in offsets.values() for start, end in ranges.values())


def starts(offsets: Offsets) -> Positions:
    """Where each partition starts."""
    return {topic: {number: pair[0] for number, pair in ranges.items()} for topic, ranges in offsets.items()}


def ends(offsets: Offsets) -> Positions:
    """Where each partition ends."""
    return {topic: {number: pair[1] for number, pair in ranges.items()} for topic, ranges in offsets.items()}


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


def _check_forward(offsets: Offsets, what: str) -> None:
    for topic, ranges in offsets.items():
        for number, (start, end) in ranges.items():
            if not 0 <= start <= end:
                raise CheckpointMismatch(
                    f"{what}: Spark's files say that {topic}/{number} starts at {start} and ends at {end}; "
                    "one of them was edited. " + _REMEDY
                )


def _initial(path: Path) -> Positions:
    # Kafka's source puts a zero byte before the version, for the sake of readers from Spark 2.1.0.
    lines = _text(path).lstrip("\0").splitlines()
    if len(lines) != 2 or lines[0] != "v1":
        raise _unreadable(path, f"it has {len(lines)} lines, not a version and the offsets")
    return _positions(path, lines[1])


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise CheckpointMismatch(f"Spark's file {path} is gone; {_REMEDY}") from error
    except ValueError as error:
        raise _unreadable(path, "it is not text") from error


def _positions(path: Path, line: str) -> Positions:
    try:
        value: Any = json.loads(line)
        positions = positions_from_json(value)
    except (ValueError, TypeError, AttributeError) as error:
        raise _unreadable(path, "its last line holds no offsets") from error
    if value != positions_to_json(positions) or not positions or not all(positions.values()):
        raise _unreadable(path, "its last line names no partition")
    return positions


def _unreadable(path: Path, why: str) -> CheckpointMismatch:
    return CheckpointMismatch(f"Spark's file {path} was cut off or edited: {why}; {_REMEDY}")
