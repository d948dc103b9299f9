"""Upkeep without a pause beside merges without a pause: what no version needs goes at once, and each key keeps its newest row."""

from __future__ import annotations

import random
import threading

import pytest
from tests.ingest.merge.test_upsert import row
from tests.ingest.merge.upserted import GENERATION, Upserted
from tests.ingest.upkeep.kept_up import DAY, merged, upserted, values

from distributary.ingest.parquet.data_file import generation_mark
from distributary.ingest.storage.contract import Files
from distributary.ingest.upkeep.compaction import compact
from distributary.ingest.upkeep.leftovers import Bound, delete, leftovers
from distributary.ingest.upkeep.maintain import time_there
from distributary.ingest.upkeep.undecided import Undecided

# So many rounds of upkeep, unless merges take far longer than they do.
ROUNDS, MOST_MERGES, KEYS = 5, 300, 30


def upkeep(table: Upserted) -> int:
    """A round of it, and how many files it deleted."""
    place = table.place
    # As a log would say: what comes before the batch under way is decided.
    undecided = Undecided({generation_mark(GENERATION): table.batch - 1})
    compact(place)
    now = time_there(table.root)
    # Not even what went a moment ago is young.
    found = leftovers(place, Bound(now + DAY, now + DAY // 2), undecided)
    delete(place, found)
    return len(found.files)


# Each place and each throw once.
@pytest.mark.parametrize(
    ("root", "seed"),
    [
        ("posix", 0),
        ("s3", 1),
        *(pytest.param(*pair, marks=pytest.mark.heavy) for pair in (("posix", 1), ("s3", 0))),
    ],
    indirect=["root"],
)
def test_each_key_keeps_its_newest_row(root: Files, seed: int) -> None:
    rng, table, rounds = random.Random(seed), upserted(root, KEYS), list[int]()
    wanted, errors = merged(KEYS), list[BaseException]()

    def merge() -> None:
        try:
            for number in range(MOST_MERGES):
                chosen = rng.sample(range(KEYS + 10), 8)
                table.merge([row(key, 10 + number, str(number)) for key in chosen], files=2)
                wanted.update(dict.fromkeys(chosen, str(number)))
                if len(rounds) >= ROUNDS:
                    break
        except BaseException as error:  # noqa: BLE001 told below, in the thread of the test
            errors.append(error)

    merging = threading.Thread(target=merge)
    merging.start()
    try:
        while merging.is_alive():
            rounds.append(upkeep(table))
    finally:
        rounds += [0] * ROUNDS
        merging.join()
    assert not errors, errors
    assert values(table) == wanted
    assert sum(rounds) > 0
