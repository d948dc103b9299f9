"""Records without a schema, where each entity has an inferred one of its own: whose they are is found before they are decoded.

Entities whose schemas say the same are decoded and placed together; of others those that agree are decoded together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.codecs.base import (
    INFERRED,
    Decoded,
    JointCodec,
    JointReader,
    growing_reader,
    picking,
)
from distributary.codecs.types.masks import Codes, Rows
from distributary.codecs.wire.header import Frames, bodies
from distributary.ingest.pins import PinnedRecord, newest_of_entities
from distributary.ingest.routing.routes import Records, as_entities, entities
from distributary.ingest.schemas.entity_location import NO_FIELDS, entity_name
from distributary.ingest.worker.placement import Placement
from distributary.ingest.worker.task import Task, tally
from distributary.registry.base import Schema

# Instead of a pinned record's number: the entity has no schema yet; there is no entity, or none that may have a table.
_UNMET, _STRAY = -1, -2

_NOTHING = pa.RecordBatch.from_arrays([], schema=pa.schema([]))

# Names come from data: those of a hostile million are not all kept.
_MOST_KEPT = 100_000


@dataclass(frozen=True, slots=True)
class _Mine:
    """Rows of a batch that are of an inferred schema: where they are in it, their bodies, and the entity of each."""

    raw: pa.RecordBatch
    rows: Rows
    payloads: pa.BinaryArray
    named: pa.DictionaryArray

    def sorted(self, order: Rows) -> _Mine:
        """These of them as a batch of their own, in this order: a thousand groups of its rows are then slices of it."""
        places, every = pa.array(order), np.arange(len(order), dtype=np.int64)
        if len(order) == self.raw.num_rows and (order == every).all():
            return self
        raw = self.raw.take(pa.array(self.rows[order]))
        return _Mine(raw, every, self.payloads.take(places), self.named.take(places))


class EntityDemux:
    """Sends records to their entities' schemas, and asks for those that there are not."""

    def __init__(self, task: Task) -> None:
        self._task, self._pins = task, task.pins
        newest = newest_of_entities(task.pins.schemas.records)
        self._stray = newest.pop(None, None)
        self._schemas = newest
        self._numbers: dict[str, int] = {}
        self._first = self._first_alike()
        self._families = Families(task)

    def take(self, raw: pa.RecordBatch, frames: Frames, rows: Rows) -> Rows:
        """Place what these rows have of an inferred schema; gives the others, and those to ask for one for all entities."""
        inferred = [number for number, (ref, _) in enumerate(frames.kinds) if ref == INFERRED]
        found = np.isin(frames.kind[rows], inferred)
        if not found.any():
            return rows
        payloads = bodies(raw["value"], frames, rows[found])
        mine = _Mine(raw, rows[found], payloads, self._named(raw, rows[found], payloads))
        numbers = self._numbers_of(mine.named)
        self._ask(mine, np.flatnonzero(numbers == _UNMET))
        strays = numbers == _STRAY
        others = rows[~found]
        if strays.any() and self._stray is None:
            others = np.sort(np.concatenate([others, mine.rows[strays]]))
        elif self._stray is not None:
            self._place(mine, np.where(strays, self._stray, _UNMET))
        self._place(mine, numbers)
        return others

    def _first_alike(self) -> Rows:
        """Per pinned record the first of those of entities that is decoded alike; what is no such record's stays below zero."""
        alike: dict[str, int] = {}
        first = np.arange(len(self._pins.schemas.records), dtype=np.int64)
        for number in sorted(self._schemas.values()):
            first[number] = alike.setdefault(self._pins.schemas.records[number].schema.text, number)
        return np.append(first, [_UNMET, _UNMET])

    def _named(self, raw: pa.RecordBatch, rows: Rows, payloads: pa.BinaryArray) -> pa.DictionaryArray:
        route = self._pins.rules.route
        if route.by != "field":
            return entities(route, Records(_NOTHING, raw, rows, ""))
        codec = picking(self._task.codec)
        return as_entities(codec.picked(payloads, (route.field or "").split(".")))

    def _numbers_of(self, named: pa.DictionaryArray) -> Rows:
        numbers = [self._number(entity) for entity in named.dictionary.to_pylist()]
        table = np.array([*numbers, _STRAY], dtype=np.int64)
        found: Rows = table[named.indices.fill_null(len(numbers)).to_numpy()]
        return found

    def _number(self, entity: str) -> int:
        if entity not in self._numbers:
            if len(self._numbers) >= _MOST_KEPT:
                self._numbers.clear()
            self._numbers[entity] = self._look_up(entity)
        return self._numbers[entity]

    def _look_up(self, entity: str) -> int:
        pins = self._pins
        number = self._schemas.get(entity_name(entity, pins.rules.route.fold_case))
        if number is not None:
            return number
        folder = self._pins.rules.route.folder(entity)
        if folder in pins.tables.known or folder in pins.tables.admitted:
            return _UNMET
        return _STRAY if pins.turn.tables_final or folder in pins.tables.denied else _UNMET

    def _place(self, mine: _Mine, numbers: Rows) -> None:
        """`numbers` are those of the rows' own schemas; below zero for rows that are placed elsewhere."""
        groups = list(_groups(np.where(numbers < 0, _UNMET, self._first[numbers])))
        if not groups:
            return
        order = np.concatenate([places for _, places in groups])
        mine, numbers = mine.sorted(order), numbers[order]
        named = Named.of(mine.named)
        spans = list(pairwise(np.cumsum([0, *(len(places) for _, places in groups)]).tolist()))
        parts = [
            (first, mine.payloads.slice(begin, end - begin))
            for (first, _), (begin, end) in zip(groups, spans, strict=True)
        ]
        for span, part, decoded in zip(spans, parts, self._decoded(parts), strict=True):
            placement = EntityPlacement(self._task, mine.raw, part[0], numbers, named)
            rows = np.arange(*span, dtype=np.int64)
            if decoded is None:
                placement.decode(rows, part[1])
            else:
                placement.settle(rows, part[1], decoded)

    def _decoded(self, parts: Sequence[Part]) -> Sequence[Decoded | None]:
        """What became of each part; None where each is to be decoded by itself, because one of them kills its decoder."""
        return [None] * len(parts) if self._pins.turn.guarded else self._families.decode(parts)

    def _ask(self, mine: _Mine, places: Rows) -> None:
        """Keep rows of entities that nobody has met, with a schema for each that would take them."""
        if not len(places):
            return
        rows = mine.rows[places]
        named = mine.named.take(pa.array(places)).dictionary_decode().dictionary_encode()
        names, codes = named.dictionary.to_pylist(), named.indices.to_numpy()
        counts = np.bincount(codes, minlength=len(names)).tolist()
        folders = [self._pins.rules.route.folder(name) for name in names]
        new = [place for place, folder in enumerate(folders) if folder not in self._pins.tables.known]
        tally(self._task.report.questions.newcomers, [names[n] for n in new], [counts[n] for n in new])
        reader = growing_reader(self._task.codec.reader(Schema(0, "STRUCT", NO_FIELDS), ()))
        unmet, most = self._task.report.questions.unmet, self._pins.rules.route.max_tables
        for code, of_entity in _groups(codes.astype(np.int64)):
            if folders[code] in self._pins.tables.known or len(unmet) < most:
                payloads = mine.payloads.take(pa.array(places[of_entity]))
                first = reader.grown(payloads, self._pins.rules.decoding.max_fields)
                unmet.setdefault(names[code], set()).add(first.text)
        self._task.set_aside(mine.raw, rows)


