"""What is around an event in Kafka: its key and its headers, each made from one of its fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from distributary.producer_sim.event_values import text_column
from distributary.producer_sim.events import Events

Headers: TypeAlias = tuple[tuple[str, bytes], ...]
GAMER = "gamer_id"


class Envelope(NamedTuple):
    """A record's key, null where its field is, and its headers, without those whose field is null."""

    key: bytes | None
    headers: Headers = ()

    def without(self, header: str) -> Envelope:
        """The same without headers of a name."""
        return Envelope(self.key, tuple(each for each in self.headers if each[0] != header))


def envelopes(events: Events, key: str, headers: Mapping[str, str]) -> list[Envelope]:
    """One for each event; `key` and `headers` say from which fields they are made."""
    keys = events.keys if key == GAMER else _bytes(events.rows, key)
    if not headers:
        return [Envelope(each) for each in keys]
    columns = [[(name, value) for value in _bytes(events.rows, path)] for name, path in headers.items()]
    return [
        Envelope(of_key, tuple((name, value) for name, value in found if value is not None))
        for of_key, *found in zip(keys, *columns, strict=True)
    ]


def _bytes(rows: pa.RecordBatch, path: str) -> Sequence[bytes | None]:
    return [None if text is None else text.encode() for text in text_column(rows, path).to_pylist()]
