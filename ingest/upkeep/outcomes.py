"""What replays tell of records under the root, read by whoever holds tables against the ledger, and brought together by upkeep: there may be thousands."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from pyroaring import BitMap64

from distributary.ingest.storage.contract import Files
from distributary.ingest.upkeep.replayed import OUTCOMES, REPLAYS_TOLD, TOGETHER
from distributary.ingest.upkeep.resolved import Partition, bitmaps, bitmaps_to_json

ADDED, MERGED, REFUSED, DROPPED = "added", "merged", "refused", "dropped"

# So many wait for each other: to bring them together is to write all of them once more.
_FEW = 8


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
            (ADDED, self.added, self.let_out),
            (MERGED, None, self.let_out),
            (REFUSED, self.let_out, self.added),
            (DROPPED, self.let_out, self.added),
        ):
            for partition, offsets in bitmaps(told[name]).items():
                if mine is not None:
                    mine[partition] = mine.get(partition, BitMap64()) | offsets
                if partition in others:
                    others[partition] = others[partition] - offsets

    def to_json(self) -> dict[str, list[list[Any]]]:
        """As one replay would tell it that did all of this."""
        added, out = bitmaps_to_json(self.added), bitmaps_to_json(self.let_out)
        return {ADDED: added, MERGED: [], REFUSED: [], DROPPED: out}


def since(root: Files, pipeline: str) -> Since:
    """What all replays of a pipeline did. Raises OSError, and ValueError, KeyError or TypeError of a file that is none of these."""
    return _since(told for _, told in _told(root, pipeline))


def bring_together(root: Files, pipeline: str, gone: datetime | None = None) -> int:
    """How many files of a pipeline's replays became one, which says the same; none as long as there are few.

    gone  what was refused before that is in quarantine no more, so that nobody asks when those replays were

    Whoever dies amid it leaves files that say the same twice. Raises as `since`.
    """
    every = list(_told(root, pipeline))
    if len(every) < _FEW:
        return 0
    name, newest = f"{TOGETHER}{uuid.uuid4().hex}.json", every[-1][1]
    value = {
        "format": 1,
        "pipeline": pipeline,
        "replay": name,
        "at": newest["at"],
        "turn": newest.get("turn", -1),
        REPLAYS_TOLD: dict(_refusing(root, every, gone)),
        **_since(told for _, told in every).to_json(),
    }
    root.put_new(f"{OUTCOMES}/{name}", json.dumps(value).encode())
    root.delete(f"{OUTCOMES}/{one}" for one, _ in every)
    return len(every)


def _since(every: Iterable[Mapping[str, Any]]) -> Since:
    found = Since()
    for told in every:
        found.take(told)
    return found


def _told(root: Files, pipeline: str) -> list[tuple[str, Mapping[str, Any]]]:
    """What each told, by the name of its file, the oldest first."""
    found = list[tuple[str, Mapping[str, Any]]]()
    for name in root.names(OUTCOMES):
        try:
            told = json.loads(root.read(f"{OUTCOMES}/{name}"))
        except FileNotFoundError:
            continue  # brought together with others meanwhile
        if told["pipeline"] == pipeline:
            found.append((name, told))
    # Earlier versions went by the clock.
    return sorted(found, key=lambda one: (int(one[1].get("turn", -1)), str(one[1]["at"])))


def _refusing(
    root: Files, every: Sequence[tuple[str, Mapping[str, Any]]], gone: datetime | None
) -> Mapping[str, str]:
    """When those replays were that have rows in quarantine still: the later one of what two clocks say."""
    found: dict[str, datetime] = {}
    for name, told in every:
        for replay, at in told.get(REPLAYS_TOLD, {}).items():
            found[replay] = datetime.fromisoformat(at)
        if told[REFUSED] and (info := root.info(f"{OUTCOMES}/{name}")) is not None:
            written = datetime.fromtimestamp(info.modified / 1000, timezone.utc)
            found[told["replay"]] = max(datetime.fromisoformat(told["at"]), written)
    return {replay: at.isoformat() for replay, at in found.items() if gone is None or at >= gone}