def _groups(numbers: Rows) -> Iterable[tuple[int, Rows]]:
    """The places of each number from 0 on, ascending."""
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    for number, places in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
        if number >= 0:
            yield number, places


@dataclass(frozen=True, slots=True)
class Named:
    """The entities of a batch's rows: which of `names` each is; below zero for none."""

    codes: Rows
    names: Sequence[str]

    @classmethod
    def of(cls, entities: pa.DictionaryArray) -> Named:
        """The same taken apart, once for all the groups that a batch falls into."""
        codes = entities.indices.fill_null(-1).to_numpy().astype(np.int64)
        return cls(codes, entities.dictionary.to_pylist())

    def some(self, rows: Rows) -> pa.DictionaryArray:
        """The entities of these rows, with no other name among them: there may be a thousand groups of a few."""
        codes = self.codes[rows]
        if len(codes) and codes[0] >= 0 and (codes == codes[0]).all():
            first = np.zeros(len(codes), np.int32)
            return pa.DictionaryArray.from_arrays(first, pa.array([self.names[codes[0]]], pa.string()))
        present, codes = np.unique(codes, return_inverse=True)
        if len(present) and present[0] < 0:
            present, codes = present[1:], codes - 1
        names = pa.array([self.names[code] for code in present.tolist()], pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32(), mask=codes < 0), names)


