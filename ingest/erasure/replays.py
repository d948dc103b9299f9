"""Replays of quarantined records that were begun and are not done: they have the records as they were, and decode those."""

from __future__ import annotations

from distributary.ingest.storage.contract import Files

REPLAYS, BEGUN, DONE = "replays", "begun.json", "done.json"
"""Where they are in a checkpoint, and what says that one was begun, and that it is done."""

BRING_THEM_BACK = (
    "a replay was begun and is not done, and brings its records as they were: finish it by `distributary quarantine replay`, or "
    "`distributary replay`, and say this again"
)


def are_under_way(checkpoint: Files) -> bool:
    """Whether there are any."""
    place = checkpoint.below(REPLAYS)
    every = ((place.info(f"{name}/{BEGUN}"), place.info(f"{name}/{DONE}")) for name in place.folders())
    return any(begun is not None and done is None for begun, done in every)
