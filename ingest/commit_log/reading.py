"""A pipeline's log in the files of its checkpoint: `log/0000000012.json` an entry, `closed/0000000009.json` how far it is closed.

What stands in `closed/` is the archive: all entries up to the highest number there are settled and may be gone, and none of these
numbers is given away again. A file of `log/` whose number is not above it means nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache

from distributary.errors import CheckpointMismatch
from distributary.ingest.commit_log import entry_json
from distributary.ingest.commit_log.entries import NONE, Batch, Entry, Rewritten, Standing, Start
from distributary.ingest.storage.contract import Files

ENTRIES, CLOSED = "log", "closed"

_KEPT = 4

_NAME = re.compile(r"[0-9]{10}\.json")

_REMEDY = (
    "Restore the checkpoint from one copy, whole, or go on with a new checkpoint and `start: from_tables`"
)


@dataclass(frozen=True, slots=True)
class State:
    """A log as it was when it was read.

    closed  how far: no number up to this one is given away any more
    newest  the newest entry; None of a log without any
    """

    closed: int
    newest: Entry | None

    @property
    def so_far(self) -> Standing | None:
        """How far the log has come; None of one without any entry."""
        return None if self.newest is None else self.newest.after

    @property
    def next(self) -> int:
        """The number that comes next."""
        return (self.closed if self.newest is None else self.newest.number) + 1


class CommitLog:
    """The log of one pipeline, as everybody may read it. Reading changes nothing."""

    def __init__(self, files: Files) -> None:
        """`files` are the checkpoint's."""
        self.files = files
        # What the start that was asked about last says of topics, by its number, which no other one has.
        self._begun: tuple[int, Standing] | None = None

    @property
    def url(self) -> str:
        """Where it is."""
        return self.files.url

    def state(self) -> State:
        """The log now. Raises CheckpointMismatch where entries are missing, were edited, or are of a newer format."""
        while True:
            closed = self.closed()
            numbers = numbers_in(self.files, ENTRIES, closed)
            hole = _hole(closed, numbers)
            # Closed meanwhile: then what is missing may just be gone.
            if self.closed() != closed:
                continue
            if hole is not None:
                self._require(hole)
                continue
            newest = self.entry(numbers[-1]) if numbers else None
            # Gone since it was listed, as hundreds of others must have come: read on.
            if newest is not None:
                return State(closed, newest)
            if not numbers:
                return self._empty(closed)

    def closed(self) -> int:
        """How far the log is closed; `NONE` where it is not."""
        return max(numbers_in(self.files, CLOSED), default=NONE)

    def entry(self, number: int) -> Entry | None:
        """An entry that is not closed; None where there is none. Raises CheckpointMismatch for one that was edited."""
        path = entry_path(number)
        try:
            with self._undamaged(path):
                value = entry_json.value_of(self.files.read(path), self._where(path))
                start = entry_json.start_of(value)
                begun = None if start is None else self._begun_by(start)
                if start is not None and begun is None:
                    if number > self.closed():
                        raise self.missing(start)
                    return None
                entry = entry_json.from_json(value, begun)
                if entry.number != number:
                    raise ValueError(f"it is entry {entry.number}")
                return entry
        except FileNotFoundError:
            return None

    def _begun_by(self, start: int) -> Standing | None:
        """How a start found the log, as far as the entries of its run do not say it; None where all of these are closed. Raises CheckpointMismatch where it is lost."""
        known = self._begun
        while known is None or known[0] != start:
            closed = self.closed()
            told = None if start > closed else self._told_at_closing(start)
            if told is None:
                # Of a closed one that is there still, the entries of its run are closed as well, and nothing rests on what they say of topics.
                entry = self.entry(start)
                told = entry.so_far if isinstance(entry, Start) else None
            if self.closed() != closed:
                continue
            if told is None and start > closed:
                raise self.missing(start)
            if told is None:
                return None
            known = self._begun = start, told
        return known[1]

    def _told_at_closing(self, start: int) -> Standing | None:
        # Who woke amid closing may have closed more than whoever took over closes since, where files wait behind what is closed.
        for path in map(closed_path, reversed(numbers_in(self.files, CLOSED))):
            with suppress(FileNotFoundError), self._undamaged(path):
                value = entry_json.value_of(self.files.read(path), self._where(path))
                if (told := entry_json.begun_from_json(value, start)) is not None:
                    return told
        return None

    def newest_batch(self, number: int) -> Batch | None:
        """The batch of this number; None where it is gone, as it may be once there is a newer one."""
        while True:
            closed = self.closed()
            found = self.entry(number) if number > closed else self._archived(closed)
            if isinstance(found, Batch) and found.number == number:
                return found
            if self.closed() == closed:
                return None

    def _archived(self, closed: int) -> Batch | None:
        """The newest batch up to where the log is closed, unless there was a newer one when it was."""
        path = closed_path(closed)
        try:
            with self._undamaged(path):
                last = entry_json.value_of(self.files.read(path), self._where(path))["last"]
                batch = None if last is None else entry_json.from_json(last)
                if batch is not None and not isinstance(batch, Batch):
                    raise ValueError("its last entry is no batch")
                return batch
        except FileNotFoundError:
            return None

    def rewritten(self, number: int) -> Rewritten | None:
        """What was written again of the newest batch, by its number; None where it is gone, as an earlier version closed it."""
        if number > (closed := self.closed()):
            found = self.entry(number)
            return found if isinstance(found, Rewritten) else None
        path = closed_path(closed)
        try:
            with self._undamaged(path):
                told = entry_json.value_of(self.files.read(path), self._where(path)).get("again", ())
                entries = map(entry_json.from_json, told)
                mine = (one for one in entries if isinstance(one, Rewritten) and one.number == number)
                return next(mine, None)
        except FileNotFoundError:
            return None

    def as_finished(self, number: int) -> tuple[Batch, tuple[Rewritten, ...]]:
        """A batch that is not closed, and what was written again of it. Raises CheckpointMismatch where it is gone."""
        batch, found = self.entry(number), list[Rewritten]()
        if not isinstance(batch, Batch):
            raise self.missing(number)
        while True:
            number += 1
            behind = self.entry(number)
            if behind is None or isinstance(behind, Batch):
                return batch, tuple(found)
            if isinstance(behind, Rewritten):
                found.append(behind)

    def is_passed(self, number: int) -> bool:
        """Whether others have gone on behind a number, or it was given away before: who has put it may rest nothing on it.

        Either question alone finds that out, each for a reason of its own: whoever closes a number writes that down
        before the entry goes, and the newest entry is never closed.
        """
        return self.closed() >= number or bool(numbers_in(self.files, ENTRIES, number))

    def missing(self, number: int) -> CheckpointMismatch:
        """The error for an entry that is not there and cannot be done without."""
        return CheckpointMismatch(
            f"{self._where(entry_path(number))} is gone: files were lost, or those of two copies were mixed. {_REMEDY}"
        )

    def _empty(self, closed: int) -> State:
        # The newest entry is never closed.
        if closed != NONE:
            raise self.missing(closed + 1)
        return State(closed, None)

    def _require(self, number: int) -> None:
        # A file system may tell of a file that came while it was listed and not of one that came just before.
        if self.files.info(entry_path(number)) is None and self.closed() < number:
            raise self.missing(number)

    @contextmanager
    def _undamaged(self, path: str) -> Iterator[None]:
        try:
            yield
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise CheckpointMismatch(
                f"{self._where(path)} was cut off or edited ({error or type(error).__name__}). {_REMEDY}"
            ) from error

    def _where(self, path: str) -> str:
        return f"{self.url}/{path}"


