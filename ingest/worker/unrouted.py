"""Record types whose columns the routing expression does not go with, as workers met them, and the warning about each."""

from __future__ import annotations

import logging

import pyarrow as pa

from distributary.codecs.types.masks import Rows
from distributary.ingest.kafka.offset_spans import place_of
from distributary.ingest.worker.fields_seen import Sighting, join_sightings

_log = logging.getLogger(__name__)

# A producer of ever new record types shall fill neither a report nor a log.
_MOST_KEPT = 100

# By the record type's name and why the expression does not go with it.
Unrouted = dict[tuple[str, str], Sighting]


def note_unrouted(seen: Unrouted, about: tuple[str, str], raw: pa.RecordBatch, rows: Rows) -> None:
    """Add rows of a batch, which ascend; `about` is their record type's name and why."""
    if len(rows):
        join_unrouted(seen, {about: Sighting(len(rows), place_of(raw, int(rows[0])))})


def join_unrouted(seen: Unrouted, others: Unrouted) -> None:
    """Take other sightings into these, up to a bound."""
    join_sightings(seen, others, _MOST_KEPT)


def told(seen: Unrouted) -> list[str]:
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
        new = {about: one for about, one in seen.items() if about not in self._told}
        for sentence in told(new)[: max(_MOST_KEPT - len(self._told), 0)]:
            _log.warning("%s. They have no entity: policies.no_entity says what becomes of them", sentence)
        self._told.update(new)
