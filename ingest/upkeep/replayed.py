"""Replays as whoever tidies up meets them: those of records as they came, told of under the root, and those in a checkpoint that are not done.

What the former refused is in quarantine, and no batch of the ledger had it; what the latter wrote may come into its tables yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone

from distributary.ingest.storage.contract import Files

OUTCOMES = ".distributary/replays"
"""Where, under the root: a JSON file each, called as the replay's id."""

REPLAYS, BEGUN, DONE = "replays", "begun.json", "done.json"
"""Where replays are in a checkpoint, and what says that one was begun, and that it is done."""

_SUFFIX = ".json"


def under_way(checkpoint: Files) -> Iterator[str]:
    """The ids of a checkpoint's replays that were begun and are not done. Raises OSError."""
    place = checkpoint.below(REPLAYS)
    for name in place.folders():
        if place.info(f"{name}/{BEGUN}") is not None and place.info(f"{name}/{DONE}") is None:
            yield name


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
