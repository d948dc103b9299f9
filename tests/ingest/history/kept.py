"""A table that keeps what was, without a pipeline around it, and a plain model of what it has to have."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import pyarrow as pa
from tests.ingest.merge.upserted import POSITION, Upserted

from distributary.ingest.merge import live_files
from distributary.ingest.merge.rule import IS_DELETE, MergeRule, Order, Validity
from distributary.ingest.storage.opening import At
from distributary.ingest.tables.transaction import TableCommit
from distributary.ingest.upkeep.compaction import compact

BOUNDS = ("valid_from", "valid_to", "is_current")

# Columns of Kafka's own, which a test's tables have.
PLACES = ("topic", "partition", "offset", "ts")

Row = Mapping[str, Any]


def rule_by(*sequence: str, keys: Sequence[str] = ("k",), apart: Sequence[str] = ()) -> MergeRule:
    """A rule by these columns; `apart` make no history."""
    return MergeRule(tuple(keys), Order(POSITION, sequence), history=Validity(apart=tuple(apart)))


@dataclass
class Kept(Upserted):
    """The table under a root, and what remembers its records."""

    @classmethod
    def new(cls, root: At, columns: Sequence[Any], rule: MergeRule, partitions: Sequence[str] = ()) -> Kept:
        """An empty one."""
        moment = dict(columns)[rule.order.sequence[0]]
        bounds = [("valid_from", moment), ("valid_to", moment), ("is_current", pa.bool_())]
        made = cls.made(root, [*columns, *bounds], rule, deletes=True, partitions=partitions)
        assert isinstance(made, Kept)
        return made

    def decided(self, rows: Sequence[Row], deletes: Sequence[Row] = (), files: int = 1) -> TableCommit:
        """The next batch, staged: rows as if each were true for ever, and what is remembered of all of them."""
        moment = self.rule.order.sequence[0]
        staged = [{**row, "valid_from": row[moment], "valid_to": None, "is_current": True} for row in rows]
        records = [
            *({**row, IS_DELETE: False} for row in rows),
            *({**row, IS_DELETE: True} for row in deletes),
        ]
        found = super().decided(staged, records, files)
        assert found.merge is not None
        return found

    def compact(self) -> None:
        """Bring its small files together, and those of what remembers its records."""
        assert self.rule.deletes is not None
        for place in (self.place, self.rule.deletes.memory):
            compact(place)

    def closed(self) -> list[bool]:
        """Of each file in force whether the log says that all of its rows ended."""
        live = live_files.read(self.place, self.batch + 1)
        return [json.loads(add["stats"])["nullCount"].get("valid_to") == 0 for _, add in live]


@dataclass
class Recomputed:
    """What a table has to have of all records that were taken so far."""

    rule: MergeRule
    records: list[tuple[Row, bool]] = field(default_factory=list)

    def take(self, rows: Sequence[Row], deletes: Sequence[Row] = ()) -> None:
        """Some more."""
        self.records += [*((row, False) for row in rows), *((row, True) for row in deletes)]

    def rows(self) -> list[dict[str, Any]]:
        """All rows, by nothing but sorting."""

        def key(record: tuple[Row, bool]) -> Any:
            return tuple(record[0][one] for one in self.rule.keys)

        found = []
        for _, mine in groupby(sorted(self.records, key=lambda one: (key(one), self._order(one[0]))), key):
            found += self._of_one(list(mine))
        return found

    def _of_one(self, records: list[tuple[Row, bool]]) -> list[dict[str, Any]]:
        moment = self.rule.order.sequence[0]
        last = {row[moment]: (row, removes) for row, removes in records}
        found, before = list[dict[str, Any]](), None
        for at, (row, removes) in sorted(last.items()):
            if before is not None and not removes and self._says(before) == self._says(row):
                continue
            if before is not None:
                found[-1] |= {"valid_to": at, "is_current": False}
            before = None if removes else row
            if not removes:
                found.append({**row, "valid_from": at, "valid_to": None, "is_current": True})
        return found

    def _order(self, row: Row) -> Any:
        return (
            *(row[one] for one in self.rule.order.sequence),
            row["topic"],
            row["partition"],
            row["offset"],
        )

    def _says(self, row: Row) -> Any:
        apart = {*PLACES, *self.rule.order.sequence}
        apart |= set() if self.rule.history is None else set(self.rule.history.apart)
        return repr(sorted(_without(row, apart).items()))


def _without(row: Row, apart: set[str], above: str = "") -> dict[str, Any]:
    """What makes history: of what has a part that makes none, all other parts by themselves, as far as they have a value."""
    found = dict[str, Any]()
    for name, value in row.items():
        path = f"{above}{name}"
        if path in apart:
            continue
        if any(one.startswith(f"{path}.") for one in apart):
            inside = _without(value or {}, apart, f"{path}.")
            found |= {key: one for key, one in inside.items() if one is not None}
        else:
            found[path] = value
    return found


def same(rows: Sequence[Row], schema: pa.Schema) -> list[str]:
    """Rows so that they compare, whatever order they are in."""
    return sorted(map(repr, pa.Table.from_pylist(list(rows), schema).to_pylist()))
