"""Whose a checkpoint was that never had a table, as where all of its records are in quarantine: no table's record tells, and the ledger does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
from deltalake.exceptions import DeltaError

from distributary.errors import PipelineError
from distributary.ingest.checkpoint.generation import Generation
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.commit_log.owners import Records, Whose
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log import has_log
from distributary.ingest.tables.state import table_folder
from distributary.values import without_logins

_NAME = ["pipeline", "generation"]

# Where a row tells no time.
_EVER = datetime.min.replace(tzinfo=timezone.utc)


def with_unowned(root: Files, whose: Whose) -> Whose:
    """A pipeline with its checkpoints that never had a table, and others with theirs: of two that had a name one after the other, the later tells whose the earlier was.

    Raises PipelineError where the ledger cannot be read.
    """
    mine, others = set(whose.mine), set(whose.others)
    # Earlier versions told no name.
    behind: dict[str | None, set[str]] = {whose.name: mine, None: mine}
    nobodys = set[str]()
    for name, generation in _newest_first(root):
        known = mine if generation in mine else others if generation in others else behind.get(name)
        if known is None or (generation in nobodys and name is not None):
            # Renamed before it had a table: whoever has its name of before is another one.
            nobodys.add(generation)
            behind.pop(name, None)
            if name == whose.name:
                others.add(generation)
        else:
            known.add(generation)
            behind[name] = known
    return replace(whose, mine=frozenset(mine), others=frozenset(others))


def reads_again(root: Files, generation: Generation, pipeline: str) -> bool:
    """Whether a checkpoint reads what another reading of its pipeline has read before: it began with `start: again`, or goes on with one that did.

    Where nobody can tell any more, it may be so. Raises PipelineError where the ledger cannot be read, and OSError.
    """
    if generation.start.mode != "from_tables":
        return generation.start.mode == "again"
    records = Records(root)
    whose = with_unowned(root, records.of_pipeline(pipeline, generation.id)[1])
    ever = (owner for owners in records.ever().values() for owner in owners)
    told = {owner.generation: owner.lineage or owner.generation for owner in ever}
    return any(told.get(one, one) != generation.lineage for one in whose.mine - {generation.id})


def _newest_first(root: Files) -> list[tuple[str | None, str]]:
    """Which generations have had which names, by when each had it last."""
    found: dict[tuple[str | None, str], Any] = {}
    try:
        for batch in _ledger(root):
            rows = pa.Table.from_batches([batch]).group_by(_NAME)
            for one in rows.aggregate([("started_at", "max")]).to_pylist():
                key, at = (one["pipeline"], one["generation"]), one["started_at_max"] or _EVER
                found[key] = max(found.get(key, at), at)
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise PipelineError(
            f"table {root}/{BATCHES_TABLE} cannot be read: {without_logins(str(error))}"
        ) from error
    return sorted(found, key=found.__getitem__, reverse=True)


def _ledger(root: Files) -> Iterator[pa.RecordBatch]:
    place = root.below(BATCHES_TABLE)
    if not has_log(place):
        return
    ledger = opened(place)
    rows, columns = ledger.to_pyarrow_dataset(filesystem=table_folder(ledger)), [*_NAME, "started_at"]
    if set(columns) <= set(rows.schema.names):
        # It may have a row for each batch of years.
        yield from rows.to_batches(columns=columns, batch_readahead=1, fragment_readahead=1)
