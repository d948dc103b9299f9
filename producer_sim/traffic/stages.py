"""The stages of a simulation: in each the producers get one more version of every type of event, grown or changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from distributary.codecs.changes.classify import ChangeClass
from distributary.producer_sim.events.model import EventSchema
from distributary.producer_sim.events.versions import event_schema
from distributary.producer_sim.traffic.changes import SWITCHED, changed_schema


@dataclass(frozen=True, slots=True)
class Stage:
    """What is new while a version is the newest.

    number   the version
    format   how its events are written, one of `formats.FORMATS`
    change   what its schemas changed of those before; None where they only grew, as all versions do
    schemas  by the type of event
    """

    number: int
    format: str
    change: ChangeClass | None
    schemas: Mapping[str, EventSchema]


@lru_cache(maxsize=64)
def staged(
    format_name: str, versions: int, changes: tuple[ChangeClass, ...], types: tuple[str, ...]
) -> tuple[Stage, ...]:
    """All stages from version 1 on: so many versions that grow, then one a change. Raises ConfigError."""
    stages = [
        Stage(number, format_name, None, {name: event_schema(number, name) for name in types})
        for number in range(1, versions + 1)
    ]
    for change in changes:
        before = stages[-1]
        schemas = {
            name: changed_schema(change, schema, before.format) for name, schema in before.schemas.items()
        }
        written = SWITCHED[before.format] if change == "format_switched" else before.format
        stages.append(Stage(before.number + 1, written, change, schemas))
    return tuple(stages)
