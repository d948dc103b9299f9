"""All that is to be replayed, cut into portions of about as many records each, so that memory is bounded and a crash costs one of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow.compute as pc

from distributary.ingest.commit_log.entries import Batch, Standing
from distributary.ingest.kafka.offsets import (
    Offsets,
    Positions,
    highest,
    offsets_from_json,
    offsets_to_json,
    starts,
)
from distributary.ingest.quarantine.chosen import Chosen
from distributary.ingest.replay.places import Numbers, Partition, Places, Span, spanned, split
from distributary.ingest.replay.raw_records import PLACE, RawRecords

# How many offsets are counted together, of large portions.
_BLOCK = 4096


OnRefused: TypeAlias = Literal["keep", "quarantine"]
"""What becomes of the row of a record that would go to quarantine now: it stays, or it goes and the record waits in quarantine."""


@dataclass(frozen=True, slots=True)
class Portion:
    """Records of bronze that are replayed together.

    offsets   within which they stand
    chosen    which of those
    rebuilt   whether tables were emptied before, so that all of their records come in the order in which they came at first
    replaces  whether rows that are there make room for what comes, and then what becomes of those of which nothing comes; None: they all stay
    untold    whether an earlier version may have emptied them, which told nobody of which records
    """

    offsets: Offsets
    chosen: Chosen = field(default_factory=Chosen)
    rebuilt: bool = False
    replaces: OnRefused | None = None
    untold: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "offsets": offsets_to_json(self.offsets),
            "chosen": self.chosen.as_dict(),
            "rebuilt": self.rebuilt,
            **({} if self.replaces is None else {"replaces": self.replaces}),
            **({"untold": True} if self.untold else {}),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Portion:
        """What `as_dict` gave. Raises ValueError, KeyError or TypeError for anything else."""
        return cls(
            offsets_from_json(value["offsets"]),
            Chosen.from_dict(value["chosen"]),
            value["rebuilt"],
            value.get("replaces"),
            value.get("untold", False),
        )


# Of a topic that nobody reads any more all was read.
_FOR_EVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Until:
    """Before which offsets all batches are in all their tables.

    ends    by topic and partition
    others  of those that are not named
    """

    ends: Positions = field(default_factory=dict)
    others: int = _FOR_EVER

    def of(self, topic: str, number: int) -> int:
        """The first offset of a partition that is not to be touched."""
        return self.ends.get(topic, {}).get(number, self.others)


def until(so_far: Standing, newest: Batch | None, reached: int | None, *, alive: bool) -> Until:
    """As a log and the ledger's newest batch tell: of a batch that is not in all its tables a run is just making rows, or is to.

    While a run is alive nothing is known of partitions that the log does not name.
    """
    ends = highest(so_far.ends, so_far.left)
    if newest is not None and (reached is None or reached < newest.number):
        for topic, numbers in starts(newest.offsets).items():
            ends.setdefault(topic, {}).update(numbers)
    return Until(ends, 0 if alive else _FOR_EVER)


def portions(raw: RawRecords, chosen: Chosen, end: Until, most: int) -> Iterator[Offsets]:
    """Ranges of offsets that together have all records of the chosen topics and time before an end, each about as many as `most`.

    Where files end there end portions, too, if that is near; and what files have of which partitions is learned.
    """
    block = max(1, min(_BLOCK, most // 4))
    counted: dict[Partition, _Counted] = {}
    for file in raw.files:
        spans: dict[Partition, Span] = {}
        for rows, alive in file.rows():
            every = split(*(rows[name] for name in PLACE))
            for partition, offsets in every.items():
                spans[partition] = spanned(offsets, spans.get(partition))
            mine = pc.and_(alive, chosen.standing(rows))
            if not pc.all(mine).as_py():
                every = split(*(rows.filter(mine)[name] for name in PLACE))
            _count(every, end, block, counted)
        raw.learned.add(file, spans)
        for partition in spans.keys() & counted.keys():
            counted[partition].ends.append(spans[partition][1] + 1)
    yield from _ranges(counted, end, most, block)


def even_ranges(every: Iterable[Places], most: int) -> Iterator[Offsets]:
    """Ranges of offsets that together have all of these places, each about as many as `most`."""
    block = max(1, min(_BLOCK, most // 4))
    counted: dict[Partition, _Counted] = {}
    for places in every:
        _count(places, Until(), block, counted)
    yield from _ranges(counted, Until(), most, block)


def _ranges(counted: Mapping[Partition, _Counted], end: Until, most: int, block: int) -> Iterator[Offsets]:
    total = sum(sum(one.blocks.values()) for one in counted.values())
    shares = [min(1.0, part * most / total) for part in range(1, -(-total // most) + 1)]
    cut = {partition: _cut(one, shares, block) for partition, one in counted.items()}
    for part in range(len(shares)):
        found: dict[str, dict[int, tuple[int, int]]] = {}
        for (topic, number), ranges in cut.items():
            first, last = ranges[part]
            last = min(last, end.of(topic, number))
            if first < last:
                found.setdefault(topic, {})[number] = (first, last)
        if found:
            yield found


@dataclass(slots=True)
class _Counted:
    """How many records of a partition there are in each block of offsets, and behind which of its offsets files end."""

    blocks: dict[int, int] = field(default_factory=dict)
    ends: list[int] = field(default_factory=list)


def _count(places: Places, end: Until, block: int, counted: dict[Partition, _Counted]) -> None:
    for (topic, number), offsets in places.items():
        mine = offsets[offsets < end.of(topic, number)]
        blocks, counts = np.unique(mine // block, return_counts=True)
        known = counted.setdefault((topic, number), _Counted()).blocks
        for one, count in zip(blocks.tolist(), counts.tolist(), strict=True):
            known[one] = known.get(one, 0) + count


def _cut(counted: _Counted, shares: Sequence[float], block: int) -> list[tuple[int, int]]:
    """For each part the range of a partition: all partitions come along together, as they did when they were read."""
    numbers = np.array(sorted(counted.blocks), np.int64)
    if not len(numbers):
        return [(0, 0)] * len(shares)
    counts = np.array([counted.blocks[number] for number in numbers.tolist()])
    sums = np.cumsum(counts)
    wanted = sums[-1] * np.array(shares)
    last = np.searchsorted(sums, wanted, side="left").clip(max=len(numbers) - 1)
    ends = (numbers[last] + 1) * block
    about = ends - (sums[last] - wanted) / counts[last] * block
    most = np.diff(about, prepend=numbers[0] * block) / 4
    ends = _where_files_end(ends, about, most, counted.ends) if counted.ends else ends
    firsts = np.concatenate([[numbers[0] * block], ends[:-1]])
    return list(zip(firsts.tolist(), ends.tolist(), strict=True))


def _where_files_end(ends: Numbers, about: Any, most: Any, files: Sequence[int]) -> Numbers:
    """Ends of parts, or where a file ends that is not further from where they are about than so much: who reads such parts reads whole files."""
    there = np.unique(np.array(files, np.int64))
    behind = np.searchsorted(there, about).clip(max=len(there) - 1)
    below = (behind - 1).clip(min=0)
    nearest = np.where(there[behind] - about < about - there[below], there[behind], there[below])
    moved = np.where(np.abs(nearest - about) <= most, nearest, ends)
    # The last has all that is left.
    moved[-1] = ends[-1]
    return np.maximum.accumulate(moved.clip(max=ends[-1]))
