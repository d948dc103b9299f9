"""Records in quarantine that are to go: their bytes are looked into as JSON, and otherwise they are known by their key alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from distributary.ingest.commit_log.owners import Whose
from distributary.ingest.erasure.file_anew import Mask
from distributary.ingest.erasure.named_otherwise import Names, called, has
from distributary.ingest.erasure.record import BATCH
from distributary.ingest.erasure.rewriting import Rows
from distributary.ingest.reshaping.rule import Path
from distributary.ingest.routing.as_said import fields_of, holds
from distributary.ingest.routing.conditions import ReadCondition

COLUMNS = frozenset({"kafka_key", "value", "pipeline", "generation"})

TOLD = ("kafka_topic", "kafka_partition", "kafka_offset", "kafka_ts", *BATCH)

# What nothing, a registry's serializer, and that of Glue write before JSON:
# https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
# https://docs.aws.amazon.com/glue/latest/dg/schema-registry-integrations.html
_HEADERS = (0, 5, 18)

# Where envelopes have a row, whole or as a text.
_ENVELOPE = ("payload", "before", "after")

# How many of lists, texts and envelopes are looked into that are in each other.
_DEPTH = 6

# How often a name may be in one object.
_OFTEN = 16


@dataclass(slots=True)
class Quarantined:
    """What tells such records, and how many nobody can look into.

    whose   the pipeline whose records alone are meant
    keys    keys of records that go, whatever they say
    names   what tables call fields otherwise than records do, each way once
    made    the fields of which tables have hashes or masks where the condition names a field
    unread  how many had bytes that are no JSON, of all that were looked at last
    as_they_came  how many had what tables have hashed or masked, of these
    """

    condition: ReadCondition
    whose: Whose
    keys: frozenset[bytes] = frozenset()
    names: Sequence[Names] = ()
    made: Sequence[Path] = ()
    unread: int = 0
    as_they_came: int = 0

    def rows(self, keep: Callable[[pa.Table], None] | None = None) -> Rows:
        """As a table's rows; `keep` is told what `TOLD` names of them."""
        self.unread = self.as_they_came = 0
        return Rows(COLUMNS, self._of, TOLD, keep)

    def _of(self, rows: pa.RecordBatch) -> Mask:
        found = np.zeros(rows.num_rows, dtype=bool)
        keys, values = (rows.column(name).to_pylist() for name in ("kafka_key", "value"))
        # Versions before did not say whose they are.
        whose = [
            rows.column(name).to_pylist() if name in rows.schema.names else [None] * rows.num_rows
            for name in ("pipeline", "generation")
        ]
        for row, (key, value, *told) in enumerate(zip(keys, values, *whose, strict=True)):
            if self.whose.has(*told):
                found[row] = key in self.keys or self._says_so(value)
        return found

    def _says_so(self, value: bytes | None) -> bool:
        if value is None:
            return False
        bodies = _bodies(value)
        told = [holds(self.condition, each) for body in bodies for each in self._called(body)]
        if True in told:
            return True
        unread = not told or None in told
        self.unread += unread
        self.as_they_came += not unread and any(has(body, path) for body in bodies for path in self.made)
        return False

    def _called(self, body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """An object as it is, and by the names that tables have. Of which one a record would have been nobody knows."""
        yield body
        # A field that would not be there by other names is null to a condition: what asks for that would find everybody.
        there = [path for path in fields_of(self.condition.tree) if has(body, path)]
        for one in self.names:
            each = called(body, one)
            if each != body and all(has(each, path) for path in there):
                yield each


def _bodies(value: bytes) -> list[Mapping[str, Any]]:
    """The objects that a record's bytes may be, or hold; none where they are no JSON, or say too much to look at all of it."""
    for begin in _HEADERS:
        try:
            found = [body for one in _said(value[begin:]) for body in _objects(one, _DEPTH)]
        except (ValueError, RecursionError):
            continue
        if found:
            return found
    return []


def _objects(value: Any, depth: int) -> Iterator[Mapping[str, Any]]:
    """What an envelope says of a row as it was, and is, among them; and what is a list, or once more JSON in a text."""
    if not value or depth < 0:
        return
    if isinstance(value, str):
        try:
            inside = _said(value)
        except (ValueError, RecursionError):
            return
        for one in inside:
            yield from _objects(one, depth - 1)
    elif isinstance(value, list):
        for one in value:
            yield from _objects(one, depth - 1)
    elif isinstance(value, dict):
        yield value
        for name in _ENVELOPE:
            yield from _objects(value.get(name), depth - 1)


def _said(text: str | bytes) -> list[Any]:
    """What JSON says: several times where an object has a name twice, so that each of its values is in one of them.

    Raises ValueError of what is no JSON, or has a name very often, and RecursionError.
    """
    most = 1

    def kept(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal most
        found: dict[str, Any] = dict(pairs)
        if len(found) == len(pairs):
            return found
        several: dict[str, list[Any]] = {}
        for name, value in pairs:
            several.setdefault(name, []).append(value)
        most = max(most, *map(len, several.values()))
        return {name: _Several(values) if len(values) > 1 else values[0] for name, values in several.items()}

    told = json.loads(text, object_pairs_hook=kept)
    if most == 1:
        return [told]
    if most > _OFTEN:
        raise ValueError("a name is there too often")
    return [_chosen(told, number) for number in range(most)]


class _Several(list[Any]):
    """All values of a name in one object."""


def _chosen(value: Any, number: int) -> Any:
    """With one value of each name, the last one where it has not so many."""
    if isinstance(value, _Several):
        return _chosen(value[min(number, len(value) - 1)], number)
    if isinstance(value, list):
        return [_chosen(one, number) for one in value]
    if isinstance(value, dict):
        return {name: _chosen(one, number) for name, one in value.items()}
    return value
