"""What a replay keeps of itself in the checkpoint: the records that it is of, what was decided of them, and that it is done.

Nothing of it is ever changed, so whoever comes after a crash goes on where it stopped:

    replays/<id>/announced.json   of quarantine: records are about to be taken
    replays/<id>/records/...      of quarantine, the records as they came, and which rows of quarantine they are
    replays/<id>/begun.json       these are all of them: from here on the replay is of them, whatever becomes of the quarantine
    replays/<id>/changes/...      changes of tables, written down before they are made
    replays/<id>/manifest.json    what each table gets, and which rows leave it: from here on there is no way back
    replays/<id>/done.json        all of them have it

The files of one that is done go with a later one. Beside them is the number that was given last: `replay-numbers/<number>.json`.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distributary.errors import AnswerLost, LeaseHeld
from distributary.ingest.checkpoint.damage import undamaged
from distributary.ingest.checkpoint.folder import BEGUN, DONE, Checkpoint
from distributary.ingest.commit_log.formats import require_readable
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.numbered import numbered
from distributary.ingest.upkeep.replayed import REPLAYS, records_of

FORMAT = 4

OF = "of"
"""In what a replay is of: that its records are bronze's, which versions of format 1 do not know."""

LEAVING = "leaving"
"""In what was decided: where the records are from whose rows leave tables, by the tables' folders."""

NUMBERED = "number"
"""In what was decided: the replay's own number among its pipeline's, by which its commits are told. Those of earlier formats have an application each."""

NUMBER = 0
"""Of the one batch that a replay is, in the names of its files."""

_REPLACES = "replaces"

_NUMBERS = "replay-numbers"

_ANNOUNCED, _MANIFEST, _SUFFIX = "announced.json", "manifest.json", ".json"

_REMEDY = (
    "delete its folder if no table has anything of it, which the log of each tells (`distributary.replay`)"
)


@dataclass(frozen=True, slots=True)
class Kept:
    """One replay's files.

    id       of the replay, a UUID in hex
    place    where they are
    records  where its records are: where workers get to
    """

    id: str
    place: Files
    records: Files

    @property
    def checkpoint(self) -> Checkpoint:
        """The same as a checkpoint, for who writes changes of tables down in one."""
        return Checkpoint(self.place)

    def begun(self) -> Mapping[str, Any] | None:
        """What it is of; None where that was never written: then it is of nothing."""
        return self._read(BEGUN)

    def manifest(self) -> Mapping[str, Any] | None:
        """What was decided; None where nothing is yet."""
        return self._read(_MANIFEST)

    def has(self, names: Iterable[str]) -> bool:
        """Whether all of these files are among its records."""
        return set(names) <= set(self.records.names())

    def is_done(self) -> bool:
        """Whether there is nothing left to do."""
        return self.place.info(DONE) is not None

    def begin(self, value: Mapping[str, Any]) -> None:
        """Write down what it is of, whose records are safe by now. Raises OSError."""
        self._put(BEGUN, value)

    def decide(self, value: Mapping[str, Any]) -> None:
        """Write down what each table gets. Raises OSError."""
        self._put(_MANIFEST, value)

    def end(self, value: Mapping[str, Any]) -> None:
        """Write down what came of it, and delete its records. Raises OSError."""
        self._put(DONE, value)
        self.forget_records()

    def forget_records(self) -> Sequence[str]:
        """Delete its records; which stay, and why."""
        left = self.records.clear()
        self.records.remove_folder()
        return left

    def announce(self) -> None:
        """Write down that its records are about to be taken: whoever dies amid that leaves payloads, which the next one is to find. Raises OSError."""
        self.place.put_new(_ANNOUNCED, b"{}")

    def _put(self, path: str, value: Mapping[str, Any]) -> None:
        data = json.dumps({"format": _format_of(value), **value}).encode()
        if not self.place.put_new(path, data):
            raise AnswerLost(f"{self.place.url}/{path} is there already, by another program; say it again")

    def _read(self, path: str) -> Mapping[str, Any] | None:
        where = f"{self.place.url}/{path}"
        try:
            data = self.place.read(path)
        except FileNotFoundError:
            return None
        with undamaged(where, _REMEDY):
            value: dict[str, Any] = json.loads(data)
            require_readable(where, value["format"], FORMAT)
            return value


def next_number(checkpoint: Files, above: int = 0) -> int:
    """A number that no replay or reset of the checkpoint had, whatever became of its folder, and above another one: only for who keeps other replays out. Raises OSError.

    It goes by the clock where that is ahead: a checkpoint that was put back from a copy knows of none that came since.
    """
    had = numbered(checkpoint, _NUMBERS, _SUFFIX)
    number = max(max(had, default=0) + 1, above + 1, int(time.time() * 1000))
    path = f"{_NUMBERS}/{number}{_SUFFIX}"
    # One of its own, as of two that are the same nobody is told that another was first.
    if not checkpoint.put_new(path, json.dumps({"by": uuid.uuid4().hex}).encode()):
        raise AnswerLost(f"{checkpoint.url}/{path} is there already, by another program; say it again")
    checkpoint.delete(f"{_NUMBERS}/{one}{_SUFFIX}" for one in had)
    return number


class Turns:
    """The numbers that one call takes, each for a replay or a reset that it decides.

    In a store nothing keeps out for certain whoever stands still for long: he loses the next number to who came since.
    """

    def __init__(self, checkpoint: Files) -> None:
        """Take the first one, before anything is looked at. Raises OSError."""
        self._checkpoint, self._last = checkpoint, next_number(checkpoint)

    def take(self, above: int = 0) -> int:
        """The next one, above another one. Raises LeaseHeld where another call has begun since, and OSError."""
        if max(numbered(self._checkpoint, _NUMBERS, _SUFFIX), default=self._last) != self._last:
            raise LeaseHeld(
                "another replay of this pipeline has begun since, and goes on where this one was: it ends here, and nothing of it is lost or twice"
            )
        self._last = next_number(self._checkpoint, above)
        return self._last


def _format_of(value: Mapping[str, Any]) -> int:
    """The oldest format that has all of it: who knows none of rows that leave tables would put others beside them, and none of numbers commit by 0."""
    if NUMBERED in value:
        return FORMAT
    portion = value.get("portion", {})
    newer = portion.get(_REPLACES) or {"place", "offsets"} & portion.get("chosen", {}).keys()
    if newer or value.get(LEAVING):
        return 3
    return 2 if OF in value else 1


def kept_as(checkpoint: Files, root: Files, replay: str) -> Kept:
    """The files of the replay of this id."""
    return Kept(replay, checkpoint.below(f"{REPLAYS}/{replay}"), records_of(checkpoint, root, replay))


def unfinished(checkpoint: Files, root: Files) -> list[tuple[Kept, Mapping[str, Any]]]:
    """The replays that were begun and are not done, the oldest first, each with what it is of."""
    every = [kept_as(checkpoint, root, name) for name in checkpoint.folders(REPLAYS)]
    begun = [(one, one.begun()) for one in every if not one.is_done()]
    found = [(one, told) for one, told in begun if told is not None]
    return sorted(found, key=lambda pair: str(pair[1]["at"]))
