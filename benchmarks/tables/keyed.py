"""Topics whose records have keys: a state of so many keys, then changes of them, even or uneven, some of them late."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import starmap
from typing import Any, Literal

import fastavro
import numpy as np
import numpy.typing as npt
from benchmarks.tables.amounts import TableSizes
from benchmarks.world import World
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from distributary.errors import CheckFailed
from distributary.producer_sim.traffic.events import game_names
from distributary.registry.base import Schema

KEY, NEWEST_BY, GAME, DAY = "gamer_id", "seq", "game_name", "day"

_SCHEMA: Mapping[str, Any] = {
    "type": "record",
    "name": "Gamer",
    "fields": [
        {"name": KEY, "type": "long"},
        {"name": NEWEST_BY, "type": "long"},
        {"name": GAME, "type": "string"},
        {"name": DAY, "type": {"type": "int", "logicalType": "date"}},
        {"name": "level", "type": "int"},
        {"name": "score", "type": "double"},
        {"name": "country", "type": "string"},
        {"name": "device", "type": "string"},
        {"name": "is_member", "type": "boolean"},
        {"name": "said", "type": "string"},
    ],
}

_TIME = {"type": "long", "logicalType": "timestamp-micros"}

_TIMED: Mapping[str, Any] = {
    **_SCHEMA,
    "fields": [{**one, "type": _TIME} if one["name"] == NEWEST_BY else one for one in _SCHEMA["fields"]],
}

_COUNTRIES = ("AT", "BR", "CA", "DE", "FR", "JP", "KE", "NZ")
_DEVICES = ("console", "desktop", "phone", "tablet")

_FIRST_DAY = 20_000

# So many of the changes are older than what their key has had; of Zipf's law the exponent that a million names of users have, about.
_LATE, _ZIPF = 0.02, 1.3

_FLUSH_SECONDS = 60

Spread = Literal["uniform", "zipf"]

Numbers = npt.NDArray[np.int64]


@dataclass
class KeyedTopic:
    """A topic of keyed records; made by `keyed_topic`.

    games   which tables they are for, in turns of their keys
    newest  for each key the greatest of its sequences
    sent    how many records there are
    """

    world: World
    name: str
    schema: Schema
    games: Sequence[str]
    sizes: TableSizes
    newest: Numbers
    sent: int = 0
    _rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def fill(self) -> None:
        """A record for each key, in no order."""
        self._send(self._rng.permutation(self.sizes.keys).astype(np.int64))

    def change(self, spread: Spread) -> None:
        """So many changes of them as all the batches of changes take."""
        count = self.sizes.changes * self.sizes.change_batches
        if spread == "uniform":
            keys = self._rng.integers(0, self.sizes.keys, count)
        else:
            # The keys that change most are anywhere among the others.
            places = self._rng.permutation(self.sizes.keys)
            keys = places[(self._rng.zipf(_ZIPF, count) - 1) % self.sizes.keys]
        self._send(keys.astype(np.int64), late=_LATE)

    def rows(self) -> dict[str, tuple[int, int]]:
        """For each game how many keys it has, and the sum of their newest sequences."""
        of = np.arange(len(self.newest)) % len(self.games)
        alive = self.newest >= 0
        return {
            game: (int((mine := alive & (of == number)).sum()), int(self.newest[mine].sum()))
            for number, game in enumerate(self.games)
        }

    def _send(self, keys: Numbers, late: float = 0.0) -> None:
        sequences = self.sent + np.arange(len(keys), dtype=np.int64)
        behind = self._rng.random(len(keys)) < late
        sequences[behind] = self._rng.integers(0, max(1, self.sent), int(behind.sum()))
        np.maximum.at(self.newest, keys, sequences)
        producer = Producer(
            {
                "bootstrap.servers": self.world.stack.bootstrap_servers,
                "linger.ms": 50,
                "queue.buffering.max.messages": 500_000,
                "compression.type": "none",
            }
        )
        header = b"\0" + self.schema.id.to_bytes(4, "big")
        with self.world.watch.step(f"sending {len(keys):,} records to {self.name}", len(keys)) as move:
            for number, (key, value) in enumerate(self._records(keys, sequences)):
                while True:
                    try:
                        producer.produce(
                            self.name,
                            header + value,
                            str(key).encode(),
                            partition=key % self.world.sizes.partitions,
                        )
                        break
                    except BufferError:
                        producer.poll(0.1)
                if number % 10_000 == 0:
                    producer.poll(0)
                    move(number)
            if left := producer.flush(_FLUSH_SECONDS):
                raise CheckFailed(f"{left:,} records did not reach topic {self.name}")
        self.sent += len(keys)

    def _records(self, keys: Numbers, sequences: Numbers) -> Iterator[tuple[int, bytes]]:
        parsed = fastavro.parse_schema(dict(_SCHEMA))
        buffer = io.BytesIO()

        def written(key: int, sequence: int) -> tuple[int, bytes]:
            buffer.seek(0)
            buffer.truncate()
            fastavro.schemaless_writer(buffer, parsed, _record(key, sequence, self.games, self.sizes.days))
            return key, buffer.getvalue()

        return starmap(written, zip(keys.tolist(), sequences.tolist(), strict=True))


def keyed_topic(world: World, sizes: TableSizes, games: int, *, timed: bool = False) -> KeyedTopic:
    """An empty topic for records of so many games; `timed`: what says which is newer is a time."""
    name = world.new_name(f"gamers-{games}")
    admin = AdminClient({"bootstrap.servers": world.stack.bootstrap_servers})
    admin.create_topics([NewTopic(name, num_partitions=world.sizes.partitions, replication_factor=1)])[
        name
    ].result()
    number = world.registry.register(f"{name}-value", json.dumps(_TIMED if timed else _SCHEMA), "AVRO")
    return KeyedTopic(
        world,
        name,
        world.registry.by_ref(number),
        game_names(games),
        sizes,
        np.full(sizes.keys, -1, dtype=np.int64),
    )


def _record(key: int, sequence: int, games: Sequence[str], days: int) -> dict[str, Any]:
    mixed = (key * 2_654_435_761 + sequence * 40_503) & 0xFFFFFFFF
    return {
        KEY: key,
        NEWEST_BY: sequence,
        GAME: games[key % len(games)],
        DAY: _FIRST_DAY + mixed % days,
        "level": mixed % 100,
        "score": mixed / 7,
        "country": _COUNTRIES[mixed >> 5 & 7],
        "device": _DEVICES[mixed >> 9 & 3],
        "is_member": bool(mixed >> 11 & 1),
        "said": f"{mixed:032x}",
    }
