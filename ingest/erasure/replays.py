"""Replays of quarantined records, which have them as they were: of one that is not done they come to tables yet, of others they only lie there."""

from __future__ import annotations

from contextlib import suppress

from distributary.errors import LeaseHeld
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.lease.replaying import alone
from distributary.ingest.storage.contract import Files
from distributary.ingest.upkeep.replayed import REPLAYS, sweep_records, under_way

BRING_THEM_BACK = (
    "a replay was begun and is not done, and brings its records as they were: finish it by `distributary quarantine replay`, or "
    "`distributary replay`, and say this again"
)


def have_records(checkpoint: Checkpoint, root: Files, *, dry_run: bool) -> bool:
    """Whether any brings records yet; what those left that were never begun, or are done, is deleted, unless it is a dry run; so, too, where nobody can tell. Raises OSError in a dry run."""
    if dry_run:
        return any(True for _ in under_way(checkpoint.files))
    # Rows are gone already, which is to be told whatever becomes of this.
    with suppress(OSError):
        if not checkpoint.files.folders(REPLAYS):
            return False
        # One that is just taking its records is alive, and is told.
        with suppress(LeaseHeld, OSError), alone(checkpoint):
            sweep_records(checkpoint.files, root)
        return bool(checkpoint.files.folders(REPLAYS))
    return True
