"""Replays as whoever tidies up meets them: those of records as they came, told of under the root, and those in a checkpoint that are not done.

What the former refused is in quarantine, and no batch of the ledger had it; what the latter wrote may come into its tables yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timezone

from distributary.ingest.checkpoint.folder import BEGUN, going
from distributary.ingest.storage.contract import Files

OUTCOMES = ".distributary/replays"
"""Where, under the root: a JSON file each, called as the replay's id, until upkeep brings them together."""

TOGETHER = "all-"
"""What the name of a file begins with that has what many told."""

REPLAYS_TOLD = "replays"
"""In such a file: the ids of those that had refused records, and when each was."""

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


def forget_records(checkpoint: Files, root: Files) -> None:
    """Delete the records of all replays of a checkpoint that nobody goes on with any more. Raises OSError."""
    for name in checkpoint.folders(REPLAYS):
        records = records_of(checkpoint, root, name)
        records.clear()
        records.remove_folder()


def under_way(checkpoint: Files) -> Iterator[str]:
    """The ids of a checkpoint's replays that were begun and are not done. Raises OSError."""
    return going(checkpoint, REPLAYS)


def replays_before(root: Files, bound: datetime) -> dict[str, datetime | None]:
    """Those that were told of before a time, by the clock of the place; of such as were brought together when that was.

    Raises OSError, and ValueError, KeyError or TypeError where what was brought together cannot be read.
    """
    found = dict[str, datetime | None]()
    for info in root.list(OUTCOMES):
        if not info.name.endswith(_SUFFIX):
            continue
        if info.name.startswith(TOGETHER):
            with suppress(FileNotFoundError):  # brought together once more meanwhile
                told = json.loads(root.read(info.path))[REPLAYS_TOLD]
                known = {replay: datetime.fromisoformat(at) for replay, at in told.items()}
                found |= {replay: at for replay, at in known.items() if at < bound}
        elif info.modified < bound.timestamp() * 1000:
            found[info.name.removesuffix(_SUFFIX)] = None
    return found


def begun_before(
    root: Files, replays: Mapping[str, datetime | None], there: Iterable[str], bound: datetime
) -> list[str]:
    """Those of them that are there and were begun before it by the clock of who did: where two clocks disagree, the later word counts.

    Raises OSError, and ValueError, KeyError or TypeError of a file that is none of these.
    """
    found = list[str]()
    for replay in there:
        at = replays[replay]
        if at is None:
            at = datetime.fromisoformat(json.loads(root.read(f"{OUTCOMES}/{replay}{_SUFFIX}"))["at"])
        if at.astimezone(timezone.utc) < bound:
            found.append(replay)
    return found
