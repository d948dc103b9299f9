"""What workers saw of fields that get no column, and the warning about each: those that the schema lacks, and those beyond its bound.

Only the run's operator can help: the first take the schema that the producer writes with, the others decode.max_fields or a hint.
So it is with record types whose columns the routing expression does not go with.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.codecs.base import UnknownField
from distributary.codecs.types.masks import Rows
from distributary.ingest.kafka.offset_spans import place_of
from distributary.ingest.pins import Coordinates

_log = logging.getLogger(__name__)

# They come from data: a producer that sends random bytes shall fill neither a report nor a log.
_MOST_KEPT = 1_000

_Of = TypeVar("_Of")

_MOST_TOLD = 100


@dataclass(frozen=True, slots=True, order=True)
class LackedField:
    """A field, by the schema that lacks it, the record type's full name and the path to the field."""

    schema_id: int
    record: str
    path: str


@dataclass(frozen=True, slots=True)
class Sighting:
    """How many of the sampled records have the field, and where the first of them stands."""

    records: int
    first: Coordinates


LackedFields = dict[LackedField, Sighting]


def note(
    seen: LackedFields,
    record: tuple[int, str],
    unknown: Sequence[UnknownField],
    raw: pa.RecordBatch,
    rows: npt.NDArray[np.int64],
) -> None:
    """Add what one batch of records had, `rows` being its places in `raw`; `record` is the schema's id and the type's name."""
    for field in unknown:
        row = int(rows[field.first])
        sighting = Sighting(field.records, place_of(raw, row))
        join(seen, {LackedField(*record, field.path): sighting})


def join(seen: LackedFields, others: LackedFields) -> None:
    """Take other sightings into these, up to a bound."""
    join_sightings(seen, others, _MOST_KEPT)


def join_sightings(seen: dict[_Of, Sighting], others: Mapping[_Of, Sighting], most: int) -> None:
    """Take other sightings of whatever it is into these, but for new ones beyond so many."""
    for about, other in others.items():
        known = seen.get(about)
        if known is not None:
            seen[about] = Sighting(known.records + other.records, min(known.first, other.first))
        elif len(seen) < most:
            seen[about] = other


def by_schema(seen: LackedFields) -> dict[int, dict[str, int]]:
    """How many of the sampled records have each field, by the schema that lacks it."""
    found: dict[int, dict[str, int]] = {}
    for lacked, sighting in sorted(seen.items()):
        paths = found.setdefault(lacked.schema_id, {})
        paths[lacked.path] = paths.get(lacked.path, 0) + sighting.records
    return found


class UnknownFieldWarnings:
    """Warns of each field once in a run, by its log."""

    def __init__(self) -> None:
        self._told: set[LackedField] = set()

    def warn(self, seen: LackedFields) -> None:
        """Tell of those that nobody was told of."""
        for lacked, sighting in sorted(seen.items()):
            if lacked in self._told or len(self._told) == _MOST_TOLD:
                continue
            self._told.add(lacked)
            _log.warning(
                "records of schema %s (%s) have a field that it lacks, %s: in %s of those looked at, first at %s. Its values are in no "
                "column; the producer should register the schema that it writes with. The records are still in Kafka",
                *(lacked.schema_id, lacked.record, lacked.path, sighting.records, "/".join(map(str, sighting.first))),
            )  # fmt: skip


# Entities come from data: a producer that makes them up shall fill neither a report nor a log.
_MOST_ENTITIES_KEPT = 1_000

_MOST_ENTITIES_TOLD = 100

# By the entity that the schema is for (as its folder is called); None for the one of all records.
Outgrown = dict[str | None, Sighting]


def note_outgrown(seen: Outgrown, entity: str | None, raw: pa.RecordBatch, rows: list[int]) -> None:
    """Add rows of a batch that have more than their schema may take; `rows` are their places in `raw`, ascending."""
    if rows:
        join_outgrown(seen, {entity: Sighting(len(rows), place_of(raw, rows[0]))})


def join_outgrown(seen: Outgrown, others: Outgrown) -> None:
    """Take other sightings into these, up to a bound."""
    for entity, other in others.items():
        known = seen.get(entity)
        if known is not None:
            seen[entity] = Sighting(known.records + other.records, min(known.first, other.first))
        elif len(seen) < _MOST_ENTITIES_KEPT:
            seen[entity] = other


class GrowthWarnings:
    """Warns once in a run of each schema that stays behind its records."""

    def __init__(self) -> None:
        self._told: set[str | None] = set()

    def warn(self, seen: Outgrown, max_fields: int) -> None:
        """Tell of those that nobody was told of."""
        for entity in sorted(seen, key=lambda one: one or ""):
            if entity in self._told or len(self._told) == _MOST_ENTITIES_TOLD:
                continue
            self._told.add(entity)
            _log.warning(
                "the inferred schema%s would grow beyond decode.max_fields (%s) by fields of %s records of this batch, first at %s: what "
                "it has no column for is in the rescued column. If names are made of data, give that field a type in "
                "decode.schema_hints, such as map<string, string>, and run `distributary infer --refresh`; otherwise raise "
                "decode.max_fields. Fields by which the settings would refuse every record are among them, whatever that says",
                *("" if entity is None else f" of {entity}", max_fields, seen[entity].records),
                "/".join(map(str, seen[entity].first)),
            )  # fmt: skip


# A producer of ever new record types shall fill neither a report nor a log.
_MOST_UNROUTED = 100

# By the record type's name and why the routing expression does not go with it.
Unrouted = dict[tuple[str, str], Sighting]


def note_unrouted(seen: Unrouted, about: tuple[str, str], raw: pa.RecordBatch, rows: Rows) -> None:
    """Add rows of a batch, which ascend; `about` is their record type's name and why."""
    if len(rows):
        join_unrouted(seen, {about: Sighting(len(rows), place_of(raw, int(rows[0])))})


def join_unrouted(seen: Unrouted, others: Unrouted) -> None:
    """Take other sightings into these, up to a bound."""
    join_sightings(seen, others, _MOST_UNROUTED)


def told_of_unrouted(seen: Unrouted) -> list[str]:
    """The same in words."""
    return [
        f"{one.records} records of {record}, first at {'/'.join(map(str, one.first))}: {why}"
        for (record, why), one in sorted(seen.items())
    ]


class RouteWarnings:
    """Warns once in a run of each."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def warn(self, seen: Unrouted) -> None:
        """Tell of those that nobody was told of."""
        for about, one in sorted(seen.items()):
            if about in self._told or len(self._told) == _MOST_UNROUTED:
                continue
            self._told.add(about)
            (sentence,) = told_of_unrouted({about: one})
            _log.warning("%s. They have no entity: policies.no_entity says what becomes of them", sentence)
