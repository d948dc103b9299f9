"""Rows that somebody had erased: they were where the ledger says, and need not be found any more."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.erasure.record import all_gone
from distributary.producer_sim.verify.coverage import Coverage
from distributary.producer_sim.verify.lake import Lake
from distributary.producer_sim.verify.ledger_check import Held


def with_erased(lake: Lake, held: Held, passing: Collection[str] = ()) -> Held:
    """What was found, and beside it what was erased and is not found; it is the same that was given.

    `passing` are tables that say nothing of where a record has its place.

    An erasure says what it is about to erase, and what came again since is there. Raises OSError, and ValueError, KeyError or TypeError
    where what is kept of one cannot be read.
    """
    for table, gone in all_gone(lake.root, lake.me) if lake.me is not None else ():
        if table in passing:
            continue
        coverage = held.quarantine if table == QUARANTINE_TABLE else held.tables
        for (generation, batch_id, topic, partition), offsets in gone.parts.items():
            lacking = coverage.lacking((topic, partition), offsets)
            coverage.add((topic, partition), lacking)
            if generation is not None and batch_id is not None:
                # It may be there by another reading of its topic, or by a replay.
                own = held.generations.setdefault(generation, Coverage())
                not_there = own.lacking((topic, partition), offsets)
                own.add((topic, partition), not_there)
                held.quarantined[generation, batch_id] += len(not_there)
    return held


def gone_from(lake: Lake, passing: Collection[str] = ()) -> Mapping[str, Coverage]:
    """Where those records come from, each once, by the table that they were erased from; raises as `with_erased`."""
    found: dict[str, Coverage] = {}
    for table, gone in all_gone(lake.root, lake.me) if lake.me is not None else ():
        if table in passing:
            continue
        coverage = found.setdefault(table, Coverage())
        for (_, _, topic, partition), offsets in gone.parts.items():
            coverage.add((topic, partition), np.unique(coverage.lacking((topic, partition), offsets)))
    return found
