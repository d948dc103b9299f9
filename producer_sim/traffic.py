"""What is on its way to the topic: good events, tombstones and corrupt records of several schema versions, mixed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.producer_sim.checksum import GroupSums, row_hashes
from distributary.producer_sim.corruption import NO_ENTITY
from distributary.producer_sim.events import EventMaker, Events
from distributary.producer_sim.formats import load_format
from distributary.producer_sim.simulation import Simulation
from distributary.producer_sim.truth import Group, Sent

CHUNK = 10_000
GOOD, CORRUPT, TOMBSTONE = 0, 1, 2


class Record(NamedTuple):
    """A record to send: `value` is None for a tombstone, `corruption` says what is wrong with it, if anything is."""

    key: bytes
    value: bytes | None
    corruption: str | None


class Traffic:
    """Makes the records of a simulation, chunk by chunk, and counts the good ones by game and schema.

    The same settings make the same records; with a rate, a chunk is what goes out in a second.
    """

    def __init__(self, settings: Simulation) -> None:
        self._settings = settings
        self._format = load_format(settings.format)
        self._makers: dict[int, EventMaker] = {}
        self._ids: dict[int, int | None] = {}
        self._sums: dict[int, GroupSums] = {}
        self._corrupted = 0

    def introduce(self, version: int, schema_id: int | None) -> None:
        """From now on producers may write this version; the registry calls its schema `schema_id`.

        None stands for a format whose records name no schema.
        """
        self._ids[version] = schema_id
        if self._settings.old_producers or version >= self._settings.first_version:
            self._makers[version] = EventMaker(
                version, self._settings.population, self._settings.seed, self._settings.format
            )
            self._sums[version] = GroupSums()

    def stage(self, version: int) -> Iterator[list[Record]]:
        """The records sent while `version` is the newest, in chunks; what was handed out counts as sent."""
        size = CHUNK if self._settings.rate is None else max(1, min(CHUNK, int(self._settings.rate)))
        for number, first in enumerate(range(0, self._settings.events, size)):
            yield self._chunk(version, number, min(size, self._settings.events - first))

    def sent(self) -> dict[Group, Sent]:
        """The good events handed out so far."""
        found: dict[Group, Sent] = {}
        for version, sums in self._sums.items():
            for (game,), total in sorted(sums.groups.items()):
                group, sent = Group(game, self._ids[version]), Sent(version, total.rows, total.checksum)
                found[group] = found[group].added(sent) if group in found else sent
        return found

    def _chunk(self, stage: int, number: int, count: int) -> list[Record]:
        rng = np.random.default_rng([self._settings.seed, stage, 0, number])
        records: list[Record] = []
        for version, share in self._shares(rng, stage, count).items():
            events = self._makers[version].chunk(stage, number, share)
            fates = self._fates(rng, share)
            good = events.rows.filter(pa.array(fates == GOOD))
            self._sums[version].add([good.column("game_name")], row_hashes(good))
            records += self._records(rng, version, events, fates)
        return [records[place] for place in rng.permutation(len(records)).tolist()]

    def _shares(self, rng: np.random.Generator, stage: int, count: int) -> dict[int, int]:
        """How many events each version writes: old producers share theirs evenly, the newest has the rest."""
        older = list(range(1, stage))
        each = [self._settings.old_producers / len(older)] * len(older) if older else []
        counts = rng.multinomial(count, [*each, max(0.0, 1 - sum(each))])
        return {version: int(n) for version, n in zip([*older, stage], counts, strict=True) if n}

    def _fates(self, rng: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
        corrupt, either = self._settings.corrupt, self._settings.corrupt + self._settings.tombstones
        drawn = rng.random(count)
        return np.select([drawn < corrupt, drawn < either], [CORRUPT, TOMBSTONE], GOOD).astype(np.int64)

    def _records(
        self, rng: np.random.Generator, version: int, events: Events, fates: npt.NDArray[np.int64]
    ) -> list[Record]:
        head = self._format.header(self._ids[version])
        records = [
            Record(key, head + body, None) for key, body in zip(events.keys, events.bodies, strict=True)
        ]
        for place in np.flatnonzero(fates == TOMBSTONE).tolist():
            records[place] = Record(events.keys[place], None, None)
        for place in np.flatnonzero(fates == CORRUPT).tolist():
            records[place] = self._corrupted_record(rng, version, events.keys[place], events.bodies[place])
        return records

    def _corrupted_record(self, rng: np.random.Generator, version: int, key: bytes, body: bytes) -> Record:
        """The kinds take turns, so that even a few corrupt records are of all kinds."""
        kinds, header = self._settings.kinds, self._format.header(self._ids[version])
        kind = kinds[self._corrupted % len(kinds)]
        self._corrupted += 1
        if kind == NO_ENTITY:
            return Record(key, header + self._makers[version].without_game(body), kind)
        return Record(key, self._format.corruptions[kind](rng, header, body), kind)
