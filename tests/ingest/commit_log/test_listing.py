"""What a log costs when it is old: requests, counted."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.ingest.commit_log.logs import begun, data_file, decided, swept
from tests.ingest.commit_log.memory import MemoryFiles

from distributary.ingest.commit_log.reading import CommitLog
from distributary.ingest.commit_log.writing import AT_ONCE, KEPT

# Of these, what is closed together is the smallest thing that all of them have.
MOST_TOLD = KEPT + AT_ONCE + 2


def run(files: MemoryFiles, batches: int) -> Counter[str]:
    """What so many batches of one run asked the store, its start apart."""
    writer = begun(files)
    files.asked.clear()
    for _ in range(batches):
        writer.settle(decided(writer).number)
        writer.close()
    return files.asked


# The same run, a hundredth as long, is in `make test`: each hundred batches cost what the hundred before cost.
@pytest.mark.parametrize("batches", [1_000, pytest.param(100_000, marks=pytest.mark.heavy)])
def test_a_batch_costs_the_same_at_any_age(batches: int) -> None:
    files = MemoryFiles()
    asked = run(files, batches)
    closings = batches // AT_ONCE
    assert asked["put_new"] <= batches + closings
    assert asked["names"] <= 2 * batches + 2 * closings
    assert asked["delete"] <= 2 * closings
    assert set(asked) == {"put_new", "names", "delete"}
    assert files.told <= MOST_TOLD
    assert len(files.there) <= MOST_TOLD
    start_costs_what_a_first_one_does(files)


def start_costs_what_a_first_one_does(files: MemoryFiles) -> None:
    before = begun(files)
    before.settle(before.start.number)
    decided(before)
    files.asked.clear()
    files.told = 0
    writer = begun(files)
    assert writer.last()[0] is not None
    assert len(writer.unsettled().entries) == 1
    assert (files.asked["put_new"], files.asked["names"]) == (1, 7)
    assert files.asked["read"] <= 3
    assert files.told <= MOST_TOLD


def test_starts_without_batches_cost_the_same_at_any_age() -> None:
    files = MemoryFiles()
    decided(begun(files))
    for _ in range(1_000):
        files.asked.clear()
        writer = begun(files)
        assert writer.last()[0] is not None
        writer.unsettled()
        writer.settle(writer.start.number)
        writer.close()
        assert sum(files.asked.values()) <= 20
    assert files.told <= MOST_TOLD


def test_three_hundred_batches_a_closing_and_a_crash_leave_every_file_that_was_committed() -> None:
    files, committed = MemoryFiles(), set()
    for _ in range(2):
        writer = begun(files)
        assert swept(files, writer) == set()
        for _ in range(150):
            path = data_file(files, writer)
            writer.settle(decided(writer, path).number)
            committed.add(path)
            writer.close()
    assert CommitLog(files).closed() > 0
    undecided = data_file(files, writer)
    assert swept(files, begun(files)) == {undecided}
    assert committed <= set(files.there)
