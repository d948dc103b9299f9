"""A log that has left thousands of topics: its starts say which, its batches do not say it again, and no offset of any is forgotten."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.ingest.commit_log.logs import BY, TOPIC, decided, earliest, entries, kinds
from tests.ingest.commit_log.memory import MemoryFiles
from typing_extensions import Buffer

from distributary.errors import CheckpointMismatch
from distributary.ingest.commit_log import entry_json
from distributary.ingest.commit_log.entries import Batch, Standing
from distributary.ingest.commit_log.reading import CLOSED, CommitLog, closed_path, entry_path
from distributary.ingest.commit_log.writing import Writer, begin

HOURS = 2_000
LEFT = {f"events-{hour:05d}": {0: hour, 1: 7} for hour in range(HOURS)}
MANY = replace(earliest(), left=LEFT, topics={**dict.fromkeys(LEFT, "gone"), TOPIC: "there"})


def many(files: MemoryFiles, *more: str) -> Writer:
    """A run of a log that has left all of these topics, and more by now."""

    def goes_on(so_far: Standing) -> Standing:
        return replace(so_far, left={**so_far.left, **{name: {0: 1} for name in more}})

    return begin(CommitLog(files), BY, lambda: MANY, goes_on)


def settled(writer: Writer, count: int) -> None:
    for _ in range(count):
        writer.settle(decided(writer).number)
        writer.close()


def test_a_batch_says_nothing_again_of_what_its_start_says() -> None:
    files = MemoryFiles()
    writer = many(files)
    batch, again, parked = decided(writer), writer.rewrite({}), writer.park({"t": [1]}, "why")
    assert [len(files.there[entry_path(number)]) < 1_000 for number in range(4)] == [False, True, True, True]
    assert entries(files) == [writer.start, batch, again, parked]
    assert CommitLog(files).state().so_far == writer.so_far
    assert (writer.so_far.left, writer.so_far.topics) == (MANY.left, MANY.topics)


def test_of_few_topics_each_entry_says_all_as_an_earlier_version_did() -> None:
    files = MemoryFiles()
    few = replace(earliest(), left={"gone": {0: 3}}, topics={"gone": "1", TOPIC: "2"})
    decided(begin(CommitLog(files), BY, lambda: few))
    assert all(b'"format":3' in data and b'"left":{"gone"' in data for data in files.there.values())


@pytest.mark.parametrize("count", [60, 120])
def test_topics_that_are_read_again_bring_no_older_format_back(count: int) -> None:
    """A program that knows that alone would go on with the log, and close what it cannot read."""
    files = MemoryFiles()
    left = {f"events-{hour}": {0: 1} for hour in range(count)}
    so_far = replace(earliest(), left=left, topics=dict.fromkeys(left, "there"))
    decided(begin(CommitLog(files), BY, lambda: so_far))
    decided(begin(CommitLog(files), BY, earliest, lambda found: replace(found, left={})))
    formats = [json.loads(files.there[entry_path(number)])["format"] for number in range(4)]
    assert formats == sorted(formats)


@pytest.mark.usefixtures("closing_soon")
def test_what_an_earlier_version_left_to_a_start_stays_beside_what_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To that one a topic that is left, and came once, was two."""
    left = {f"events-{hour}": {0: 1} for hour in range(60)}
    so_far = replace(earliest(), left=left, topics=dict.fromkeys(left, "there"))
    files = MemoryFiles()
    writer = begin(CommitLog(files), BY, lambda: so_far)
    with monkeypatch.context() as patch:
        patch.setattr(entry_json, "_is_said", lambda *_: True)
        entries_ = [decided(writer) for _ in range(9)]
    for entry in entries_:
        writer.settle(entry.number)
    writer.close()
    assert CommitLog(files).closed() > writer.start.number
    assert CommitLog(files).state().so_far == writer.so_far


@pytest.mark.usefixtures("closing_soon")
def test_what_it_says_stays_as_long_as_entries_of_its_run_do() -> None:
    files = MemoryFiles()
    settled(first := many(files), 9)
    assert CommitLog(files).closed() > first.start.number
    assert CommitLog(files).state().so_far == first.so_far
    second = many(files, "one more")
    assert second.so_far.left == {**LEFT, "one more": {0: 1}}
    # Entries of the one are there still when the other closes what the one has closed, and more.
    second.settle(second.start.number)
    second.close()
    while CommitLog(files).closed() < second.start.number:
        for entry in entries(files):
            before = isinstance(entry, Batch) and entry.start == first.start.number
            assert entry.so_far.left == (LEFT if before else second.so_far.left)
        settled(second, 1)
    settled(second, 5)
    assert set(kinds(files)) == {"B"}
    third = many(files)
    assert (third.so_far.left, third.last()[0]) == (second.so_far.left, second.last()[0])


@pytest.mark.usefixtures("closing_soon")
@pytest.mark.parametrize("closed", [False, True])
def test_a_start_that_is_gone_is_named(*, closed: bool) -> None:
    files = MemoryFiles()
    settled(many(files), 9 if closed else 1)
    log = CommitLog(files)
    if closed:
        path = closed_path(log.closed())
        told = files.there[path]
        files.delete([path])
        files.put(path, told.replace(b'"begun":', b'"other":'))
    else:
        files.delete([entry_path(0)])
    with pytest.raises(CheckpointMismatch, match=r"log/0000000000.json is gone"):
        log.entry(log.closed() + 2)
    with pytest.raises(CheckpointMismatch, match=r"log/0000000000.json is gone"):
        log.state()


class Closing(MemoryFiles):
    """`before` is called once, before it is written down how far the log is closed."""

    before: Callable[[], None] | None = None

    def put_new(self, path: str, data: Buffer, *, durable: bool = True) -> bool:
        if path.startswith(CLOSED) and self.before is not None:
            before, self.before = self.before, None
            before()
        return super().put_new(path, data, durable=durable)


@pytest.mark.usefixtures("closing_soon")
def test_it_stays_where_who_took_over_closes_less_than_who_woke() -> None:
    """Files wait behind a batch that is closed, as who took over read it before it was: its start goes before it does."""
    files, now = Closing(), list[Writer]()
    first = many(files)
    for _ in range(8):
        decided(first)
    asleep = many(files, "one more")
    for _ in range(8):
        asleep.settle(decided(asleep).number)

    def taken_over() -> None:
        now.append(many(files))
        now[0].park({"t": (5,)}, "it was put back")

    files.before = taken_over
    assert asleep.close() is None
    assert CommitLog(files).closed() > asleep.start.number
    for _ in range(8):
        now[0].settle(decided(now[0]).number)
        now[0].close()
    assert entry_path(first.start.number) not in files.there
    assert CommitLog(files).as_finished(5)[0].so_far.left == LEFT
