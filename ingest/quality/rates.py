"""How often a pipeline's tables were given what they expect, by what the ledger tells of each batch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyarrow import dataset

from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.ledger import batches_of
from distributary.ingest.tables.log import has_log
from distributary.ingest.tables.state import table_folder

_TOLD = "expectations"

_COLUMNS = ("generation", "batch_id", "first_batch_id", "ended_at", _TOLD)


@dataclass(frozen=True, slots=True)
class Rate:
    """How often an expectation was met in a batch, or in those of a day that one row of the ledger stands for.

    generation         of the checkpoint that counts these batches
    first_batch, last_batch  which they are, both inclusive; mostly one and the same
    ended_at           when the last one ended
    met, not_met       records that met it, and that did not
    """

    generation: str
    first_batch: int
    last_batch: int
    ended_at: datetime
    met: int
    not_met: int


@dataclass(frozen=True, slots=True)
class Expected:
    """An expectation of a table, and how often it was met, the earliest batch first.

    table  its folder
    name   the expectation's
    """

    table: str
    name: str
    rates: tuple[Rate, ...]

    @property
    def met(self) -> int:
        """Records that met it."""
        return sum(rate.met for rate in self.rates)

    @property
    def not_met(self) -> int:
        """Records that did not."""
        return sum(rate.not_met for rate in self.rates)


def expected(root: Files, pipeline: str) -> list[Expected]:
    """Every expectation that the ledger under a root tells of for a pipeline, by table and name; none where there is no ledger."""
    found: dict[tuple[str, str], list[Rate]] = {}
    for row in _rows(root, pipeline):
        for table, told in json.loads(row[_TOLD]).items():
            for name, counts in told.items():
                found.setdefault((table, name), []).append(_rate(row, counts))
    return [Expected(table, name, tuple(_in_order(rates))) for (table, name), rates in sorted(found.items())]


def _rows(root: Files, pipeline: str) -> Iterator[Mapping[str, Any]]:
    place = root.below(BATCHES_TABLE)
    if not has_log(place):
        return
    handle = opened(place)
    names = handle.schema().to_arrow().names
    # A ledger of an earlier version has the column with its next batch.
    if _TOLD not in names:
        return
    where = (dataset.field("pipeline") == pipeline) & dataset.field(_TOLD).is_valid()
    rows = handle.to_pyarrow_dataset(filesystem=table_folder(handle))
    yield from rows.to_table(columns=[one for one in _COLUMNS if one in names], filter=where).to_pylist()


def _rate(row: Mapping[str, Any], counts: Iterable[int]) -> Rate:
    met, not_met = counts
    first = batches_of(row["batch_id"], row.get("first_batch_id"))[0]
    return Rate(row["generation"], first, row["batch_id"], row["ended_at"], met, not_met)


def _in_order(rates: Iterable[Rate]) -> list[Rate]:
    return sorted(rates, key=lambda rate: (rate.ended_at, rate.generation, rate.last_batch))
