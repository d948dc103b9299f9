"""A shard read on from where its reading has come to, a bounded number of records at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from distributary.ingest.kinesis.aggregated import taken_apart
from distributary.ingest.kinesis.kept import as_rows
from distributary.ingest.kinesis.questions import IteratorExpired, NotInShard, Page, Questions, Throttled

# What is read at once: GetRecords answers with up to 10 MiB, and 2 MiB a second of each shard.
_MOST_BYTES = 16 << 20
_MOST_RECORDS = 50_000
_MOST_PAGES = 50

# As many as one answer may have.
_PAGE = 10_000

# The waits for a shard that is asked too much, which double, and after how many of them what there is counts.
_WAIT_SECONDS, _WAITS = 0.2, 5

# A reading that is so far behind, in milliseconds, is held against what is there each time: retention, of a day at the least, may
# overtake it between two answers.
_NEAR = 23 * 3_600_000


@dataclass(frozen=True, slots=True)
class Place:
    """How far the reading of a shard has come.

    sequence  the sequence number of the last record that was read; empty where none was
    begins    where none was, from which moment on records are read; None: the first that is there
    reached   before which moment all is read, in milliseconds since the epoch
    next      the iterator of what comes next, where it is still good
    is_sure   whether it is known that nothing is gone before that
    """

    shard: str
    sequence: str
    begins: int | None
    reached: int
    next: str | None = None
    is_sure: bool = True


@dataclass
class Gathered:
    """Records that were read, column by column, and when the newest of them came; 0 where there are none."""

    newest: int = 0
    _columns: tuple[list[Any], ...] = field(default_factory=lambda: ([], [], [], [], []))
    _bytes: int = 0

    @property
    def count(self) -> int:
        """How many."""
        return len(self._columns[0])

    @property
    def is_full(self) -> bool:
        """Whether they are as many as are read at once."""
        return self._bytes >= _MOST_BYTES or self.count >= _MOST_RECORDS

    def rows(self) -> pa.Table:
        """They as a table."""
        return as_rows(self._columns)

    def add(self, record: dict[str, Any]) -> None:
        """Take one of Kinesis's records, with all that are in it."""
        millis = _millis(record)
        self.newest = max(self.newest, millis)
        for key, value, sub in taken_apart(record["PartitionKey"], record["Data"]):
            one = (key, value, millis, record["SequenceNumber"], sub)
            for column, of_it in zip(self._columns, one, strict=True):
                column.append(of_it)
            self._bytes += len(value)


@dataclass
class Fetched:
    """What a reading came to.

    resumed     where records may be gone that come right behind its beginning: when the first one came that is there; None where all are there
    ended       whether the shard was closed, and has nothing more
    is_through  whether there was nothing more just then
    is_sure     whether it is known that nothing is gone before what comes next
    """

    sequence: str
    reached: int
    next: str | None = None
    is_sure: bool = True
    resumed: int | None = None
    ended: bool = False
    is_through: bool = False
    records: Gathered = field(default_factory=Gathered)


def read_on(
    questions: Questions, place: Place, retention: Callable[[], int], stop: threading.Event
) -> Fetched:
    """What comes next in a shard, up to its end as of now or as much as is read at once; less where it is asked too much.

    `retention` says for how many milliseconds the stream keeps records, and raises where it is another stream by now. Raises what
    questions raise.
    """
    found, pages = Fetched(place.sequence, place.reached), 0
    iterator, is_sure, waited = place.next, place.next is not None and place.is_sure, 0
    while pages < _MOST_PAGES and not found.records.is_full and not stop.is_set():
        try:
            iterator = iterator or _begin(questions, place, retention)
            page = questions.page(iterator, _PAGE)
        except Throttled:
            waited += 1
            if found.records.count or waited > _WAITS or stop.wait(_WAIT_SECONDS * 2**waited):
                break
            continue
        except IteratorExpired:
            iterator, is_sure, pages = None, False, pages + 1
            if found.records.count:
                break
            continue
        if not is_sure and not (is_sure := _goes_on(found, place, page, retention)):
            # Of a shard that gets few records these are as many as there are hours to look through, and to begin anew would be to come to no end.
            iterator = page.next
            continue
        pages += 1
        _take(found, place, page)
        iterator = page.next
        if page.next is None:
            found.ended = True
            break
        if not page.behind:
            found.is_through = True
            break
        if page.at - found.reached > _NEAR:
            if found.sequence != place.sequence:
                iterator = None
                break
            # There is nothing yet to begin anew behind.
            is_sure = False
    found.next, found.is_sure = iterator, is_sure
    return found


def _begin(questions: Questions, place: Place, retention: Callable[[], int]) -> str:
    if not place.sequence:
        kind = "TRIM_HORIZON" if place.begins is None else "AT_TIMESTAMP"
        return questions.iterator(place.shard, kind, place.begins)
    try:
        return questions.iterator(place.shard, "AT_SEQUENCE_NUMBER", place.sequence)
    except NotInShard:
        # Another stream's, or one that retention took.
        retention()
        return questions.iterator(place.shard, "TRIM_HORIZON")


def _goes_on(found: Fetched, place: Place, page: Page, retention: Callable[[], int]) -> bool:
    """Whether it is known by now where the reading goes on: behind the last record, if that is there still, or behind a gap."""
    if page.records and page.records[0]["SequenceNumber"] == place.sequence:
        return True
    if not page.records and page.behind and page.next is not None:
        return False
    if place.reached < page.at - retention():
        found.resumed = _millis(page.records[0]) if page.records else page.at - page.behind
    return True


def _take(found: Fetched, place: Place, page: Page) -> None:
    for record in page.records:
        # What a reading begins at, to see that nothing behind it is gone.
        if record["SequenceNumber"] == place.sequence:
            continue
        found.sequence = record["SequenceNumber"]
        # boto3 asks for whole seconds.
        if place.begins is None or _millis(record) >= place.begins:
            found.records.add(record)
    # Of a shard that was closed nobody knows when: what came last is what is known of it.
    reached = found.records.newest if page.next is None else page.at - page.behind
    found.reached = max(found.reached, found.records.newest, reached)


def _millis(record: dict[str, Any]) -> int:
    came: datetime = record["ApproximateArrivalTimestamp"]
    return round(came.timestamp() * 1000)
