"""Game events by the hundred thousand: the same for the same seed, as bytes, and as the rows a reader must find.

The rows are built from the generator's own values, never by decoding what was written, so that they can
testify about decoders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.producer_sim.events.model import EventSchema, Field
from distributary.producer_sim.events.versions import EVENT_TYPES, RECORD, event_schema
from distributary.producer_sim.formats.base import load_format
from distributary.producer_sim.traffic.pools import POOL_SIZE, pool, pool_of

FIRST_EVENT_MS = 1_735_689_600_000  # 2025-01-01T00:00:00Z

# The fields that hardly repeat, as long as they have these types.
OWN_TYPES: Mapping[str, str] = {
    "event_id": "string",
    "event_timestamp": "int64",
    "level": "int32",
    "score": "int64",
    "duration_s": "double",
    "premium": "bool",
}

# Whose values are the population's.
GIVEN = ("game_name", "gamer_id")

STAGE_MS = 30 * 24 * 3600 * 1000

Picks = npt.NDArray[np.int64]

GAME_ADJECTIVES = ("star", "pixel", "dragon", "turbo", "shadow", "frost", "neon", "iron", "lucky", "wild")

GAME_NOUNS = (
    "harvest",
    "racer",
    "quest",
    "arena",
    "legends",
    "kingdom",
    "blaster",
    "islands",
    "tactics",
    "golf",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Population:
    """Who plays what: the games, how many gamers, and how unevenly events fall on them.

    A skew of 0 spreads events evenly; 1 is Zipf's law: the n-th gets a share like 1/n.
    """

    games: tuple[str, ...]
    gamers: int = 5_000
    game_skew: float = 0.0
    gamer_skew: float = 0.0


@dataclass(frozen=True, slots=True)
class Events:
    """Some events: their keys, their bodies without any header, and the rows a correct reader finds in them."""

    keys: list[bytes]
    bodies: list[bytes]
    rows: pa.RecordBatch


def game_names(count: int) -> tuple[str, ...]:
    """That many distinct names, such as `star_harvest`; the first hundred are words alone."""
    pairs = len(GAME_ADJECTIVES) * len(GAME_NOUNS)
    return tuple(_game_name(number % pairs, number // pairs) for number in range(count))


def _game_name(pair: int, edition: int) -> str:
    adjective = GAME_ADJECTIVES[pair % len(GAME_ADJECTIVES)]
    noun = GAME_NOUNS[(pair + pair // len(GAME_ADJECTIVES)) % len(GAME_NOUNS)]
    return f"{adjective}_{noun}" if edition == 0 else f"{adjective}_{noun}_{edition + 1}"


class EventMaker:
    """Makes events of one schema version; what it makes depends on nothing but its arguments."""

    def __init__(
        self,
        version: int,
        population: Population,
        seed: int,
        format_name: str = "protobuf",
        record: str | EventSchema = RECORD,
    ) -> None:
        """Make events of a type and version for these players, written in a format of `formats.FORMATS`.

        `record` is the type of event, or its schema where that did more than to grow.
        """
        self.version = version
        self._seed = seed
        self._schema = event_schema(version, record) if isinstance(record, str) else record
        self._type = list(EVENT_TYPES).index(self._schema.type)
        self._encoder = load_format(format_name).encoder(self._schema)
        self._game_edges = _edges(len(population.games), population.game_skew)
        self._gamer_edges = _edges(population.gamers, population.gamer_skew)
        gamers = [_gamer(number) for number in range(population.gamers)]
        self._keys = [gamer.encode() for gamer in gamers]
        self._pools = {
            field.name: pool(field, self._schema, seed, self._encoder)
            for field in self._schema.fields
            if not _is_own(field) and field.name not in GIVEN
        }
        self._own = [field.name for field in self._schema.fields if _is_own(field)]
        fields = {field.name: field for field in self._schema.fields}
        self._pools["game_name"] = pool_of(population.games, fields["game_name"], self._encoder)
        self._pools["gamer_id"] = pool_of(gamers, fields["gamer_id"], self._encoder)

    def chunk(self, stage: int, number: int, count: int) -> Events:
        """The `number`-th chunk of events of this version within a stage of the simulation."""
        # The first type goes without a number of its own, so that it is the same whether there are others or not.
        source = [self._seed, stage, self.version, number, *([self._type] if self._type else [])]
        rng = np.random.default_rng(source)
        own = _own_values(rng, "-".join([f"{self._seed:x}", *map(str, source[1:])]), count)
        own["event_timestamp"] = _timestamps(rng, stage, number, count)
        own = {name: own[name] for name in self._own}
        picks = self._picks(rng, count)
        pooled = {name: self._pools[name].take(places) for name, places in picks.items()}
        arrays = {name: pa.array(values) for name, values in own.items()}
        arrays |= {name: array for name, (_, array) in pooled.items()}
        names = [field.name for field in self._schema.fields]
        rows = pa.RecordBatch.from_arrays([arrays[name] for name in names], names=names)
        keys = [self._keys[gamer] for gamer in picks["gamer_id"].tolist()]
        fragments = {name: found for name, (found, _) in pooled.items()}
        return Events(keys, self._encoder.bodies(own, fragments), rows)

    def without_game(self, body: bytes) -> bytes:
        """The same event, its game's name left empty."""
        return self._encoder.without_game(body)

    def _picks(self, rng: np.random.Generator, count: int) -> dict[str, Picks]:
        """For each pooled field, which of its pool's values each event gets."""
        picks = {name: rng.integers(0, POOL_SIZE, count) for name in self._pools}
        picks["game_name"] = _places(rng, self._game_edges, count)
        picks["gamer_id"] = _places(rng, self._gamer_edges, count)
        for members in _oneofs(self._schema.fields):
            chosen = rng.integers(-1, len(members), count)
            for arm, field in enumerate(members):
                picks[field.name] = np.where(chosen == arm, picks[field.name], -1)
        return picks


