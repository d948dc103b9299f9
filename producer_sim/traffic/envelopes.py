"""What is around an event in Kafka: its key and its headers, each made from one of its fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from distributary.producer_sim.events.values import text_column
from distributary.producer_sim.traffic.events import Events

Headers: TypeAlias = tuple[tuple[str, bytes], ...]

GAMER = "gamer_id"


class Envelope(NamedTuple):
    """A record's key, null where its field is, and its headers, without those whose field is null."""

    key: bytes | None
    headers: Headers = ()

    def without(self, header: str) -> Envelope:
        """The same without headers of a name."""
        return Envelope(self.key, tuple(each for each in self.headers if each[0] != header))


class Envelopes(NamedTuple):
    """Those of many events, by the column, which is faster."""

    keys: Sequence[bytes | None]
    headers: Sequence[Headers]

    def of(self, place: int) -> Envelope:
        """That of one event."""
        return Envelope(self.keys[place], self.headers[place])


def envelopes(events: Events, key: str, headers: Mapping[str, str]) -> Envelopes:
    """What is around these events; `key` and `headers` say from which fields it is made."""
    keys = events.keys if key == GAMER else _bytes(events.rows, key)
    if not headers:
        return Envelopes(keys, [()] * len(keys))
    columns = [[(name, value) for value in _bytes(events.rows, path)] for name, path in headers.items()]
    rows = zip(*columns, strict=True)
    return Envelopes(keys, [tuple((name, value) for name, value in row if value is not None) for row in rows])


def _bytes(rows: pa.RecordBatch, path: str) -> Sequence[bytes | None]:
    return [None if text is None else text.encode() for text in text_column(rows, path).to_pylist()]
