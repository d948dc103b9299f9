"""Records without a schema, where each entity has an inferred one of its own: whose they are is found before they are decoded.

Entities whose schemas say the same are decoded and placed together; of others those that agree are decoded together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from distributary.codecs.base import INFERRED, Decoded, growing_reader, picking
from distributary.codecs.types.masks import Rows
from distributary.codecs.wire.header import Frames, bodies
from distributary.ingest.pins import newest_of_entities
from distributary.ingest.routing.routes import Records, as_entities, entities
from distributary.ingest.schemas.inferred_per_entity import NO_FIELDS, entity_name
from distributary.ingest.worker.entities import is_too_long
from distributary.ingest.worker.families import Families, Part
from distributary.ingest.worker.placement import decode, place
from distributary.ingest.worker.record_group import Batch, Named, Own
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
        picked = picking(self._task.codec)
        return as_entities(picked(payloads, (route.field or "").split(".")))

    def _numbers_of(self, named: pa.DictionaryArray) -> Rows:
        numbers = [self._number(entity) for entity in named.dictionary.to_pylist()]
        table = np.array([*numbers, _STRAY], dtype=np.int64)
        found: Rows = table[named.indices.fill_null(len(numbers)).to_numpy()]
        return found

    def _number(self, entity: str) -> int:
        if is_too_long(self._pins, entity):
            return self._look_up(entity)
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
        if is_too_long(pins, entity):
            return _STRAY
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
            batch = Batch(self._task, mine.raw, part[0], own=Own(numbers, named))
            rows = np.arange(*span, dtype=np.int64)
            if decoded is None:
                decode(batch, rows, part[1])
            else:
                place(batch, rows, part[1], decoded)

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
        reader = growing_reader(self._task.codec, Schema(0, "STRUCT", NO_FIELDS))
        unmet, most = self._task.report.questions.unmet, self._pins.rules.route.max_tables
        for code, of_entity in _groups(codes.astype(np.int64)):
            if folders[code] not in self._pins.tables.known and len(unmet) >= most:
                continue
            # Each gets a schema at once: where there is no room to tell of its fields it grows by them in the passes behind this one.
            texts = unmet.setdefault(names[code], set())
            if not self._task.has_room:
                self._task.report.questions.untold = True
                if not texts:
                    texts.add(NO_FIELDS)
            else:
                payloads = mine.payloads.take(pa.array(places[of_entity]))
                first = reader.grown(payloads, self._pins.rules.decoding.max_fields)
                self._task.propose(texts, first.text)
        self._task.set_aside(mine.raw, rows)


def _groups(numbers: Rows) -> Iterable[tuple[int, Rows]]:
    """The places of each number from 0 on, ascending."""
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    for number, places in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
        if number >= 0:
            yield number, places
