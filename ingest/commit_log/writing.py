"""Writing a pipeline's log: whoever puts the next number goes on, and everybody before him is shut out by that.

No lock and no clock is asked. A process may stand still between any two calls of this file for as long as it likes, and
any answer may be lost: docs/adr/0015-the-log-of-a-pipeline.md goes through them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, TypeVar

from distributary.errors import AnswerLost, CheckpointMismatch, Fenced, TablesOfAnotherRun
from distributary.ingest.commit_log import entry_json
from distributary.ingest.commit_log.entries import (
    NONE,
    Batch,
    Decision,
    Entry,
    HandedOver,
    Owner,
    Parked,
    Process,
    Rewritten,
    Standing,
    Start,
)
from distributary.ingest.commit_log.followed import Followed
from distributary.ingest.commit_log.reading import (
    CLOSED,
    ENTRIES,
    CommitLog,
    State,
    closed_path,
    entry_path,
    numbers_in,
)
from distributary.ingest.kafka.offsets import Offsets, Positions, starts
from distributary.ingest.storage.contract import Files

# So many of the newest entries stay to be looked at, and so many more until some go: a listing tells less than a thousand.
KEPT, AT_ONCE = 100, 100

# And so many before what waits for a table that is parked: by those it is told whether it was put back from an older copy meanwhile.
BEFORE_PARKED = 40

_Entry = TypeVar("_Entry", Batch, Rewritten, Parked)


@dataclass(frozen=True, slots=True)
class Unsettled:
    """The numbers whose files a start looks through: of those, what no entry names is named by none any more.

    after, to  from behind the one up to the other, which is the start's own
    late       the start before: whoever it shut out may have gone on writing for that number
    entries    the batches among them, and what was written again, with the names that stay
    """

    after: int
    to: int
    late: int | None
    entries: tuple[Batch | Rewritten, ...]

    @property
    def numbers(self) -> tuple[range, ...]:
        """The numbers, ascending."""
        behind = range(self.after + 1, self.to + 1)
        if self.late is None or not NONE < self.late <= self.after:
            return (behind,)
        return range(self.late, self.late + 1), behind


def begin(
    log: CommitLog,
    by: Process,
    first: Callable[[], Standing],
    goes_on: Callable[[Standing], Standing] = lambda so_far: so_far,
) -> Writer:
    """Run the pipeline from here on; `first` is asked where its first batch begins, once in a log's life, and `goes_on` what else is read from here on.

    Raises Fenced where yet another run began at the same time, TablesOfAnotherRun where the log was handed over, and
    CheckpointMismatch for a log that was lost or edited.
    """
    while True:
        state = log.state()
        if isinstance(state.newest, HandedOver):
            raise TablesOfAnotherRun(
                f"the tables of {log.url} were handed over to {state.newest.to}; run that one, or go on from here with a new "
                "checkpoint and `start: from_tables`"
            )
        so_far = goes_on(state.so_far or first())
        start = Start(number=state.next, id=_id(), at=_now(), so_far=so_far, by=by)
        if _put(log.files, start):
            return Writer(log, start, state)


def hand_over(log: CommitLog, to: Owner) -> State:
    """Shut a log's runs out for good, for the sake of another pipeline, and tell how far it came.

    Its newest batch has to be finished before anything is made of that: a run that was shut out may finish it at any time.
    Where the log was handed over before, to whomever, it is as it was.
    """
    while True:
        state = log.state()
        if isinstance(state.newest, HandedOver):
            return state
        so_far = state.so_far or Standing()
        _put(log.files, HandedOver(number=state.next, id=_id(), at=_now(), so_far=so_far, to=to))


def take_over(log: CommitLog, last: Batch) -> None:
    """Begin a log with the newest batch of a checkpoint that had none. A repeat changes nothing, however far the log has come."""
    if log.closed() < last.number:
        if last.number:
            _archive(log.files, last.number - 1, None)
        _put(log.files, last)


class Writer:
    """The one process that writes a log, from its start to the next one's."""

    def __init__(self, log: CommitLog, start: Start, before: State) -> None:
        """Raises Fenced if the start means nothing: others have gone on behind it."""
        self._log, self.start, self._before = log, start, before.newest
        self._newest: Entry = start
        self._settled, self._closed = start.so_far.settled, before.closed
        self._require_newest(start)

    @property
    def next(self) -> int:
        """The number of the next entry: files that it is to name are made for it."""
        return self._newest.number + 1

    @property
    def so_far(self) -> Standing:
        """How far the log has come."""
        return self._newest.after

    @property
    def settled(self) -> int:
        """Up to which number all is settled."""
        return self._settled

    def last(self) -> tuple[Batch | None, tuple[Rewritten, ...]]:
        """The newest batch, which may not be in all its tables yet, and what was written again of it."""
        so_far = self.so_far
        if so_far.last is None:
            return None, ()
        return self._batch(so_far.last), tuple(self._rewritten(so_far))

    def unsettled(self) -> Unsettled:
        """What this start has to sweep, once it has finished the newest batch."""
        after, late = max(self._settled, self._closed), None if self._before is None else self._before.run
        return Unsettled(after, self.start.number, late, tuple(self._named(after)))

    def settle(self, number: int) -> None:
        """All batches up to this number are in their tables, and what else was made for these numbers is swept."""
        self._settled = max(self._settled, number)

    def append(self, offsets: Offsets, decided: Mapping[str, Any], tables: Iterable[str] = ()) -> Batch:
        """Decide the next batch: the point of no return. Of its tables, by their folders, those that are parked do not get it.

        Raises Fenced where another run has begun since, and then nothing may be committed or deleted; AnswerLost where this
        run had decided it before without being told; CheckpointMismatch where it does not begin at the end of the one before;
        OSError where nobody knows: the batch may be decided, now or later, so nothing of it may be undone.
        """
        self._require_next(offsets)
        waits = tuple(sorted(self.so_far.parked.keys() & set(tables)))
        return self._added(
            Batch(**self._heading(), start=self.start.number, offsets=offsets, decided=decided, waits=waits)
        )

    def park(self, waiting: Mapping[str, Sequence[int]], why: str) -> Parked:
        """Say which files wait from here on, by their tables' folders and their batches. Raises as `append`."""
        parked = {folder: tuple(numbers) for folder, numbers in waiting.items() if numbers}
        return self._added(
            Parked(**self._heading(), start=self.start.number, decided={"why": why}, parked=parked)
        )

    def rewrite(self, decided: Mapping[str, Any]) -> Rewritten:
        """Say that files of the newest batch were lost and written again, before any table gets them. Raises as `append`."""
        return self._added(Rewritten(**self._heading(), start=self.start.number, decided=decided))

    def look(self) -> Entry | None:
        """What an attempt of this run added without being told so; asked before anything is begun anew. Raises Fenced."""
        found = self._log.entry(self.next)
        if found is None:
            return None
        if found.run != self.start.number:
            raise self._fenced(found)
        self._require_newest(found)
        self._newest = found
        return found

    def confirm(self) -> None:
        """Asked right before anything else is changed that another run may see, such as a table's columns.

        Raises Fenced where another run has begun since, AnswerLost where this run added an entry without being told so. Whoever
        stands still between this and the change makes it all the same, so nothing may rest on it but how likely that is.
        """
        if not self._log.is_passed(self._newest.number):
            return
        found = self._log.entry(self.next)
        if found is not None and found.run == self.start.number:
            raise self._untold(found)
        raise self._fenced(found)

    def close(self) -> int | None:
        """Let entries go that nobody asks for any more, once there are some; an error leaves them for the next time.

        Returns up to which number all of them are settled, and what is kept beside them for their batches may go; None where none went.
        """
        through = min(self._newest.number - KEPT, self._settled)
        # Nothing else tells where files are that wait, and which batches the table had before.
        if (oldest := self.so_far.oldest_parked) is not None:
            through = min(through, oldest - 1 - BEFORE_PARKED)
        if through - self._closed < AT_ONCE:
            return None
        last = self.so_far.last
        with suppress(OSError):
            kept = None if last is None or last > through else self._batch(last)
            again = () if kept is None else self._rewritten(self.so_far)
            told = self._told_behind(through)
            _archive(self._log.files, through, kept, [one for one in again if one.number <= through], told)
            # What cannot be deleted goes with the next closing, if it can by then.
            self._closed = through
            if not _prune(self._log.files, through, self._newest.number):
                return None
            # What died since the newest batch has left its own to the next one.
            return min(through, NONE if last is None else last)
        return None

    def _told_behind(self, through: int) -> dict[str, Any]:
        """What is to stay of the start up to this number whose run goes on behind it."""
        if self.start.number <= through:
            return entry_json.begun_to_json(self.start.number, self.start.so_far)
        behind = self._log.entry(through + 1)
        if not isinstance(behind, Decision) or behind.start > through:
            return {}
        return entry_json.begun_to_json(behind.start, behind.so_far)

    def _named(self, after: int) -> Iterator[Batch | Rewritten]:
        """The batches behind a number and what was written again of them, the newest first."""
        so_far = self.so_far
        while True:
            yield from (one for one in self._rewritten(so_far) if one.number > after)
            if so_far.last is None or so_far.last <= after:
                return
            batch = self._batch(so_far.last)
            yield batch
            so_far = batch.so_far

    def _batch(self, number: int) -> Batch:
        found = self._log.newest_batch(number)
        if found is None:
            # Closed since this run began, perhaps by one that stood still and takes nothing away then.
            entry = self._log.entry(number) if number > self._closed else None
            self._require_newest(self._newest)
            if isinstance(entry, Batch):
                return entry
            raise self._log.missing(number)
        return found

    def _rewritten(self, so_far: Standing) -> Iterator[Rewritten]:
        for number in so_far.rewritten:
            found = self._log.rewritten(number)
            if found is not None:
                yield found
            # Of a batch that is closed all tables have all files, and an earlier version kept nothing of where they stood.
            elif number > self._log.closed():
                self._require_newest(self._newest)
                raise self._log.missing(number)

    def _heading(self) -> dict[str, Any]:
        so_far = replace(self.so_far, settled=self._settled)
        return {"number": self.next, "id": _id(), "at": _now(), "so_far": so_far}

    def _require_next(self, offsets: Offsets) -> None:
        ended, begun = _flat(self.so_far.ends), _flat(starts(offsets))
        found = [
            f"{topic}/{part} at {begun.get((topic, part), 'no offset')}, not {offset}"
            for (topic, part), offset in ended.items()
            if begun.get((topic, part)) != offset
        ]
        if found:
            raise CheckpointMismatch(
                f"batch {self.next} of {self._log.url} does not begin where the one before it ended: {', '.join(found[:5])}. Run "
                "again; if it happens again, this is a defect of distributary: keep the checkpoint and report it"
            )

    def _added(self, entry: _Entry) -> _Entry:
        if not _put(self._log.files, entry, self.start.so_far):
            found = self._log.entry(entry.number)
            if found is not None and found.run == self.start.number:
                raise self._untold(found)
            raise self._fenced(found)
        self._require_newest(entry)
        self._newest = entry
        return entry

    def _require_newest(self, entry: Entry) -> None:
        if self._log.is_passed(entry.number):
            raise self._fenced(self._log.entry(entry.number + 1))

    def _untold(self, entry: Entry) -> AnswerLost:
        return AnswerLost(
            f"entry {entry.number} of {self._log.url} was put by an earlier attempt of this run, which was not told so"
        )

    def _fenced(self, by: Entry | None) -> Fenced:
        if isinstance(by, HandedOver):
            return Fenced(
                f"the tables of {self._log.url} were handed over to {by.to} since this run (start {self.start.number}) began: it ends "
                "here, and nothing is lost or twice"
            )
        who = f" ({by.by}, {by.at})" if isinstance(by, Start) else ""
        return Fenced(
            f"another run{who} has begun with {self._log.url} since this one (start {self.start.number}), and goes on where this "
            "one was: it ends here, and nothing is lost or twice. If both were meant to run, give one a checkpoint of its own"
        )


