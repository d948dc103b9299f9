"""A disk answers one sync with an error, and every later one with success though it dropped what it did not take: no record is lost by it.

Whether the run goes on then, or ends and another one begins.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.ingest.batch.test_power import assert_each_once, run, sent
from tests.ingest.batch.test_standing_still import query
from tests.ingest.kafka_records import TOPIC
from tests.ingest.power import Disk
from tests.ingest.queries import Query

from distributary import files

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

# Those of a start and of as many batches, at least.
SYNCS, BATCHES = 140, 3

# The others throw the same dice more often; these met what was lost when nothing was written again.
LIGHT = (0, 1, 12, 23, 55, 59, 91, 104)
ENDED = (12, 23, 55, 59, 104, 108)
SEEDS = [*LIGHT, *(pytest.param(seed, marks=pytest.mark.heavy) for seed in range(150) if seed not in LIGHT)]
ENDING = [*ENDED, *(pytest.param(seed, marks=pytest.mark.heavy) for seed in range(150) if seed not in ENDED)]


def surely(of: Query, work: Callable[[], None]) -> None:
    """As a supervisor has it: what fails is begun again, behind what was decided."""
    try:
        work()
    except OSError:
        of.planned = 0
        last, _ = of.log.last()
        surely(of, partial(of.resume, [] if last is None else sent(last.offsets[TOPIC][0][0])))


def begun(root: Path) -> Query:
    """A start; one that fails is the end of its process, and another one comes."""
    try:
        return query(root)
    except OSError:
        return query(root)


def lived(root: Path, disk: Disk) -> None:
    with disk.watched():
        of = begun(root)
        surely(of, of.resume)
        while (begin := of.log.so_far.ends.get(TOPIC, {}).get(0, 0)) < BATCHES * 5:
            surely(of, partial(of.batch, begin, sent(begin)))
        of.runner.finisher._native.settle()


def disk_of(root: Path, refuses_at: int | None = None) -> Disk:
    for folder in ("lake", "checkpoint"):
        (root / folder).mkdir()
    return Disk((root / "lake", root / "checkpoint"), refuses_at=refuses_at)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_disk_did_not_take_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(files, "MANY", rng.choice((10, 1000)))
    disk = disk_of(tmp_path, rng.randrange(1, SYNCS))
    lived(tmp_path, disk)
    disk.fail(rng)
    of = run(tmp_path, 2, rng)
    assert_each_once(tmp_path, of.log.so_far.ends[TOPIC][0])


@pytest.mark.parametrize("seed", ENDING)
def test_what_a_disk_did_not_take_is_written_again_by_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """It cannot know that there was a sync that failed: nobody says so to who asks again."""
    rng = random.Random(seed)
    monkeypatch.setattr(files, "MANY", rng.choice((10, 1000)))
    disk = disk_of(tmp_path, rng.randrange(1, SYNCS))
    with disk.watched():
        while not (ended := died_at(tmp_path)):
            continue
        ended.runner.finisher._native.settle()
    disk.fail(rng)
    of = run(tmp_path, 2, rng)
    assert_each_once(tmp_path, of.log.so_far.ends[TOPIC][0])


def died_at(root: Path) -> Query | None:
    """A process that ends with the first sync that fails; None where one did before all batches were there."""
    try:
        of = query(root)
        last, _ = of.log.last()
        of.resume([] if last is None else sent(last.offsets[TOPIC][0][0]))
        while (begin := of.log.so_far.ends.get(TOPIC, {}).get(0, 0)) < BATCHES * 5:
            of.batch(begin, sent(begin))
    except OSError:
        return None
    return of


def test_a_run_syncs_as_often_as_one_of_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MANY", 1000)
    disk = disk_of(tmp_path)
    lived(tmp_path, disk)
    assert SYNCS <= disk.syncs <= 1.2 * SYNCS
