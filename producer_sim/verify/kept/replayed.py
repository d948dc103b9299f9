"""Rows that replays made, from bronze or of quarantined records: they are where these say, whatever the ledger says of the batches that read them first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import numpy as np

from distributary.ingest.replay.places import offsets_of
from distributary.ingest.upkeep.replayed import since
from distributary.producer_sim.verify.coverage import BLOCK, Coverage
from distributary.producer_sim.verify.lake import Lake
from distributary.producer_sim.verify.ledger_check import Held
from distributary.producer_sim.verify.verdict import EXAMPLES, Difference, listed, named


def with_replayed(lake: Lake, held: Held, again: Coverage) -> tuple[Held, list[Difference]]:
    """What was found, with what replays say of it; and the records that are not where they put them.

    again  those that one had refused and that got a row since, of which batches may have had none

    Raises OSError, and ValueError, KeyError or TypeError where what is kept of a replay cannot be read.
    """
    if lake.me is None:
        return held, []
    told, lacking = since(lake.root, lake.me), list[Difference]()
    added, out = Coverage(), Coverage()
    for partition, bitmap in told.added.items():
        offsets = offsets_of(bitmap)
        added.add(partition, offsets)
        if len(gone := held.tables.lacking(partition, offsets)):
            detail = f"{listed(gone[:EXAMPLES].tolist(), len(gone))} had a row by a replay from bronze, and have none"
            lacking.append(Difference("ledger_rows", named(partition), detail))
    for partition, number, counts in again:
        added.add(partition, added.lacking(partition, np.flatnonzero(counts) + number * BLOCK))
    for partition, bitmap in told.let_out.items():
        out.add(partition, offsets_of(bitmap))
    return replace(held, added=added, out=out), lacking


def lacking_brought_back(
    held: Held, brought: Mapping[str, Coverage], keyed: Collection[str]
) -> Iterator[Difference]:
    """Quarantined records that got a row in a table to which each is added, and have none: by the table's folder, but for those `keyed`.

    What was erased since counts as if it were there, in `held`, as does what another replay has let go.
    """
    for folder, coverage in sorted(brought.items()):
        for partition, number, counts in () if folder in keyed else coverage:
            offsets = np.flatnonzero(counts) + number * BLOCK
            gone = held.out.lacking(partition, held.tables.lacking(partition, offsets))
            if len(gone):
                detail = f"{listed(gone[:EXAMPLES].tolist(), len(gone))} had a row in {folder} by a replay of quarantined records, and have none"
                yield Difference("ledger_rows", named(partition), detail)
