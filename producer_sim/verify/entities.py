"""Where each group of the truth's events must be: in which table, or in none.

What routes an event is told by the truth; how a route makes an entity of that is written here anew, from
docs/how-to/mixed-topics.md, and an expression is Spark's to evaluate, so that both can testify about the workers.
Only the tables' names are made by the pipeline's own function.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from distributary.errors import ConfigError
from distributary.producer_sim.events.routes import FIELD, HEADER, KEY
from distributary.producer_sim.events.values import Plain, as_text
from distributary.producer_sim.truth.checksum import Sum
from distributary.producer_sim.truth.sent import Group, Sent, Truth
from distributary.producer_sim.verify.expression_by_spark import texts_by_spark
from distributary.producer_sim.verify.lake import Lake


class Part(NamedTuple):
    """Rows that lie together: in a table, of one game, and of one schema or of records that name none."""

    table: str
    game: str
    schema_id: int | None


@dataclass(slots=True)
class Expected:
    """Where good events must be.

    parts        in the tables
    quarantined  in quarantine since they have no entity, with the digests of their values
    dropped      how many the settings drop for the same reason
    """

    parts: dict[Part, Sent] = field(default_factory=dict)
    quarantined: Sum = field(default_factory=Sum)
    dropped: int = 0


def expected(lake: Lake, truth: Truth) -> Expected:
    """Where the truth's good events must be in this lake. Raises ConfigError if the truth does not say enough."""
    found, entities = Expected(), _entities(lake, truth)
    for group, sent in sorted(truth.sent.items(), key=lambda item: item[0].order):
        table = _table(lake, entities[group])
        if table is not None:
            part = Part(table, group.game, group.schema_id)
            found.parts[part] = found.parts[part].added(sent) if part in found.parts else sent
        elif lake.no_entity == "drop":
            found.dropped += sent.rows
        else:
            found.quarantined.add(sent.rows, sent.digests)
    return found


def _table(lake: Lake, entity: str | None) -> str | None:
    """The table of an entity; an empty one is none, and has one only if the settings name it."""
    if entity:
        return lake.table_of(entity)
    return None if isinstance(lake.no_entity, str) else lake.no_entity.table


def _entities(lake: Lake, truth: Truth) -> Mapping[Group, str | None]:
    route = lake.route
    if route.by == "topic":
        return dict.fromkeys(truth.sent, truth.topic)
    if route.by == "expression":
        groups = list(truth.sent)
        texts = texts_by_spark(route.name, [dict(_fields(group)) for group in groups])
        return dict(zip(groups, texts, strict=True))
    if route.by_game:
        return {group: group.game for group in truth.sent}
    if route.by == "record":
        return {group: _record(group) for group in truth.sent}
    names = {"field": FIELD + route.name, "header": HEADER + route.name, "key": KEY}
    return {group: as_text(_told(group, names[route.by])) for group in truth.sent}


def _record(group: Group) -> str:
    if group.record is None:
        raise ConfigError(_untold("of which type its events are"))
    return group.record


def _told(group: Group, name: str) -> Plain:
    told = dict(group.told)
    if name not in told:
        raise ConfigError(_untold(f"its events' {name.replace(':', ' ')}"))
    return told[name]


def _untold(what: str) -> str:
    return (
        f"the truth does not tell {what}, by which this pipeline routes; name the pipeline's "
        "settings in the simulation, `pipeline: FILE`, and send the events anew"
    )


def _fields(group: Group) -> Iterator[tuple[str, Plain]]:
    yield "game_name", group.game
    for name, value in group.told:
        if name.startswith(FIELD):
            yield name.removeprefix(FIELD), value
