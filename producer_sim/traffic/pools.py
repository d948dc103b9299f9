"""Believable values for the fields of a game event, drawn once from a seed and then picked from, which is fast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.producer_sim.events.model import TIMESTAMP, EventSchema, Field
from distributary.producer_sim.formats.base import Encoder

POOL_SIZE = 512

ABSENT_SHARE, RARE_ABSENT_SHARE = 0.25, 0.9

EPOCH = datetime(2024, 1, 1, tzinfo=timezone.utc)

WORDS: dict[str, Sequence[str]] = {
    "event_type": ("kill", "death", "level_up", "purchase", "login", "logout", "match_start", "match_end"),
    "device": ("ios", "android", "windows", "playstation", "xbox", "switch", ""),
    "country": ("NL", "DE", "FR", "PL", "JP", "BR", "US", "IN", "KE", "NZ"),
    "tags": ("ranked", "co-op", "noob", "ça va", "новичок", "初心者", "🏆", ""),
    "inventory": ("gold", "gem", "sword", "elixir", "Schlüssel", "盾"),
    "season": ("spring", "summer", "autumn", "winter", ""),
    "name": ("Night Owls", "Żółwie", "龍の巣", "Los Ñandúes", "🐙🐙", 'O\'Neil "The" Guild'),
    "achievements": ("first_blood", "untouchable", "hoarder", "pacifist", "épée d'or"),
    "wallet": ("coins", "gems", "tickets", "кредиты"),
    "item": ("sword", "shield", "potion", "mapa do tesouro", ""),
}

ANY_WORD: Sequence[str] = (
    "alpha",
    "beta",
    "gamma",
    "δέλτα",
    "",
    "a longer piece of text, with a comma",
    "0",
    "null",
)


@dataclass(frozen=True, slots=True)
class Pool:
    """Values of one field, twice: written on their own, and as a correct reader finds them.

    In every format an event is joined from such fragments.
    The last entry, reached as -1 too, leaves the field out.
    """

    fragments: list[bytes]
    array: pa.Array

    def take(self, picks: npt.NDArray[np.int64]) -> tuple[list[bytes], pa.Array]:
        """The fragments and the values at these places."""
        fragments = self.fragments
        places = np.where(picks < 0, len(fragments) - 1, picks)
        return [fragments[place] for place in places.tolist()], self.array.take(pa.array(places))


def pool(field: Field, schema: EventSchema, seed: int, encoder: Encoder) -> Pool:
    """Values for one field; the same for the same seed, field and version, whatever writes them."""
    values = _values(field, seed, schema.version, tuple(schema.messages.items()), tuple(schema.enums.items()))
    return pool_of(values, field, encoder)


def pool_of(values: Sequence[Any], field: Field, encoder: Encoder) -> Pool:
    """These values of a field."""
    return Pool(encoder.fragments(field, values), encoder.column(field, values))


@lru_cache(maxsize=256)
def _values(
    field: Field,
    seed: int,
    version: int,
    messages: tuple[tuple[str, tuple[Field, ...]], ...],
    enums: tuple[tuple[str, tuple[str, ...]], ...],
) -> Sequence[Any]:
    """Drawn once a process, not by each of the simulations that follow one another in tests: it takes half of a small one's time."""
    rng = np.random.default_rng([seed, version, *field.name.encode()])
    schema = EventSchema(version, "", dict(messages), dict(enums))
    return [_value(field, schema, rng) for _ in range(POOL_SIZE)]


def _value(field: Field, schema: EventSchema, rng: np.random.Generator) -> Any:
    may_be_absent = field.label == "optional" or (not field.label and _is_message(field.type, schema))
    if may_be_absent and rng.random() < (RARE_ABSENT_SHARE if field.rare else ABSENT_SHARE):
        return None
    if field.label == "repeated":
        return [_single(field, field.type, schema, rng) for _ in range(rng.integers(0, 5))]
    if field.is_map:
        words = WORDS.get(field.name, ANY_WORD)
        keys = rng.choice(len(words), size=int(rng.integers(0, 4)), replace=False)
        return {words[key]: _single(field, field.value_type, schema, rng) for key in keys}
    return _single(field, field.type, schema, rng)


def _single(field: Field, kind: str, schema: EventSchema, rng: np.random.Generator) -> Any:
    if kind in schema.messages:
        return {inner.name: _value(inner, schema, rng) for inner in schema.messages[kind]}
    if kind in schema.enums:
        return str(rng.choice(schema.enums[kind]))
    if kind == "string":
        words = WORDS.get(field.name, ANY_WORD)
        return words[int(rng.integers(0, len(words)))]
    return _number(kind, rng)


def _number(kind: str, rng: np.random.Generator) -> Any:
    """A value of a type without words; zero, the default that is not sent, is among them."""
    if rng.random() < 0.1 and kind != TIMESTAMP:
        return {"bool": False, "bytes": b"", "double": 0.0, "float": 0.0}.get(kind, 0)
    ranges = {"int32": (-(2**31), 2**31), "int64": (-(2**63), 2**63 - 1), "uint32": (0, 2**32)}
    if kind in ranges:
        # Mostly small, as counts are, and now and then up to the edge of the type.
        return int(rng.integers(*ranges[kind])) if rng.random() < 0.1 else int(rng.integers(0, 1000))
    if kind == "bool":
        return bool(rng.random() < 0.5)
    if kind == "bytes":
        return rng.bytes(int(rng.integers(1, 12)))
    if kind == TIMESTAMP:
        return EPOCH + timedelta(microseconds=int(rng.integers(-(10**15), 10**15)))
    return float(np.float32(rng.normal() * 100)) if kind == "float" else float(rng.normal() * 100)


def _is_message(kind: str, schema: EventSchema) -> bool:
    return kind in schema.messages or kind == TIMESTAMP
