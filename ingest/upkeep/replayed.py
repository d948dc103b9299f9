"""Replays as whoever tidies up meets them: those of records as they came, told of under the root, and those in a checkpoint that are not done.

What the former refused is in quarantine, and no batch of the ledger had it; what the latter wrote may come into its tables yet.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from pyroaring import BitMap64

from distributary.errors import PipelineError
from distributary.ingest.checkpoint.folder import BEGUN, going
from distributary.ingest.commit_log.owners import Whose
from distributary.ingest.storage.contract import Files
from distributary.ingest.upkeep.resolved import Partition, bitmaps, bitmaps_to_json, whole
from distributary.ingest.upkeep.whose.by_ledger import with_unowned

OUTCOMES = ".distributary/replays"
"""Where, under the root: a JSON file each, called as the replay's id, until upkeep brings them together."""

TOGETHER = "all-"
"""What the name of a file begins with that has what many told."""

REPLAYS_TOLD = "replays"
"""In such a file: the ids of those that had refused records, and when each was."""

REPLAYS = "replays"
"""Where replays are in a checkpoint."""

ADDED, MERGED, REFUSED, DROPPED = "added", "merged", "refused", "dropped"

# So many wait for each other: to bring them together is to write all of them once more.
_FEW = 8

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


def since(root: Files, whose: Whose) -> Since:
    """What all replays did of a pipeline. Raises OSError, and ValueError, KeyError or TypeError of a file that is none of these."""
    return _since(told for _, told in _told(root, whose))


def replays_of(root: Files, whose: Whose) -> set[str]:
    """The ids of a pipeline's replays of records as they came, as far as these are told of. Raises as `since`."""
    return _ids(told for _, told in _told(root, whose))


def with_replays(root: Files, whose: Whose) -> Whose:
    """A pipeline of which all its checkpoints are known, and its replays as well: what those refused is in quarantine by the replay, and by the name of then.

    Raises OSError, and PipelineError where the ledger, or what is told of replays, cannot be read.
    """
    return and_replays(root, with_unowned(root, whose))


def and_replays(root: Files, whose: Whose) -> Whose:
    """The same of one of which all its checkpoints are known by now. Raises OSError, and PipelineError where what is told of replays cannot be read."""
    if whose.names == {whose.name} and not whose.others:
        return whose
    try:
        every = [json.loads(data) for data in whole(root, OUTCOMES).values()]
        mine = _ids(told for told in every if whose.tells(told))
        # Earlier versions told no generation.
        theirs = _ids(told for told in every if told.get("generation") in whose.others)
    except (ValueError, KeyError, TypeError) as error:
        raise PipelineError(f"{root}/{OUTCOMES}: what is told of replays cannot be read: {error}") from error
    return replace(whose, mine=whose.mine | mine, others=whose.others | theirs)


def _ids(every: Iterable[Mapping[str, Any]]) -> set[str]:
    return {replay for told in every for replay in (told["replay"], *told.get(REPLAYS_TOLD, ()))}


def tell_together(root: Files, whose: Whose, gone: datetime | None = None) -> int:
    """How many files of a pipeline's replays became one, which says the same; none as long as there are few.

    gone  what was refused before that is in quarantine no more, so that nobody asks when those replays were

    Whoever dies amid it leaves files that say the same twice. Raises as `since`.
    """
    every = _told(root, whose)
    if len(every) < _FEW:
        return 0
    name, newest = f"{TOGETHER}{uuid.uuid4().hex}.json", every[-1][1]
    value = {
        "format": 1,
        **whose.said,
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


def _told(root: Files, whose: Whose) -> list[tuple[str, Mapping[str, Any]]]:
    """What each told, by the name of its file, the oldest first."""
    every = ((name, json.loads(data)) for name, data in whole(root, OUTCOMES).items())
    found = [(name, told) for name, told in every if whose.tells(told)]
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
