"""Whose tables are whose: several pipelines over one root, a new checkpoint beside a run that is alive, and a copy that is old."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event

import pytest
from tests.ingest.e2e.pipeline_kit import PATIENCE_SECONDS, PipelineKit
from tests.ingest.e2e.test_fenced import stopped

from distributary.errors import (
    CheckpointMismatch,
    DistributaryError,
    TableAhead,
    TablesOfAnotherRun,
)
from distributary.ingest.checkpoint.folder import LEASE
from distributary.ingest.checkpoint.generation import read_generation
from distributary.producer_sim.demo.background_run import BackgroundRun

pytestmark = [pytest.mark.spark, pytest.mark.stack]


@pytest.fixture
def other(kit: PipelineKit, make_topic: Callable[[int], str]) -> PipelineKit:
    """Another pipeline over the same root, with a topic of its own, that would write to tables of the same names."""
    return kit.beside(make_topic(2)).configured(name="other")


def data_files(kit: PipelineKit) -> list[str]:
    root = kit.lake.root
    return [info.path for folder in root.folders() for info in root.list(folder)]


def test_pipelines_share_a_root_its_ledger_and_its_quarantine(kit: PipelineKit) -> None:
    other = kit.beside(kit.topic).configured(name="other", route={"table": "other_{entity}"})
    for version in (1, 2):
        kit.simulate(version, corrupt=0.05)
        other.truth = kit.truth
        for one in (kit, other):
            one.run()
    for one in (kit, other):
        one.assert_clean()
    for table in ("ledger_batches", "ledger_changes", "quarantine"):
        rows = kit.rows(table)
        assert set(rows["pipeline"].to_pylist()) == {"games", "other"}, table
        # Each generation is one pipeline's.
        assert len(set(zip(rows["pipeline"].to_pylist(), rows["generation"].to_pylist(), strict=True))) == 2


# Without Spark it is in tests/ingest/handover/test_heritage.py.
@pytest.mark.heavy
def test_of_two_pipelines_over_one_table_the_second_is_refused_by_name(
    kit: PipelineKit, other: PipelineKit
) -> None:
    kit.simulate()
    kit.run()
    other.simulate()
    versions = kit.versions()
    with pytest.raises(
        TablesOfAnotherRun, match=r"is that of pipeline 'games' \(log .*Route this pipeline's records"
    ):
        other.run()
    assert kit.versions() == versions
    kit.simulate(2)
    kit.run()
    kit.assert_clean()


@contextmanager
def standing(
    kit: PipelineKit, point: str, batch: int, monkeypatch: pytest.MonkeyPatch
) -> Iterator[BackgroundRun]:
    """A run in a thread and a session of its own that stands still there until the block ends."""
    stands, woken = Event(), Event()

    def stand(reached: str, batch_id: int) -> None:
        if (reached, batch_id) == (point, batch) and not stands.is_set():
            stands.set()
            woken.wait()

    monkeypatch.setattr("distributary.ingest.failpoints.reach", stand)
    run = BackgroundRun(kit.settings, kit.spark.newSession())
    with suppress(DistributaryError), run:
        try:
            assert stands.wait(PATIENCE_SECONDS), "it did not come to where it is to stand still"
            # As where locks do not reach: on another machine.
            shutil.rmtree(kit.checkpoint_folder / LEASE)
            yield run
        finally:
            woken.set()
        run.wait_for(2**63)


@pytest.mark.checkpoint_folder
def test_a_run_that_stands_still_while_its_tables_are_taken_stops_and_nothing_is_lost_or_twice(
    kit: PipelineKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit.configured(limits={"commit_threads": 1, "batch_rows": 200})
    kit.simulate(events=600, corrupt=0.05)
    with standing(kit, "after_manifest", 1, monkeypatch) as zombie:
        kit.configured(checkpoint="./checkpoints/second", start="from_tables")
        kit.run()
        kit.assert_clean()
        versions = kit.versions()
        assert kit.unnamed_files() == set()
    with pytest.raises(
        DistributaryError, match=r"were handed over to pipeline 'games' \(log .*checkpoints/second"
    ):
        zombie.outcome()
    assert kit.versions() == versions
    kit.simulate(events=200)
    kit.run()
    kit.assert_clean()


# A process and a JVM of its own, which know nothing of the other run; what comes of each moment is shown without Spark in
# tests/ingest/handover/test_heritage.py.
@pytest.mark.heavy
@pytest.mark.parametrize("point", ["after_manifest", "between_commits"])
def test_a_run_that_lives_while_its_tables_are_taken_stops_and_nothing_is_lost_or_twice(
    kit: PipelineKit, point: str
) -> None:
    kit.configured(limits={"commit_threads": 1, "batch_rows": 200})
    kit.simulate(events=600, corrupt=0.05)
    with stopped(kit, f"{point}:1") as zombie:
        kit.configured(checkpoint="./checkpoints/second", start="from_tables")
        kit.run()
        kit.assert_clean()
        versions = kit.versions()
        assert kit.unnamed_files() == set()
        os.kill(zombie.pid, signal.SIGCONT)
        _, said = zombie.communicate(timeout=PATIENCE_SECONDS)
    assert zombie.returncode == 1, said
    assert "were handed over to pipeline 'games' (log " in said and "checkpoints/second" in said
    assert "Traceback" not in said
    assert kit.versions() == versions
    kit.simulate(events=200)
    kit.run()
    kit.assert_clean()


# Without Spark `make test` has the same of both in tests/ingest/batch/test_runner.py, and of the first one with it in test_backups.py.
@pytest.mark.heavy
@pytest.mark.checkpoint_folder
@pytest.mark.parametrize("died", [False, pytest.param(True, marks=pytest.mark.heavy)])
def test_a_checkpoint_put_back_from_a_backup_stops_and_nothing_is_lost_or_twice(
    kit: PipelineKit, died: bool
) -> None:
    kit.configured(limits={"commit_threads": 1})
    kit.simulate(corrupt=0.05)
    kit.run()
    first, backup = kit.settings.checkpoint.path, kit.folder / "backup"
    shutil.copytree(first, backup)
    kit.simulate(2, corrupt=0.05)
    if died:
        assert kit.run_apart("between_commits=kill").returncode == -signal.SIGKILL
    else:
        kit.run()
    shutil.rmtree(first)
    shutil.copytree(backup, first)
    before, files = kit.versions(), data_files(kit)
    with pytest.raises(TableAhead if died else CheckpointMismatch, match="put back from an older copy"):
        kit.run()
    assert (kit.versions(), data_files(kit)) == (before, files)

    old = read_generation(kit.checkpoint)
    assert old is not None
    kit.configured(checkpoint="./checkpoints/second", start="from_tables")
    with pytest.raises(TablesOfAnotherRun, match=rf'older than the tables.*`confirm_dead: \["{old.id}"\]`'):
        kit.run()
    kit.configured(confirm_dead=[old.id])
    kit.simulate(2)
    kit.run()
    kit.assert_clean()