class KeptLog(CommitLog):
    """The same for who asks for one batch on behalf of many tables: the few that were asked for last are kept."""

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        # Where tables begin, where they end, and what they have come to; and what many of them had before.
        self.as_finished = lru_cache(_KEPT)(super().as_finished)  # type: ignore[method-assign]
        self.entry = lru_cache(_KEPT)(super().entry)  # type: ignore[method-assign]


def entry_path(number: int) -> str:
    """Where an entry is, or would be."""
    return f"{ENTRIES}/{_name(number)}"


def closed_path(number: int) -> str:
    """Where it is written down that the log is closed up to a number."""
    return f"{CLOSED}/{_name(number)}"


def numbers_in(files: Files, folder: str, after: int = NONE) -> list[int]:
    """The numbers behind this one that files of the log in a folder have, ascending."""
    names = files.names(folder, after="" if after == NONE else _name(after))
    return [int(name.partition(".")[0]) for name in names if _NAME.fullmatch(name)]


def _hole(closed: int, numbers: list[int]) -> int | None:
    """The first number behind `closed` that is not among these, though a later one is."""
    wanted = range(closed + 1, closed + 1 + len(numbers))
    return next((number for number, found in zip(wanted, numbers, strict=True) if number != found), None)


def _name(number: int) -> str:
    # Names are listed in order, so that those behind one can be asked for.
    return f"{number:010d}.json"
