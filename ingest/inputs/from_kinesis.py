"""A Kinesis stream as a source: a topic whose partitions are the shards, in each of which records are numbered as they are read."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property, partial
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession

from distributary.errors import BrokerUnavailable, CheckpointMismatch
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import read_generation
from distributary.ingest.inputs.by_ranges import ByRanges
from distributary.ingest.inputs.one_topic import OLDER, OneTopic
from distributary.ingest.interruptible import answer_to, until_answered
from distributary.ingest.kafka.offsets import Offsets, Positions
from distributary.ingest.kafka.source import complete, require_there
from distributary.ingest.kinesis.kept import Kept
from distributary.ingest.kinesis.looking import SHARDS_AT_ONCE, Line, Looking, Reach
from distributary.ingest.kinesis.questions import KinesisClient, Questions, boto3_client
from distributary.ingest.kinesis.reading import first_since, parts_of, records
from distributary.ingest.reshaping.rule import NOTHING_BESIDE, Beside
from distributary.ingest.settings.groups import Route, Source
from distributary.ingest.settings.model import Settings
from distributary.ingest.settings.source.kinesis import KinesisStream
from distributary.ingest.source.contract import Channels, Tell
from distributary.ingest.source.moments import Begins
from distributary.ingest.source.ranges import next_range
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files

_FOLDER = ".distributary/kinesis"

_READER = "reader.json"
"""Whose it is that is kept of a stream, where that is another pipeline than the folder is called by."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

T = TypeVar("T")


class RecordsGone(Exception):
    """What comes next is gone, and that is to be recorded before anything else is read."""


@dataclass(frozen=True, slots=True)
class KinesisRecords(ByRanges):
    """The records of a stream, as a Spark session reads them."""

    spark: SparkSession
    source: Source
    shards: Shards

    def range(self, offsets: Offsets) -> DataFrame:
        """The records of a range of offsets, from where they are kept."""
        return self.shards.frame(self.spark, offsets)

    def next_range(self, read: Positions, ends: Positions, most: int) -> Offsets:
        """What comes next of each shard, at most so many records together; of one that came of others nothing before all of theirs is read.

        Of a run that ends by itself more is read of the stream once nothing is left of what was. Raises CheckpointMismatch where it is gone
        and that is to stop the run, RecordsGone where it is to be recorded.
        """
        further: Positions | None = ends
        while further is not None:
            read = complete(read, self.shards.partitions())
            there = self.shards.readable(read, further, past_lost=self.source.on_data_loss == "record")
            found = next_range(read, there, most)
            if any(begin < end for ranges in found.values() for begin, end in ranges.values()):
                return found
            further = self.shards.further()
        return {}

    def warm_up(self, channels: Channels) -> None:
        """Have workers started."""
        self.shards.frame(self.spark, {}).write.format("noop").mode("overwrite").save()


class Asking:
    """How Kinesis is asked: where there is somebody to be told, an outage is told of and waited for."""

    def __init__(self, stop: threading.Event | None, tell: Tell | None) -> None:
        """Nothing is asked yet."""
        self.stop, self._tell = stop or threading.Event(), tell

    def answer(self, ask: Callable[[], T]) -> T:
        """The answer. Raises Stopped, and BrokerUnavailable where nobody is told."""

        def interruptible() -> T:
            return answer_to(ask, self.stop)

        if self._tell is None:
            return interruptible()
        return until_answered(interruptible, BrokerUnavailable, self._tell, self.stop)

    def was_away(self, ask: Callable[[], object]) -> bool:
        """Wait until there is an answer; whether there was none at once."""
        told: list[str] = []

        def tell(reason: str, seconds: float) -> None:
            told.append(reason)
            if self._tell is not None:
                self._tell(reason, seconds)

        until_answered(lambda: answer_to(ask, self.stop), BrokerUnavailable, tell, self.stop)
        return bool(told)


