"""Where the records of bronze went that were replayed: told under the root, a JSON file a portion, for who holds tables against the ledger."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from pyroaring import BitMap64

from distributary.ingest.replay.places import Partition, Places, bitmaps, bitmaps_to_json, to_json
from distributary.ingest.storage.contract import Files
from distributary.ingest.upkeep.replayed import OUTCOMES

_ADDED, _MERGED, _REFUSED, _DROPPED = "added", "merged", "refused", "dropped"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where the records went that were decoded.

    added    those with a row in a table to which each is added
    merged   those of tables where rows take the place of others
    refused  those that are in quarantine since
    dropped  those that the settings let go, and that had a row before
    """

    added: Places = field(default_factory=dict)
    merged: Places = field(default_factory=dict)
    refused: Places = field(default_factory=dict)
    dropped: Places = field(default_factory=dict)

    def to_json(self) -> dict[str, list[list[Any]]]:
        """The same as JSON values."""
        return {
            name: to_json(places)
            for name, places in (
                (_ADDED, self.added),
                (_MERGED, self.merged),
                (_REFUSED, self.refused),
                (_DROPPED, self.dropped),
            )
        }


def tell_emptied(root: Files, pipeline: str, gone: Mapping[Partition, BitMap64]) -> None:
    """Keep that a table is about to be emptied of these: those that get no row again are missed by nobody. Raises OSError."""
    if gone:
        places = {**Outcome().to_json(), _DROPPED: bitmaps_to_json(gone)}
        tell(root, pipeline, uuid.uuid4().hex, datetime.now(timezone.utc).isoformat(), places)


def tell(root: Files, pipeline: str, replay: str, at: str, places: Mapping[str, Any]) -> None:
    """Keep an outcome, as `to_json` gave it, for good. Raises OSError.

    Replays come one after the other, and none is ever taken away: how many there were before says which is newer, whatever time it was.
    """
    turn = sum(1 for _ in root.names(OUTCOMES))
    told = {"format": 1, "pipeline": pipeline, "replay": replay, "at": at, "turn": turn, **places}
    root.put_new(f"{OUTCOMES}/{replay}.json", json.dumps(told).encode())


@dataclass(slots=True)
class Since:
    """Where replayed records are, as the newest replay of each says.

    added    those with a row in a table to which each is added
    let_out  those that have no row in any table: refused, or let go
    """

    added: dict[Partition, BitMap64] = field(default_factory=dict)
    let_out: dict[Partition, BitMap64] = field(default_factory=dict)

    def take(self, told: Mapping[str, Sequence[Sequence[Any]]]) -> None:
        """A later replay."""
        for name, mine, others in (
            (_ADDED, self.added, self.let_out),
            (_MERGED, None, self.let_out),
            (_REFUSED, self.let_out, self.added),
            (_DROPPED, self.let_out, self.added),
        ):
            for partition, offsets in bitmaps(told[name]).items():
                if mine is not None:
                    mine[partition] = mine.get(partition, BitMap64()) | offsets
                if partition in others:
                    others[partition] = others[partition] - offsets


def since(root: Files, pipeline: str) -> Since:
    """What all replays of a pipeline did. Raises OSError, and ValueError, KeyError or TypeError of a file that is none of these."""
    every = [json.loads(root.read(f"{OUTCOMES}/{name}")) for name in root.names(OUTCOMES)]
    found = Since()
    # Earlier versions went by the clock.
    for told in sorted(every, key=lambda one: (int(one.get("turn", -1)), str(one["at"]))):
        if told["pipeline"] == pipeline:
            found.take(told)
    return found