def _is_own(field: Field) -> bool:
    return OWN_TYPES.get(field.name) == field.type and not field.label


def _own_values(rng: np.random.Generator, id_prefix: str, count: int) -> dict[str, Any]:
    """The fields that hardly repeat from event to event."""
    return {
        "event_id": [f"{id_prefix}-{i:06d}" for i in range(count)],
        "level": rng.integers(0, 100, count, dtype=np.int32),
        "score": rng.integers(0, 10**9, count),
        "duration_s": rng.exponential(300.0, count),
        "premium": rng.random(count) < 0.1,
    }


def _gamer(number: int) -> str:
    return f"gamer_{number:06d}" if number % 50 else f"gämer_{number:06d}_玩家"


def _edges(count: int, skew: float) -> npt.NDArray[np.float64]:
    """Where on [0, 1) each of `count` shares ends."""
    weights = np.arange(1, count + 1, dtype=np.float64) ** -skew
    edges: npt.NDArray[np.float64] = np.cumsum(weights) / weights.sum()
    edges[-1] = 1.0  # rounding must not leave a gap at the end
    return edges


def _places(rng: np.random.Generator, edges: npt.NDArray[np.float64], count: int) -> Picks:
    return np.searchsorted(edges, rng.random(count), side="right").astype(np.int64)


def _timestamps(rng: np.random.Generator, stage: int, number: int, count: int) -> Picks:
    """Milliseconds: each stage is a month, its chunks follow each other, events arrive a little out of order."""
    first = FIRST_EVENT_MS + stage * STAGE_MS + number * 60_000
    return first + np.arange(count) + rng.integers(0, 5_000, count)


def _oneofs(fields: Sequence[Field]) -> list[list[Field]]:
    names = dict.fromkeys(field.oneof for field in fields if field.oneof)
    return [[field for field in fields if field.oneof == name] for name in names]
