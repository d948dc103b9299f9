"""Rows that somebody had erased: they were where the ledger says, and need not be found any more."""

from __future__ import annotations

from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.erasure.record import Gone, kept
from distributary.producer_sim.verify.lake import Lake
from distributary.producer_sim.verify.ledger_check import Held


def with_erased(lake: Lake, held: Held) -> Held:
    """What was found, and those beside it; it is the same that was given. Raises OSError, and ValueError where what is kept of it cannot be read."""
    for told in kept(lake.root, lake.me.name) if lake.me is not None else ():
        for table, value in told["gone"].items():
            gone = Gone.from_json(value)
            coverage = held.quarantine if table == QUARANTINE_TABLE else held.tables
            for topic, number, offsets in gone.offsets:
                coverage.add((topic, number), offsets)
            held.quarantined.update(gone.batches)
    return held