class Shards(OneTopic):
    """The shards of a stream, and what is kept of them beside the tables."""

    holder = "Kinesis"

    def __init__(self, questions: Questions, place: Files, begins: Begins, asking: Asking) -> None:
        """`place` is where what is read is kept, of this stream and of others of its name. Nothing is asked yet."""
        self.topic = place.url.rpartition("/")[2]
        # Whether all that is there is read before a batch begins; and whether the run ends at what is there, which is read as batches take it.
        self.whole, self.ends_by_itself = False, False
        self._reach: Reach | None = None
        self._questions, self._asking = questions, asking
        self._place, self._begins = place, begins
        # Where the newest batch begins, and the one before it; nobody knows before the log was asked.
        self._begun: Positions = {}
        self._done: Positions = {}

    @cached_property
    def _looking(self) -> Looking:
        """The stream as it is read. Raises what questions and places raise: who makes rows again of what was kept may do without it."""
        stream = self._asking.answer(self._questions.stream)
        # One that is made anew has nothing in common with the one before.
        kept, begins = Kept(self._place.below(str(stream.created))), partial(_from, self._begins)
        return self._asking.answer(lambda: Looking(self._questions, kept, stream, begins, self._asking.stop))

    def close(self) -> None:
        """End the connections."""
        self._questions.close()

    def cluster_id(self) -> str:
        """The account and region."""
        return f"Kinesis {self._looking.stream.arn.partition(':stream/')[0]}"

    def topic_ids(self) -> dict[str, str]:
        """When the stream was made, and the id of its reading, which numbers its records."""
        created = self._asking.answer(self._questions.stream).created
        return {self.topic: f"{created}-{self._looking.begun.id}"}

    def was_away(self) -> bool:
        """Wait until it answers; whether it did not at once."""
        return self._asking.was_away(self._questions.stream)

    def partitions(self) -> dict[str, Sequence[int]]:
        """The numbers in the names of all shards that were ever read."""
        return {self.topic: sorted(self._looking.lines)}

    def earliest_offsets(self) -> Positions:
        """The first one that is kept, or comes; behind records that are lost, where those come next."""
        return {self.topic: {number: self._earliest(number, line) for number, line in self._sorted()}}

    def end_offsets(self) -> Positions:
        """Behind what was read of each shard, after a look at them. Raises what a look raises."""
        self._asking.answer(lambda: self._looking.look(whole=self.whole))
        return self.ends()

    def further(self) -> Positions | None:
        """The same where a run ends by itself, after some more was read of what was there when this was asked first; None where all of it was."""
        if not self.ends_by_itself:
            return None
        if self._reach is None:
            self._reach = self._asking.answer(self._looking.up_to_now)
        before, reach = self.ends(), self._reach
        while self.ends() == before and self._asking.answer(lambda: self._looking.read_on(reach)):
            continue
        return None if self.ends() == before else self.ends()

    def ends(self) -> Positions:
        """Behind what was read of each shard."""
        return {self.topic: {number: line.end for number, line in self._sorted()}}

    def offsets_from(self, milliseconds: int) -> Positions:
        """The first record of each shard that came then or later, of those that were read and are kept."""
        found = {number: self._first_since(line, milliseconds) for number, line in self._sorted()}
        return {self.topic: {number: offset for number, offset in found.items() if offset is not None}}

    def require_had(self, read: Positions) -> None:
        """Raises CheckpointMismatch where less is kept: Kinesis may have no more what is between, so that others would get its offsets."""
        lines, kept = self._looking.lines, self._looking.kept
        behind = {
            number: had
            for number, had in read.get(self.topic, {}).items()
            if number in lines and lines[number].end < had
        }
        # Another run may have gone on since it was opened.
        there = kept.pieces() if behind else {}
        for number, had in behind.items():
            end = there[number][-1].end if number in there else 0
            if end < had:
                raise CheckpointMismatch(
                    f"what is kept of shard {number} in {kept.files} ends before offset {end}, and it was read up to before {had}: {OLDER}"
                )

    def lag(self, read: Mapping[str, Mapping[int, int]], ends: Positions | None = None) -> Positions:
        """How many records are to be read yet of those that are kept, or came up to now: of others nobody knows how many there are."""
        mine = read.get(self.topic, {})
        self._was_read({self.topic: dict(mine)})
        there = (self.end_offsets() if ends is None else ends).get(self.topic, {})
        return {self.topic: {number: max(0, end - mine.get(number, 0)) for number, end in there.items()}}

    def columns(self, ends: Positions | None = None) -> str | None:
        """Records tell."""
        return None

    def schemas(self) -> None:
        """A registry has them."""

    def records(
        self,
        spark: SparkSession,
        pipeline: str,
        source: Source,
        route: Route,
        beside: Beside = NOTHING_BESIDE,
    ) -> KinesisRecords:
        """The stream's records; each has its sequence number as a header."""
        return KinesisRecords(spark, source, self)

    def frame(self, spark: SparkSession, offsets: Offsets) -> DataFrame:
        """The records of a range of offsets."""
        parts = [
            part
            for number, (begin, end) in offsets.get(self.topic, {}).items()
            if number in self._looking.lines
            for part in parts_of(self._looking.lines[number].pieces, begin, end)
        ]
        return records(spark, self._looking.kept.files, self.topic, parts)

    def readable(self, read: Positions, ends: Positions, *, past_lost: bool) -> Positions:
        """Up to where each shard may be read now: before what is lost, and nothing of one whose parents are not read to their ends.

        Raises what is told of records that are lost where those come next: RecordsGone where they are to be passed.
        """
        self._was_read(read)
        mine, until = read.get(self.topic, {}), ends.get(self.topic, {})
        here = self.earliest_offsets()
        if any(at < here[self.topic].get(number, at) for number, at in mine.items()):
            if not past_lost:
                require_there(read, here, self.holder)
            raise RecordsGone("records of Kinesis were gone before they were read")
        waiting = self._waiting(mine)
        return {
            self.topic: {
                number: at if number in waiting else self._until(number, at, until)
                for number, at in mine.items()
            }
        }

    def _until(self, number: int, at: int, ends: Mapping[int, int]) -> int:
        line = self._looking.lines.get(number)
        if line is None:
            return at
        lost = [piece.first for piece in line.pieces if piece.kind == "lost" and piece.first >= at]
        return max(at, min([ends.get(number, at), *lost]))

    def _waiting(self, read: Mapping[int, int]) -> set[int]:
        """The shards that came of such as are not read to their ends, at whatever remove: those between may have had nothing, or have lost all."""
        found = set[int]()
        # One has a larger number than those that it came of.
        for number, _ in self._sorted():
            parents = self._looking.parents(number)
            if any(one.shard.number in found or read.get(one.shard.number, 0) < one.end for one in parents):
                found.add(number)
        return found

    def _earliest(self, number: int, line: Line) -> int:
        read = self._begun.get(self.topic, {}).get(number, 0)
        first = line.pieces[0].first if line.pieces else 0
        at = max(first, read)
        for piece in line.pieces:
            if piece.kind == "lost" and piece.first == at:
                at = piece.end
        return at if at > max(first, read) else first

    def _first_since(self, line: Line, milliseconds: int) -> int | None:
        for piece in line.pieces:
            if piece.newest >= milliseconds and piece.kind == "records":
                return first_since(self._looking.kept.files, piece, milliseconds)
        return None

    def _was_read(self, read: Positions) -> None:
        """Take in where the log ends; what is before its newest batch is forgotten, as that one may have to be written again."""
        # One that nothing was read of may be named or not.
        read = {self.topic: {number: at for number, at in read.get(self.topic, {}).items() if at}}
        if read == self._begun:
            return
        self._begun, self._done = read, self._begun
        self._looking.forget(self._done, self.topic)

    def _sorted(self) -> list[tuple[int, Line]]:
        return sorted(self._looking.lines.items())


