"""Replays as whoever tidies up meets them: those of records as they came, told of under the root, and those in a checkpoint that are not done.

What the former refused is in quarantine, and no batch of the ledger had it; what the latter wrote may come into its tables yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone

from distributary.ingest.checkpoint.folder import BEGUN, going
from distributary.ingest.storage.contract import Files

OUTCOMES = ".distributary/replays"
"""Where, under the root: a JSON file each, called as the replay's id."""

REPLAYS = "replays"
"""Where replays are in a checkpoint."""

_SUFFIX = ".json"

_RECORDS = "records"

# Beside the tables, as what waits during a batch.
_BESIDE_TABLES = "_aside/replay-"


def records_of(checkpoint: Files, root: Files, replay: str) -> Files:
    """Where the records of a replay are as they came: where workers get to."""
    if root.remote:
        return root.below(f"{_BESIDE_TABLES}{replay}")
    return checkpoint.below(f"{REPLAYS}/{replay}/{_RECORDS}")


def forget(checkpoint: Files, root: Files, replay: str) -> None:
    """Delete all files of a replay, which is of nothing, or done. Raises OSError."""
    place, records = checkpoint.below(f"{REPLAYS}/{replay}"), records_of(checkpoint, root, replay)
    records.clear()
    records.remove_folder()
    # First, as without it there is nothing to go on with, whatever else is left.
    place.delete([BEGUN])
    place.clear()
    place.remove_folder()


def sweep_records(checkpoint: Files, root: Files) -> None:
    """Delete the files of replays that are done, or were never begun: only for who keeps other replays out. Raises OSError."""
    left = set(under_way(checkpoint))
    for name in checkpoint.folders(REPLAYS):
        if name not in left:
            forget(checkpoint, root, name)


def under_way(checkpoint: Files) -> Iterator[str]:
    """The ids of a checkpoint's replays that were begun and are not done. Raises OSError."""
    return going(checkpoint, REPLAYS)


def replays_before(root: Files, bound: datetime) -> list[str]:
    """The ids of those that were told of before a time, by the clock of the place."""
    return [
        info.name.removesuffix(_SUFFIX)
        for info in root.list(OUTCOMES)
        if info.name.endswith(_SUFFIX) and info.modified < bound.timestamp() * 1000
    ]


def begun_before(root: Files, replays: Iterable[str], bound: datetime) -> list[str]:
    """Those of them that were begun before it by the clock of who did: where two clocks disagree, the later word counts.

    Raises OSError, and ValueError, KeyError or TypeError of a file that is none of these.
    """
    found = list[str]()
    for replay in replays:
        at = datetime.fromisoformat(json.loads(root.read(f"{OUTCOMES}/{replay}{_SUFFIX}"))["at"])
        if at.astimezone(timezone.utc) < bound:
            found.append(replay)
    return found