class EntityPlacement(Placement):
    """Gives every record of alike pinned types its place; their entities are known before they are decoded."""

    def __init__(self, task: Task, raw: pa.RecordBatch, number: int, numbers: Rows, named: Named) -> None:
        """`number` is the one to decode by; `numbers` and `named` are each of the batch's rows' own, and its entity."""
        super().__init__(task, raw, number)
        self._numbers, self._entities = numbers, named

    def _pinned_of(self, row: int) -> PinnedRecord:
        return self._pins.schemas.records[int(self._numbers[row])]

    def _count(self, rows: Rows) -> None:
        for number, count in Counter(self._numbers[rows].tolist()).items():
            self._report.counts.decoded[self._pins.schemas.records[number].schema.id] += count

    def _named(self, rows: Rows, decoded: Decoded) -> pa.DictionaryArray:
        return self._entities.some(rows)

    def _without_growth(self, rows: Rows, payloads: pa.BinaryArray, decoded: Decoded) -> Decoded:
        """Rows with fields that their entity's schema lacks wait for the driver to let that one grow."""
        beyond = decoded.beyond
        if len(beyond) and self._pinned.schema.entity is None:
            beyond = beyond[self._grows_for_strays(rows[beyond])]
        if not len(beyond) or not self._pins.tables.grow:
            return decoded
        numbers = self._numbers[rows[beyond]]
        waiting = []
        for number in np.unique(numbers).tolist():
            mine = beyond[numbers == number]
            if self._proposes(self._pins.schemas.records[number], payloads.take(pa.array(mine)), rows[mine]):
                waiting.append(mine)
        if not waiting:
            return decoded
        aside = np.sort(np.concatenate(waiting))
        self._task.set_aside(self._raw, rows[aside])
        return decoded.without(aside)

    def _grows_for_strays(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Which of these have a table to land in: not those of an entity that may have none."""
        if isinstance(self._pins.rules.policies.no_entity, str):
            return np.zeros(len(rows), np.bool_)
        found: npt.NDArray[np.bool_] = self._entities.codes[rows] < 0
        return found

    def _meet(self, present: Collection[int], rows: Rows, codes: Codes) -> None:
        entities, firsts = np.unique(codes, return_index=True)
        for code, first in zip(entities.tolist(), firsts.tolist(), strict=True):
            if code >= 0:
                row = int(rows[first])
                self._task.meet_one(int(self._numbers[row]), code, row, self._raw)

    def _grow(self, rows: Rows, codes: Codes, brought: Mapping[int, tuple[int, ...] | None]) -> None:
        growths = self._report.files.growths
        begun = len(growths)
        super()._grow(rows, codes, brought)
        if len(growths) > begun:
            own = self._pinned_by_folder(rows, codes)
            growths[begun:] = [
                replace(one, key=own[one.table].key, schema_id=own[one.table].schema.id)
                for one in growths[begun:]
            ]

    def _pinned_by_folder(self, rows: Rows, codes: Codes) -> dict[str, PinnedRecord]:
        entities, firsts = np.unique(codes, return_index=True)
        return {
            self._book.folders[code]: self._pinned_of(int(rows[first]))
            for code, first in zip(entities.tolist(), firsts.tolist(), strict=True)
            if code >= 0
        }

    def _kafka_arrays(self, rows: Rows) -> list[pa.Array]:
        arrays = super()._kafka_arrays(rows)
        ids = [self._pins.schemas.records[number].schema.id for number in self._numbers[rows].tolist()]
        # After topic, partition, offset, time and key.
        arrays[5] = pa.array(ids, pa.int64())
        return arrays


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
        self._joint = task.codec.joint if isinstance(task.codec, JointCodec) else None
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