def written(log: Followed) -> Writer:
    """The log, as who writes it knows it. Raises TypeError for one that is only followed, as by a replay beside a run: that decides no batch."""
    if not isinstance(log, Writer):
        raise TypeError(f"{type(log).__name__} is a log that somebody else writes")
    return log


def _put(files: Files, entry: Entry, begun: Standing | None = None) -> bool:
    """Whether the number is this entry's; `begun` is how its start found the log."""
    return files.put_new(entry_path(entry.number), entry_json.to_bytes(entry_json.to_json(entry, begun)))


def _archive(
    files: Files,
    through: int,
    last: Batch | None,
    again: Sequence[Rewritten] = (),
    told: Mapping[str, Any] | None = None,
) -> None:
    """Close all numbers up to this one, for ever. Whoever was first to close it wrote the same.

    The newest batch is kept, if that is closed with the rest, and what was written again of it; and what entries behind it go by (`told`).
    """
    kept = None if last is None else entry_json.to_json(last)
    value = {"through": through, "id": _id(), "at": _now(), "last": kept, **(told or {})}
    value |= {"again": [entry_json.to_json(one) for one in again]} if again else {}
    files.put_new(closed_path(through), entry_json.to_bytes(value))


def _prune(files: Files, through: int, newest: int) -> bool:
    """Delete what is closed; whether that was for this run to do, whose newest entry is `newest`.

    It is written down already, so it does not matter when this happens, or how often. But whoever began before that may read what he found
    not closed, and have a table's files wait behind an entry: then it is his to say when they go.
    """
    numbers = numbers_in(files, ENTRIES)
    if numbers and numbers[-1] > newest:
        return False
    files.delete(entry_path(number) for number in numbers if number <= through)
    files.delete(closed_path(number) for number in numbers_in(files, CLOSED) if number < through)
    return True


def _flat(positions: Positions) -> dict[tuple[str, int], int]:
    return {
        (topic, part): offset
        for topic, parts in sorted(positions.items())
        for part, offset in sorted(parts.items())
    }


def _id() -> str:
    return uuid.uuid4().hex


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
