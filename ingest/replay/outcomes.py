"""Where the records of bronze went that were replayed: told under the root, a JSON file a portion, for who holds tables against the ledger."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from pyroaring import BitMap64

from distributary.ingest.replay.places import Partition, Places, to_json
from distributary.ingest.storage.contract import Files
from distributary.ingest.upkeep.replayed import ADDED, DROPPED, MERGED, OUTCOMES, REFUSED
from distributary.ingest.upkeep.resolved import bitmaps_to_json


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
                (ADDED, self.added),
                (MERGED, self.merged),
                (REFUSED, self.refused),
                (DROPPED, self.dropped),
            )
        }


def tell_emptied(
    root: Files, whose: Mapping[str, str], gone: Mapping[Partition, BitMap64], number: int | None
) -> None:
    """Keep that a table is about to be emptied of these: those that get no row again are missed by nobody. Raises OSError."""
    if gone:
        places = {**Outcome().to_json(), DROPPED: bitmaps_to_json(gone)}
        tell(root, whose, uuid.uuid4().hex, datetime.now(timezone.utc).isoformat(), places, number)


def tell(  # noqa: PLR0913, PLR0917 - who, what, when
    root: Files,
    whose: Mapping[str, str],
    replay: str,
    at: str,
    places: Mapping[str, Any],
    number: int | None = None,
) -> None:
    """Keep an outcome, as `to_json` gave it, for good; upkeep brings it together with others. `whose` is as `said_of` gives it. Raises OSError.

    Its number says which is newer, whatever time it was. Those of earlier versions have none: they came one after the other, and how many
    there were before says it of them.
    """
    turn = sum(1 for _ in root.names(OUTCOMES)) if number is None else number
    told = {"format": 1, **whose, "replay": replay, "at": at, "turn": turn, **places}
    root.put_new(f"{OUTCOMES}/{replay}.json", json.dumps(told).encode())
