"""A stream looked through for what came: its shards read side by side, children once their parents have come to their end."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pyarrow as pa

from distributary.errors import CheckpointMismatch, CredentialsRefused, SetupError
from distributary.ingest.kafka.offsets import Positions
from distributary.ingest.kinesis.fetching import Fetched, Place, read_on
from distributary.ingest.kinesis.kept import Begun, Kept, Kind, Piece, following
from distributary.ingest.kinesis.questions import Questions, Shard, Stream

_log = logging.getLogger(__name__)

SHARDS_AT_ONCE = 16
"""How many shards are read at one time."""

# An iterator is good for five minutes.
_ITERATOR_SECONDS = 240.0

# That nothing came is kept so often: nobody knows any more what there was before, once that is longer ago than records are kept.
_IDLE_MILLIS = 3_600_000


@dataclass
class Line:
    """The reading of one shard.

    pieces      those that are kept, in order
    reached     before which moment all is read, in milliseconds since the epoch
    iterator    where it goes on, when that was given, and whether nothing is gone before that
    is_through  whether the last look at it came to the end that it had
    """

    shard: Shard
    reached: int
    pieces: list[Piece] = field(default_factory=list)
    iterator: tuple[str, float, bool] | None = None
    is_through: bool = False

    @property
    def end(self) -> int:
        """The offset behind all that was read."""
        return self.pieces[-1].end if self.pieces else 0

    @property
    def is_over(self) -> bool:
        """Whether nothing will come any more."""
        return bool(self.pieces) and self.pieces[-1].kind == "ended"


@dataclass(slots=True)
class Reach:
    """How far a look goes in each shard, and which have come as far as that.

    moment  up to what was there then, in milliseconds since the epoch; None: as much as is read at once
    """

    moment: int | None = None
    done: set[int] = field(default_factory=set)


class Looking:
    """Looks for records in a stream on behalf of one run, and keeps what it finds."""

    def __init__(
        self,
        questions: Questions,
        kept: Kept,
        stream: Stream,
        begins: Callable[[int], int | None],
        stop: threading.Event | None = None,
    ) -> None:
        """`begins` says from which moment on a new reading has records, where it is made now. Raises what questions and places raise."""
        self._questions, self.kept, self.stream = questions, kept, stream
        self._stop = stop or threading.Event()
        self.begun = kept.begun(lambda: self._begin(begins))
        self.lines = {
            number: Line(pieces[-1].shard, pieces[-1].reached, pieces)
            for number, pieces in kept.pieces().items()
        }
        self._learn()

    def look(self, *, whole: bool = False) -> None:
        """Read on, each shard up to its end or as much as is read at once; as a `whole`, up to what is there now. Raises what questions raise."""
        reach = self.up_to_now() if whole else Reach()
        while self.read_on(reach):
            continue

    def up_to_now(self) -> Reach:
        """All that is there now."""
        reach = Reach(self._questions.stream().at)
        self._learn()
        return reach

    def read_on(self, reach: Reach) -> bool:
        """Read as much as is read at once of each shard that has not come so far; False where all have, or the run is to end."""
        lines = [] if self._stop.is_set() else self._to_read(reach.done)
        if not lines:
            return False
        with ThreadPoolExecutor(min(SHARDS_AT_ONCE, len(lines))) as pool:
            refused = [*pool.map(self._refused, lines)]
        if any(refused):
            # Retention may have taken a shard amid its reading; raises where it is the stream that is gone.
            self._learn()
        for line, error in zip(lines, refused, strict=True):
            if error is not None and not line.is_over:
                raise error
        # One that has children was closed: it comes to its end, though its last records may come before that is said.
        parents = {name for line in self.lines.values() for name in line.shard.parents}
        reach.done |= {
            line.shard.number
            for line in lines
            if reach.moment is None
            or line.is_over
            or (line.shard.id not in parents and (line.is_through or line.reached > reach.moment))
        }
        if any(line.is_over for line in lines):
            self._learn()
        return True

    def parents(self, number: int) -> list[Line]:
        """The readings of those that a shard came of; of one that came and went while nobody looked, all that may have been such."""
        if self._is_of_unknown(number):
            return [line for other, line in self.lines.items() if other < number and line.is_over]
        return self._known_parents(number)

    def _known_parents(self, number: int) -> list[Line]:
        return [
            line for name in self.lines[number].shard.parents if (line := self.lines.get(Shard(name).number))
        ]

    def _is_of_unknown(self, number: int) -> bool:
        """Whether nobody knows whether it came of others: one that nothing was ever read of may have been gone before it was asked."""
        line = self.lines[number]
        return line.is_over and not line.shard.parents and not line.pieces[-1].sequence

    def forget(self, read: Positions, topic: str) -> None:
        """Delete what is before these offsets, but for the newest piece of each shard, which says how far it was read."""
        gone = list[Piece]()
        for number, line in self.lines.items():
            at = read.get(topic, {}).get(number, 0)
            while len(line.pieces) > 1 and line.pieces[0].end <= at:
                gone.append(line.pieces.pop(0))
        if gone:
            self.kept.forget(gone)

    def _begin(self, begins: Callable[[int], int | None]) -> Begun:
        shards = tuple(shard.id for shard in self._questions.shards())
        return Begun(uuid.uuid4().hex, self.stream.at, begins(self.stream.at), shards)

    def _to_read(self, done: set[int]) -> list[Line]:
        return [
            line
            for number, line in sorted(self.lines.items())
            if number not in done
            and not line.is_over
            and all(parent.is_over for parent in self.parents(number))
        ]

    def _learn(self) -> None:
        """Which shards there are now; of those that are there no more it is said what is lost."""
        listed = {shard.number: shard for shard in self._questions.shards()}
        known = {Shard(name).number: Shard(name) for name in self.begun.shards}
        new = listed.keys() - known.keys() - self.lines.keys()
        # Those that came and went while nobody looked.
        missed = {
            Shard(name).number: Shard(name)
            for number in new
            for name in listed[number].parents
            if self.begun.shards
            and Shard(name).number not in known.keys() | self.lines.keys() | listed.keys()
        }
        for number, shard in sorted({**known, **missed, **listed}.items()):
            line = self.lines.setdefault(number, Line(shard, 0))
            line.shard = shard if shard.parents else line.shard
            if not line.pieces:
                line.reached = max([self.begun.made, *(one.reached for one in self._known_parents(number))])
        for number, line in sorted(self.lines.items()):
            # Somebody else may have come further, who has no more of it by now, either.
            while number not in listed and not line.is_over:
                if self._lose(line, line.reached) or line.pieces[-1].kind == "lost":
                    self._add(line, "ended")

    def _refused(self, line: Line) -> SetupError | None:
        """Why a line cannot be read that is read on, as where it is not there."""
        try:
            self._read(line)
        except CredentialsRefused:
            raise
        except SetupError as error:
            return error
        return None

    def _read(self, line: Line) -> None:
        sequence = line.pieces[-1].sequence if line.pieces else ""
        line.is_through = False
        next_, is_sure = _still_good(line)
        place = Place(line.shard.id, sequence, self.begun.begins, line.reached, next_, is_sure)
        found = read_on(self._questions, place, self._retention, self._stop)
        if found.resumed is not None and not self._lose(line, found.resumed):
            return
        if self._take(line, found):
            line.reached, line.is_through = found.reached, found.is_through
            line.iterator = None if found.next is None else (found.next, time.monotonic(), found.is_sure)

    def _take(self, line: Line, found: Fetched) -> bool:
        """Keep what was found; whether nobody else was first."""
        kept = line.pieces[-1].reached if line.pieces else self.begun.made
        moved = bool(line.pieces) and found.sequence != line.pieces[-1].sequence
        if found.records.count:
            if not self._add(line, "records", found):
                return False
        elif not found.ended and (moved or found.reached - kept >= _IDLE_MILLIS):
            return self._prolong(line, found) if _is_idle(line, found) else self._add(line, "idle", found)
        return not found.ended or self._add(line, "ended", found)

    def _prolong(self, line: Line, found: Fetched) -> bool:
        """Have the word that nothing came say so up to now: of a stream that stands still one an hour would be there for each of its shards."""
        piece = replace(line.pieces[-1], reached=found.reached)
        self.kept.put_again(piece)
        line.pieces[-1] = piece
        return True

    def _lose(self, line: Line, resumed: int) -> bool:
        """Have a place for what is gone, be it however much; whether nobody else was first."""
        _log.warning(
            "%s of stream %s: of what came from %s on nothing was read, and up to %s some of it may be gone by retention; how many records "
            "nobody knows, and offset %s stands for them",
            line.shard.id,
            self.stream.arn,
            _time(line.reached),
            _time(resumed),
            line.end,
        )
        return self._add(line, "lost", reached=max(resumed, line.reached))

    def _add(self, line: Line, kind: Kind, found: Fetched | None = None, reached: int | None = None) -> bool:
        rows: pa.Table | None = None
        before = line.pieces[-1] if line.pieces else None
        if found is None:
            piece = following(before, line.shard, kind, int(kind == "lost"))
            piece = replace(piece, reached=line.reached if reached is None else reached)
        else:
            rows = found.records.rows() if kind == "records" else None
            piece = following(before, line.shard, kind, 0 if rows is None else rows.num_rows)
            piece = replace(piece, sequence=found.sequence, reached=found.reached)
        piece = replace(piece, newest=0 if found is None or rows is None else found.records.newest)
        there = self.kept.put(piece, rows)
        line.pieces.append(there)
        line.reached = there.reached
        if there is not piece:
            line.iterator = None
        return there is piece

    def _retention(self) -> int:
        """For how long records are kept now. Raises CheckpointMismatch where the stream was made anew."""
        now = self._questions.stream()
        if now.created != self.stream.created:
            raise CheckpointMismatch(
                f"stream {self.stream.arn} was deleted and made anew: what was read counts other records. Run again; it tells what there is to do"
            )
        return now.retention


def _is_idle(line: Line, found: Fetched) -> bool:
    """Whether the newest word of a line says that nothing came, and nothing did since."""
    newest = line.pieces[-1] if line.pieces else None
    return newest is not None and newest.kind == "idle" and newest.sequence == found.sequence


def _still_good(line: Line) -> tuple[str | None, bool]:
    """Where a line goes on, if that is known, and whether nothing is gone before that."""
    if line.iterator is None or time.monotonic() - line.iterator[1] > _ITERATOR_SECONDS:
        return None, False
    return line.iterator[0], line.iterator[2]


def _time(millis: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(millis / 1000))
