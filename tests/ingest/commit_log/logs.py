"""What tests of the log share: somebody who runs it, batches, and a look at all that is in it."""

from __future__ import annotations

import uuid
from dataclasses import replace
from itertools import pairwise

from distributary.ingest.commit_log.entries import Batch, Entry, Process, Standing, Start
from distributary.ingest.commit_log.reading import CommitLog
from distributary.ingest.commit_log.writing import Unsettled, Writer, begin
from distributary.ingest.kafka.offsets import Offsets
from distributary.ingest.storage.contract import Files

BY = Process("here", 7, "1.0")

TOPIC = "games"


def earliest() -> Standing:
    """Where the first batch of these logs begins, which go on with a topic less."""
    return Standing(ends={TOPIC: {0: 5, 1: 0}}, left={"gone": {0: 3}})


def begun(files: Files) -> Writer:
    """Somebody who runs the log from here on."""
    return begin(CommitLog(files), BY, earliest)


def following(writer: Writer, records: int = 10) -> Offsets:
    """So many more records of the first partition."""
    ends = writer.so_far.ends[TOPIC]
    return {TOPIC: {0: (ends[0], ends[0] + records), 1: (ends[1], ends[1])}}


def decided(writer: Writer, name: str = "") -> Batch:
    """The next batch, decided."""
    return writer.append(following(writer), {"files": [name]})


def entries(files: Files) -> list[Entry]:
    """All entries that are not closed, held against each other."""
    log = CommitLog(files)
    state = log.state()
    found = [log.entry(number) for number in range(state.closed + 1, state.next)]
    there = [entry for entry in found if entry is not None]
    assert len(there) == len(found)
    for one, next_one in pairwise(there):
        assert next_one.number == one.number + 1
        after, so_far = one.after, next_one.so_far
        # A start may read other topics.
        topics = so_far if isinstance(next_one, Start) else after
        assert replace(after, settled=so_far.settled, left=topics.left, topics=topics.topics) == so_far
    return there


def kinds(files: Files) -> str:
    """The entries that are not closed, a letter each: S, B, R, P, H."""
    return "".join(type(entry).__name__[0] for entry in entries(files))


def data_file(files: Files, writer: Writer) -> str:
    """The path of a new file of a table, made for the writer's next entry."""
    path = f"data/{writer.next:010d}-{uuid.uuid4().hex}"
    files.put(path, b"rows")
    return path


def swept(files: Files, writer: Writer) -> set[str]:
    """What a start deletes of the tables' files, by their names and the entries alone."""
    unsettled = writer.unsettled()
    named = {path for entry in unsettled.entries for path in entry.decided["files"]}
    made_for = {info.path: int(info.name.partition("-")[0]) for info in files.list("data")}
    gone = {
        path for path, number in made_for.items() if number in numbers_of(unsettled) and path not in named
    }
    files.delete(gone)
    writer.settle(writer.start.number)
    return gone


def numbers_of(unsettled: Unsettled) -> list[int]:
    """The numbers that a start has to look through."""
    return [number for span in unsettled.numbers for number in span]
