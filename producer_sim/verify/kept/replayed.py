"""Rows that were made again from bronze: they are where the replays say, whatever the ledger says of the batches that read them first."""

from __future__ import annotations

from dataclasses import replace

from distributary.ingest.replay.places import offsets_of
from distributary.ingest.upkeep.outcomes import since
from distributary.producer_sim.verify.coverage import Coverage
from distributary.producer_sim.verify.lake import Lake
from distributary.producer_sim.verify.ledger_check import Held
from distributary.producer_sim.verify.verdict import EXAMPLES, Difference, listed, named


def with_replayed(lake: Lake, held: Held) -> tuple[Held, list[Difference]]:
    """What was found, with what replays say of it; and the records that are not where they put them.

    Raises OSError, and ValueError, KeyError or TypeError where what is kept of a replay cannot be read.
    """
    if lake.me is None:
        return held, []
    told, lacking = since(lake.root, lake.me.name), list[Difference]()
    added, out = Coverage(), Coverage()
    for partition, bitmap in told.added.items():
        offsets = offsets_of(bitmap)
        added.add(partition, offsets)
        if len(gone := held.tables.lacking(partition, offsets)):
            detail = f"{listed(gone[:EXAMPLES].tolist(), len(gone))} had a row by a replay from bronze, and have none"
            lacking.append(Difference("ledger_rows", named(partition), detail))
    for partition, bitmap in told.let_out.items():
        out.add(partition, offsets_of(bitmap))
    return replace(held, added=added, out=out), lacking
