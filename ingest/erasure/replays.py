"""Replays of quarantined records that were begun and are not done: they have the records as they were, and decode those."""

from __future__ import annotations

from distributary.ingest.storage.contract import Files
from distributary.ingest.upkeep.replayed import under_way

BRING_THEM_BACK = (
    "a replay was begun and is not done, and brings its records as they were: finish it by `distributary quarantine replay`, or "
    "`distributary replay`, and say this again"
)


def are_under_way(checkpoint: Files) -> bool:
    """Whether there are any."""
    return any(True for _ in under_way(checkpoint))
