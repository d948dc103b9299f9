"""Records that an inferred schema would outgrow its bound for: where workers saw them, and the warning about them.

Their further fields are in the rescued column, and would be for ever if nobody were told.
"""

from __future__ import annotations

import logging

import pyarrow as pa

from distributary.ingest.unknown_fields import Sighting

_log = logging.getLogger(__name__)

# Entities come from data: a producer that makes them up shall fill neither a report nor a log.
_MOST_KEPT = 1_000
_MOST_TOLD = 100

# By the entity that the schema is for (as its folder is called); None for the one of all records.
Outgrown = dict[str | None, Sighting]


def note(seen: Outgrown, entity: str | None, raw: pa.RecordBatch, rows: list[int]) -> None:
    """Add rows of a batch that have more than their schema may take; `rows` are their places in `raw`, ascending."""
    if rows:
        topic, partition, offset = (raw[name][rows[0]].as_py() for name in ("topic", "partition", "offset"))
        join(seen, {entity: Sighting(len(rows), (topic, partition, offset))})


def join(seen: Outgrown, others: Outgrown) -> None:
    """Take other sightings into these, up to a bound."""
    for entity, other in others.items():
        known = seen.get(entity)
        if known is not None:
            seen[entity] = Sighting(known.records + other.records, min(known.first, other.first))
        elif len(seen) < _MOST_KEPT:
            seen[entity] = other


class GrowthWarnings:
    """Warns once in a run of each schema that stays behind its records."""

    def __init__(self) -> None:
        self._told: set[str | None] = set()

    def warn(self, seen: Outgrown, max_fields: int) -> None:
        """Tell of those that nobody was told of."""
        for entity in sorted(seen, key=lambda one: one or ""):
            if entity in self._told or len(self._told) == _MOST_TOLD:
                continue
            self._told.add(entity)
            _log.warning(
                "the inferred schema%s would grow beyond decode.max_fields (%s) by fields of %s records of this batch, first at %s: what "
                "it has no column for is in the rescued column. If names are made of data, give that field a type in "
                "decode.schema_hints, such as map<string, string>, and run `distributary infer --refresh`; otherwise raise "
                "decode.max_fields",
                *("" if entity is None else f" of {entity}", max_fields, seen[entity].records),
                "/".join(map(str, seen[entity].first)),
            )  # fmt: skip
