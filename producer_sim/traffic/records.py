"""What is on its way to the topic: good events, tombstones and corrupt records of several schema versions, mixed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.producer_sim.events.model import columns
from distributary.producer_sim.events.routes import GAME
from distributary.producer_sim.events.values import plain_column, text_column
from distributary.producer_sim.events.versions import RECORD
from distributary.producer_sim.formats.base import load_format
from distributary.producer_sim.formats.corruption import NO_ENTITY, value_digest
from distributary.producer_sim.traffic.envelopes import Envelope, Headers, envelopes
from distributary.producer_sim.traffic.events import EventMaker, Events
from distributary.producer_sim.traffic.placed import Placer
from distributary.producer_sim.traffic.simulation import Simulation
from distributary.producer_sim.traffic.stages import Stage
from distributary.producer_sim.truth.checksum import GroupSums, Sum, row_hashes
from distributary.producer_sim.truth.sent import Group, Sent

CHUNK = 10_000

GOOD, CORRUPT, TOMBSTONE = 0, 1, 2


class Record(NamedTuple):
    """A record to send: `value` is None for a tombstone, `corruption` says what is wrong with it, if anything is."""

    key: bytes | None
    value: bytes | None
    corruption: str | None
    headers: Headers = ()


class Variant(NamedTuple):
    """What an event is written with: a version of a record."""

    version: int
    record: str


class Traffic:
    """Makes the records of a simulation, chunk by chunk, and counts the good ones by game, schema and what routes them.

    The same settings make the same records; with a rate, a chunk is what goes out in a second.
    """

    def __init__(self, settings: Simulation) -> None:
        self._settings = settings
        self._formats = {stage.number: load_format(stage.format) for stage in settings.stages}
        self._makers: dict[Variant, EventMaker] = {}
        self._ids: dict[Variant, int | None] = {}
        self._sums: dict[Variant, GroupSums] = {}
        self._digests: dict[Variant, GroupSums] = {}
        self._told = settings.told
        self._placers: dict[Variant, Placer] = {}
        self._corrupted = 0

    def introduce(self, version: int, schema_id: int | None, record: str = RECORD) -> None:
        """From now on producers may write this version; the registry calls its schema `schema_id`.

        None stands for a format whose records name no schema.
        """
        kind = Variant(version, record)
        self._ids[kind] = schema_id
        if self._settings.evolution.old_producers or version >= self._settings.evolution.first_version:
            stage = self._settings.stages[version - 1]
            self._makers[kind] = EventMaker(
                version,
                self._settings.population,
                self._settings.seed,
                stage.format,
                stage.schemas[record],
            )
            self._sums[kind], self._digests[kind] = GroupSums(), GroupSums()
            if self._settings.evolution.changes:
                self._placers[kind] = self._placer(kind)

    def stage(self, version: int) -> Iterator[list[Record]]:
        """The records sent while `version` is the newest, in chunks; what was handed out counts as sent."""
        size = (
            CHUNK if self._settings.pace.rate is None else max(1, min(CHUNK, int(self._settings.pace.rate)))
        )
        for number, first in enumerate(range(0, self._settings.pace.events, size)):
            yield self._chunk(version, number, min(size, self._settings.pace.events - first))

    def sent(self) -> dict[Group, Sent]:
        """The good events handed out so far."""
        found: dict[Group, Sent] = {}
        for kind, sums in self._sums.items():
            for key, total in sums.groups.items():
                group, digests = self._group(kind, key), self._digests[kind].groups.get(key, Sum())
                sent = Sent(kind.version, total.rows, total.checksum, digests.checksum)
                found[group] = found[group].added(sent) if group in found else sent
        return found

    def _group(self, kind: Variant, key: tuple[Any, ...]) -> Group:
        game, *told = key
        stage = self._settings.stages[kind.version - 1]
        record = self._name(stage, kind)
        names = (each.name for each in self._told)
        return Group(game, self._ids[kind], record, tuple(zip(names, told, strict=True)))

    def _chunk(self, stage: int, number: int, count: int) -> list[Record]:
        rng = np.random.default_rng([self._settings.seed, stage, 0, number])
        records: list[Record] = []
        for kind, share in self._shares(rng, stage, count).items():
            events = self._makers[kind].chunk(stage, number, share)
            fates = self._fates(rng, share)
            placed, refused = self._placed(kind, events.rows)
            found = self._records(rng, kind, events, fates, refused)
            good = (fates == GOOD) & np.array([not why for why in refused])
            self._count(kind, events.rows, placed, found, good)
            records += found
        return [records[place] for place in rng.permutation(len(records)).tolist()]

    def _count(
        self,
        kind: Variant,
        rows: pa.RecordBatch,
        placed: pa.RecordBatch,
        records: list[Record],
        good: npt.NDArray[np.bool_],
    ) -> None:
        """Counts the good ones of these records; `rows` as they were sent, `placed` as tables have them."""
        chosen = pa.array(good)
        # Without a schema, a value of another type than its column's is not decoded either.
        decoded = placed if self._formats[kind.version].infers else rows
        keys = [column.filter(chosen) for column in (rows[GAME], *self._told_columns(rows, decoded))]
        self._sums[kind].add(keys, row_hashes(placed.filter(chosen)))
        if self._told:  # then some may have no entity, and be found in quarantine
            values = [records[place].value or b"" for place in np.flatnonzero(good).tolist()]
            digests = [int(value_digest(value), 16) for value in values]
            self._digests[kind].add(keys, np.array(digests, np.uint64))

    def _told_columns(self, rows: pa.RecordBatch, decoded: pa.RecordBatch) -> list[pa.Array]:
        return [
            text_column(rows, each.path) if each.is_text else plain_column(decoded, each.path)
            for each in self._told
        ]

    def _placer(self, kind: Variant) -> Placer:
        """What becomes of this kind in tables that met all kinds before it, of those that go there."""
        stages = self._settings.stages[: kind.version]
        if self._settings.pipeline.route.by == "record":
            stages = tuple(
                stage for stage in stages if self._name(stage, kind) == self._name(stages[-1], kind)
            )
        return Placer.after(
            (columns(stage.schemas[kind.record], self._formats[stage.number].types) for stage in stages),
            infers=self._formats[kind.version].infers,
            widens=self._settings.pipeline.widens,
        )

    def _name(self, stage: Stage, kind: Variant) -> str:
        """What readers call the records of a kind's type at a stage."""
        return self._formats[stage.number].record_name(stage.schemas[kind.record])

    def _placed(self, kind: Variant, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[str | None]]:
        """The rows as their tables have them, and of each why no table takes it, if none does."""
        stage = self._settings.stages[kind.version - 1]
        if self._settings.pipeline.one_format and stage.format != self._settings.writing.format:
            return rows, ["format_switched"] * rows.num_rows
        if kind not in self._placers:
            return rows, [None] * rows.num_rows
        placed, refused = self._placers[kind].place(rows)
        return placed, [
            "incompatible_type" if each else None for each in (refused & self._routed(rows)).tolist()
        ]

    def _routed(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Which rows come as far as to be held against a table: what has no entity is told by that, not by its types."""
        there = np.ones(rows.num_rows, np.bool_)
        if self._settings.pipeline.route.by != "expression":
            for column in self._told_columns(rows, rows):
                there &= np.array([value not in (None, "") for value in column.to_pylist()])
        return there

    def _shares(self, rng: np.random.Generator, stage: int, count: int) -> dict[Variant, int]:
        """How many events each kind has: old producers share theirs evenly, the newest has the rest."""
        older = list(range(1, stage))
        each = [self._settings.evolution.old_producers / len(older)] * len(older) if older else []
        counts = rng.multinomial(count, [*each, max(0.0, 1 - sum(each))])
        return {
            Variant(version, record): n
            for version, n_of_version in zip([*older, stage], counts.tolist(), strict=True)
            for record, n in self._by_type(rng, n_of_version)
            if n
        }

    def _by_type(self, rng: np.random.Generator, count: int) -> list[tuple[str, int]]:
        """So many events of each type, evenly."""
        records = self._settings.records
        if len(records) == 1:
            return [(records[0], count)]
        counts = rng.multinomial(count, [1 / len(records)] * len(records))
        return list(zip(records, counts.tolist(), strict=True))

    def _fates(self, rng: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
        corrupt, either = (
            self._settings.faults.corrupt,
            self._settings.faults.corrupt + self._settings.faults.tombstones,
        )
        drawn = rng.random(count)
        return np.select([drawn < corrupt, drawn < either], [CORRUPT, TOMBSTONE], GOOD).astype(np.int64)

    def _records(
        self,
        rng: np.random.Generator,
        kind: Variant,
        events: Events,
        fates: npt.NDArray[np.int64],
        refused: list[str | None],
    ) -> list[Record]:
        head = self._formats[kind.version].header(self._ids[kind])
        around = envelopes(events, self._settings.writing.key, self._settings.writing.headers)
        found = zip(around.keys, events.bodies, refused, around.headers, strict=True)
        records = [Record(key, head + body, why, headers) for key, body, why, headers in found]
        for place in np.flatnonzero(fates == TOMBSTONE).tolist():
            records[place] = Record(around.keys[place], None, None, around.headers[place])
        for place in np.flatnonzero(fates == CORRUPT).tolist():
            records[place] = self._corrupted_record(rng, kind, around.of(place), events.bodies[place])
        return records

    def _corrupted_record(
        self, rng: np.random.Generator, of: Variant, around: Envelope, body: bytes
    ) -> Record:
        """The kinds take turns, so that even a few corrupt records are of all kinds."""
        written = self._formats[of.version]
        kinds = self._settings.kinds_of(self._settings.stages[of.version - 1].format)
        header = written.header(self._ids[of])
        kind = kinds[self._corrupted % len(kinds)]
        self._corrupted += 1
        if kind == NO_ENTITY:
            return self._without_entity(of, around, header, body)
        return Record(around.key, written.corruptions[kind](rng, header, body), kind, around.headers)

    def _without_entity(self, of: Variant, around: Envelope, header: bytes, body: bytes) -> Record:
        """A good event without what would route it."""
        route = self._settings.pipeline.route
        if route.by == "key":
            return Record(None, header + body, NO_ENTITY, around.headers)
        if route.by == "header":
            return Record(around.key, header + body, NO_ENTITY, around.without(route.name).headers)
        return Record(around.key, header + self._makers[of].without_game(body), NO_ENTITY, around.headers)
