"""By what a pipeline routes its records, for those who send them and for those who verify where they went."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.types as kinds

from distributary.errors import ConfigError
from distributary.ingest.settings.groups import Route
from distributary.producer_sim.events.values import fields_of, is_plain

# The field that tells the simulator's games apart; every type of event has it, with a value.
GAME = "game_name"

KEY, HEADER, FIELD = "key", "header:", "field:"

_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)

_NAME = re.compile(r"[^\W\d]\w*(?:\s*\.\s*[^\W\d]\w*)*(?!\w|\s*\()")


@dataclass(frozen=True, slots=True)
class Routed:
    """How records find their tables: `name` is that of the field or header, or the expression; else empty."""

    by: Literal["field", "record", "topic", "key", "header", "expression"] = "field"
    name: str = GAME

    @classmethod
    def of(cls, route: Route) -> Routed:
        """What a pipeline's settings say."""
        return cls(route.by, route.field or route.header or route.expression or "")

    @property
    def by_game(self) -> bool:
        """Whether each game has its table."""
        return self.by == "field" and self.name == GAME


@dataclass(frozen=True, slots=True)
class Told:
    """Something that the truth tells of each event: by which name, and the event's field that it comes from.

    The name is `key`, `header:<name>` or `field:<path>`.
    """

    name: str
    path: str

    @property
    def is_text(self) -> bool:
        """Whether it is the text of the field's value, as Kafka has it, not the value itself."""
        return not self.name.startswith(FIELD)


def told_of(
    route: Routed, key: str, headers: Mapping[str, str], schemas: Iterable[pa.Schema]
) -> tuple[Told, ...]:
    """What the truth must tell of events, beside game and type, so that their tables can be found.

    `key` and `headers` say from which field a record's key and headers are made, `schemas` which fields there are.
    Raises ConfigError for what the truth cannot tell.
    """
    if route.by == "key":
        return (Told(KEY, key),)
    if route.by == "header":
        if route.name not in headers:
            raise ConfigError(
                f"the pipeline routes by the header {route.name!r}, which no record would have; "
                f"say from which field it is made: writing.headers: {{{route.name}: {GAME}}}"
            )
        return (Told(HEADER + route.name, headers[route.name]),)
    known = _types(schemas)
    if route.by == "expression":
        paths = sorted(_mentioned(route.name, known))
    else:
        paths = [route.name] if route.by == "field" and not route.by_game and route.name in known else []
    for path in paths:
        _check(path, known[path], route)
    if route.by == "field" and not route.by_game:
        paths = [route.name]  # also one that no event has: then none has an entity
    return tuple(Told(FIELD + path, path) for path in paths)


def check_source(what: str, path: str, schemas: Iterable[pa.Schema]) -> None:
    """Raises ConfigError unless a key or a header can be made from this field."""
    found = _types(schemas).get(path, [])
    if not any(map(is_plain, found)):
        why = f"is {found[0]}" if found else "is not there"
        raise ConfigError(
            f"{what} is made from a field that is text, a whole number or a boolean; {path!r} {why}"
        )


def _types(schemas: Iterable[pa.Schema]) -> dict[str, list[pa.DataType]]:
    """The types that a field has in these schemas, by its path."""
    found: dict[str, list[pa.DataType]] = {}
    for schema in schemas:
        for path, kind in fields_of(schema):
            found.setdefault(path, []).append(kind)
    return found


def _mentioned(expression: str, known: Mapping[str, list[pa.DataType]]) -> Iterator[str]:
    """The fields that an expression names; rather one too many than one too few."""
    folded = {path.lower(): path for path in known}
    text = _QUOTED.sub(" ", expression).replace("`", "")
    for found in _NAME.findall(text):
        path = re.sub(r"\s", "", found).lower()
        if path in folded:
            yield folded[path]


def _check(path: str, types: list[pa.DataType], route: Routed) -> None:
    """A message, list or map is no value, as far as a route by a field goes; one of some versions only goes along."""
    plain = any(map(is_plain, types)) or route.by == "field"
    if plain and all(is_plain(kind) or kinds.is_nested(kind) for kind in types):
        return
    raise ConfigError(
        f"the pipeline's route needs {path!r}, which is {types[0]}; where events go can be told by "
        "text, whole numbers and booleans only"
    )
