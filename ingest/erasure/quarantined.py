"""Records in quarantine that are to go: their bytes are looked into as JSON, and otherwise they are known by their key alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from distributary.ingest.erasure.bodies import holds
from distributary.ingest.erasure.record import BATCH
from distributary.ingest.erasure.rewriting import Mask, Rows
from distributary.ingest.routing.conditions import ReadCondition

COLUMNS = frozenset({"kafka_key", "value", "pipeline"})

TOLD = ("kafka_topic", "kafka_partition", "kafka_offset", *BATCH)

# What a registry's serializer writes before JSON: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
_HEADER = 5


@dataclass(slots=True)
class Quarantined:
    """What tells such records, and how many nobody can look into.

    pipeline  whose records alone are meant
    keys      keys of records that go, whatever they say
    unread    how many had bytes that are no JSON, of all that were looked at last
    """

    condition: ReadCondition
    pipeline: str
    keys: frozenset[bytes] = frozenset()
    unread: int = 0

    def rows(self, keep: Callable[[pa.Table], None] | None = None) -> Rows:
        """As a table's rows; `keep` is told what `TOLD` names of them."""
        self.unread = 0
        return Rows(COLUMNS, self._of, TOLD, keep)

    def _of(self, rows: pa.RecordBatch) -> Mask:
        found = np.zeros(rows.num_rows, dtype=bool)
        keys, values = (rows.column(name).to_pylist() for name in ("kafka_key", "value"))
        known = "pipeline" in rows.schema.names
        whose = rows.column("pipeline").to_pylist() if known else [None] * rows.num_rows
        for row, (key, value, pipeline) in enumerate(zip(keys, values, whose, strict=True)):
            # Versions before did not say whose they are.
            if pipeline in (None, self.pipeline):
                found[row] = key in self.keys or self._says_so(value)
        return found

    def _says_so(self, value: bytes | None) -> bool:
        if value is None:
            return False
        told = [holds(self.condition, body) for body in _bodies(value)]
        if True in told:
            return True
        self.unread += not told or None in told
        return False


def _bodies(value: bytes) -> Iterator[dict[str, Any]]:
    """The objects that a record's bytes may be: what an envelope says of a row as it was, and is, among them."""
    for begin in (0, _HEADER):
        try:
            body = json.loads(value[begin:])
        except (ValueError, RecursionError):
            continue
        if isinstance(body, dict) and body:
            yield body
            payload = body.get("payload")
            inner: dict[str, Any] = payload if isinstance(payload, dict) else body
            parts: Sequence[Any] = [inner, *(inner.get(name) for name in ("before", "after"))]
            yield from (one for one in parts if isinstance(one, dict) and one and one is not body)
            return
