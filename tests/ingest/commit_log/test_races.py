"""Many processes that run one log at once: one line of entries comes of it, and nobody is told of a batch that is not his."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.contest import contest
from tests.ingest.commit_log.contender import contend
from tests.ingest.commit_log.logs import begun, entries

from distributary.errors import Fenced
from distributary.ingest.commit_log.entries import Batch, Start
from distributary.ingest.storage.contract import Files


def test_of_many_processes_each_number_is_ones_and_the_batches_form_one_line(files: Files) -> None:
    processes, wanted = 4, 4
    told = contest(contend, [(files, wanted)] * processes)

    there = entries(files)
    batches = {(entry.number, entry.id): entry for entry in there if isinstance(entry, Batch)}
    assert len(told) == len(set(told)) == processes * wanted
    assert set(told) <= set(batches)
    # Each batch was decided by the newest start before it.
    for number, entry in enumerate(there):
        if isinstance(entry, Batch):
            assert entry.start == max(one.number for one in there[:number] if isinstance(one, Start))


def test_of_many_starts_at_once_at_most_one_goes_on(files: Files) -> None:
    def start(_: int) -> int | None:
        try:
            return begun(files).start.number
        except Fenced:
            return None

    with ThreadPoolExecutor(8) as pool:
        found = [number for number in pool.map(start, range(8)) if number is not None]
    there = entries(files)
    assert found and len(set(found)) == len(found)
    assert [type(entry) for entry in there] == [Start] * len(there)
    assert max(found) == there[-1].number
