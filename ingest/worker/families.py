"""Inferred schemas of entities that go together: their records are decoded in one call, as many schemas as they have."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from distributary.codecs.base import Decoded, JointReader
from distributary.ingest.worker.task import Task

# With more records a call of its own costs less than the columns of all the others in every record.
_FEW = 300

# A schema that goes with none of so many families begins one: schemas in any number of ways unlike must not cost their square.
_MOST_TRIED = 8

# A pinned record's number, and payloads of it.
Part = tuple[int, pa.BinaryArray]


class Families:
    """Decodes payloads of pinned records, those of one family in one call."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._joint = task.codec.capabilities.joint
        self._families: list[JointReader] = []
        self._sizes: list[int] = []
        # Per pinned record its family, and which member of it it is; None for one that goes with no other.
        self._places: dict[int, tuple[int, int] | None] = {}

    def decode(self, parts: Sequence[Part]) -> list[Decoded]:
        """What became of each part's payloads (no nulls), as the pinned records' own readers would have it."""
        families: dict[int, list[tuple[int, int]]] = {}
        for at, (number, payloads) in enumerate(parts):
            place = self._place(number) if len(payloads) <= _FEW else None
            if place is not None:
                families.setdefault(place[0], []).append((at, place[1]))
        found: dict[int, Decoded] = {}
        for family, members in families.items():
            if len(members) > 1:
                theirs = [(member, parts[at][1]) for at, member in members]
                decoded = self._families[family].decode(theirs)
                found.update(zip((at for at, _ in members), decoded, strict=True))
        return [found[at] if at in found else self._alone(part) for at, part in enumerate(parts)]

    def _alone(self, part: Part) -> Decoded:
        number, payloads = part
        return self._task.reader(number).decode(payloads)

    def _place(self, number: int) -> tuple[int, int] | None:
        if number not in self._places:
            self._places[number] = self._placed(number)
        return self._places[number]

    def _placed(self, number: int) -> tuple[int, int] | None:
        if self._joint is None:
            return None
        reader, last = self._task.reader(number), len(self._families)
        for family in range(last - 1, max(last - 1 - _MOST_TRIED, -1), -1):
            if self._families[family].add(reader):
                self._sizes[family] += 1
                return family, self._sizes[family] - 1
        fresh = self._joint()
        if not fresh.add(reader):
            return None
        self._families.append(fresh)
        self._sizes.append(1)
        return last, 0
