"""Record headers that records are routed by, or that columns are made of, out of those that the quarantine keeps, where it does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from distributary.ingest.kafka.records import RAW_SCHEMA
from distributary.ingest.reshaping.rule import NOTHING_BESIDE, Beside
from distributary.ingest.settings.groups import Route
from distributary.ingest.tables.ledger import QUARANTINE_SCHEMA

KEPT = "headers"
"""The column of the quarantine that has a record's headers, in their order; versions have it that keep them, and null of records whose they did not."""


@dataclass(frozen=True, slots=True)
class Named:
    """The headers that are wanted.

    route   the one that records are routed by
    beside  those that columns are made of
    """

    route: str | None = None
    beside: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Whether any is."""
        return self.route is not None or bool(self.beside)

    def of(self, headers: pa.ChunkedArray) -> dict[str, pa.Array]:
        """Of records' headers, what workers are handed of them."""
        last = [_last(one) for one in headers.to_pylist()]
        found: dict[str, pa.Array] = {}
        if self.route is not None:
            found["route"] = _array("route", (one.get(self.route) for one in last))
        if self.beside:
            found["headers"] = _array("headers", ([one.get(name) for name in self.beside] for one in last))
        return found


def _last(headers: Iterable[Mapping[str, Any]] | None) -> dict[str, bytes | None]:
    """By its name the value of each header; of several of one name the last counts, as in Kafka's clients."""
    return {one["key"]: one["value"] for one in headers or ()}


def _array(name: str, values: Iterable[Any]) -> pa.Array:
    return pa.array(list(values), RAW_SCHEMA.field(name).type)


def named_by(route: Route, beside: Beside = NOTHING_BESIDE) -> Named:
    """The headers that the settings want."""
    return Named(route.header if route.by == "header" else None, beside.headers)


def are_kept() -> bool:
    """Whether this version's quarantine keeps headers."""
    return KEPT in QUARANTINE_SCHEMA.names