def _from(begins: Begins, now: int) -> int | None:
    """From which moment on a new reading has records."""
    if isinstance(begins, datetime):
        # Of a time that is to come Kinesis gives nothing.
        return min(now, -((_EPOCH - begins) // timedelta(milliseconds=1)))
    return now if begins == "latest" else None


def _place(settings: Settings, root: Files, topic: str) -> Files:
    """Where what is read is kept: as the checkpoint has it, or under the pipeline's name, be it that of before or that of now.

    Raises CheckpointMismatch where another pipeline goes on with what is kept under this one's name, and OSError.
    """
    name, mine = settings.name, root.below(f"{_FOLDER}/{settings.name}/{topic}")
    generation = read_generation(Checkpoint(open_files(settings.checkpoint, settings.storage)))
    reading = None if generation is None else generation.topics.get(topic)
    if _is_of(mine, reading):
        if _reader(mine) not in (None, name):
            # It has its name back.
            mine.put(_READER, _as_reader(name))
        return mine
    others = [root.below(f"{_FOLDER}/{one}/{topic}") for one in root.folders(_FOLDER) if one != name]
    for place in others:
        if _is_of(place, reading):
            if _reader(place) != name:
                # Who gets the name that it had would delete what this one has yet to read.
                place.put(_READER, _as_reader(name))
            return place
    # A new checkpoint goes on with the one before.
    for place in others if reading is None else ():
        if _reader(place) == name:
            return place
    if (reader := _reader(mine)) not in (None, name):
        raise CheckpointMismatch(
            f"pipeline {reader} goes on with what is kept in {mine}, as it was called {name} before, and two cannot: give this one another name"
        )
    return mine


def _is_of(place: Files, reading: str | None) -> bool:
    """Whether a reading is kept there that is told so as a topic's id."""
    created, _, id_ = (reading or "").partition("-")
    return bool(id_) and Kept(place.below(created)).known() == id_


def _as_reader(name: str) -> bytes:
    return json.dumps({"pipeline": name}).encode()


def _reader(place: Files) -> str | None:
    """Whose it is by now, where that was told; None otherwise."""
    try:
        return str(json.loads(place.read(_READER))["pipeline"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


@contextmanager
def open_stream(
    settings: Settings,
    chosen: KinesisStream,
    stop: threading.Event | None = None,
    tell: Tell | None = None,
    client: KinesisClient | None = None,
) -> Iterator[Shards]:
    """The stream, until the block ends; `client` is asked instead of boto3's. Raises what Shards raises."""
    asking = Asking(stop, tell)
    questions = Questions(client or boto3_client(chosen, SHARDS_AT_ONCE), chosen)
    root = open_files(settings.sink.root, settings.storage)
    shards = Shards(
        questions,
        _place(settings, root, chosen.topic),
        settings.source.starting_offsets,
        asking,
    )
    if tell is not None:
        # Where a moment is in offsets is known once all of before it is read.
        shards.whole = settings.source.until is not None
        shards.ends_by_itself = settings.trigger.available_now and not shards.whole
    try:
        yield shards
    finally:
        shards.close()
