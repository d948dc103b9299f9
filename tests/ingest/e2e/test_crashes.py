"""A run that dies, at each step of a batch: the next one brings everything to its end, and nothing twice."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.errors import BudgetSpent, CommitImpossible
from distributary.ingest.resolve import resolve
from distributary.producer_sim.events.versions import arrow_schema
from distributary.producer_sim.traffic.events import game_names

pytestmark = [pytest.mark.spark, pytest.mark.stack]

# Those of the driver; what dies in a worker is below.
POINTS = (
    "amid_schema_change",
    "before_manifest",
    "after_manifest",
    "between_commits",
    "before_ledger",
    "before_spark_commit",
)


def send_first(kit: PipelineKit) -> None:
    kit.simulate(1, corrupt=0.05, tombstones=0.02)


def send_second(kit: PipelineKit) -> None:
    """A batch that lets tables grow and brings a new one."""
    kit.simulate(2, games=4, corrupt=0.05, tombstones=0.02, old_producers=0.3)


def added_columns(kit: PipelineKit) -> list[tuple[str, str, str]]:
    return sorted(
        (row["table"], row["kind"], row["column"]) for row in kit.rows("ledger_changes").to_pylist()
    )


def expected_columns(kit: PipelineKit) -> list[tuple[str, str, str]]:
    old, new = arrow_schema(1).names, arrow_schema(2).names
    grown = [kit.folder_of(game) for game in game_names(3)]
    return sorted(
        [(table, "created", name) for table in grown for name in old]
        + [(table, "added", name) for table in grown for name in new if name not in old]
        + [(kit.folder_of(3), "created", name) for name in new]
    )


def batches_in(kit: PipelineKit, table: str) -> list[str]:
    """The batches that a table's commits name, the oldest first."""
    history = kit.delta(table).history()
    return [entry["distributary.batch_id"] for entry in reversed(history) if "distributary.batch_id" in entry]


# The first run's start is entry 0 of the log and its batch the next one, the second run's follow.
FIRST, SECOND = "1", "3"


def assert_whole(kit: PipelineKit, later: str = SECOND) -> None:
    kit.assert_clean()
    assert kit.unnamed_files() == set()
    assert added_columns(kit) == expected_columns(kit)
    assert batches_in(kit, "ledger_batches") == [FIRST, later]


# A JVM a point: `make test` has the one amid the commits, and all four as errors within a run.
@pytest.mark.parametrize(
    "point",
    [
        point if point == "between_commits" else pytest.param(point, marks=pytest.mark.heavy)
        for point in POINTS
    ],
)
def test_a_killed_run_is_brought_to_its_end(kit: PipelineKit, point: str) -> None:
    kit.configured(limits={"commit_threads": 1})
    send_first(kit)
    kit.run()
    before = kit.versions()
    send_second(kit)

    killed = kit.run_apart(f"{point}:{SECOND}=kill")

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    decided = point not in ("amid_schema_change", "before_manifest")
    assert kit.manifests.last_batch() == int(SECOND if decided else FIRST)
    committed = [table for table in before if batches_in(kit, table)[-1:] == [SECOND]]
    if not decided or point == "after_manifest":
        assert committed == []
    elif point == "between_commits":
        assert 0 < len(committed) < len(before)
        assert "ledger_batches" not in committed
    elif point == "before_ledger":
        assert set(before) - set(committed) == {"ledger_batches"}
    else:
        assert "ledger_batches" in committed

    outcome = kit.run()
    # What all tables have is not told of again.
    assert (outcome.summary.batches, outcome.summary.failures) == (point != "before_spark_commit", 0)
    assert_whole(kit, SECOND if decided else "4")


def test_errors_are_survived_within_the_run(kit: PipelineKit, fail_at: Callable[..., None]) -> None:
    kit.configured(supervisor={"failures": {"max": len(POINTS), "first_wait_seconds": 0}})
    send_first(kit)
    kit.run()
    send_second(kit)
    fail_at(*(f"{point}:{SECOND}" for point in POINTS))
    outcome = kit.run()
    assert (outcome.summary.batches, outcome.summary.failures) == (1, len(POINTS))
    assert_whole(kit)
    attempts = {row["batch_id"]: row["attempts"] for row in kit.rows("ledger_batches").to_pylist()}
    assert attempts == {1: 1, 3: 3}, "begun again twice before it was decided"


# One that Spark's own repetition of a task cures is below; a JVM a point.
@pytest.mark.heavy
@pytest.mark.parametrize("point", ["amid_file", "before_report"])
def test_a_worker_that_is_killed_ends_a_run_that_repeats_no_task_and_the_next_one_is_whole(
    kit: PipelineKit, point: str
) -> None:
    kit.configured(spark={"master": "local[2,1]"})
    send_first(kit)
    kit.run()
    send_second(kit)
    killed = kit.run_apart(f"{point}:{SECOND}=kill")
    assert killed.returncode == 1, killed.stderr
    assert "Traceback" not in killed.stderr
    kit.run()
    assert_whole(kit, "4")


# Lighter: test_a_killed_run_is_brought_to_its_end kills all of it.
@pytest.mark.heavy
def test_a_worker_that_is_killed_costs_a_task_and_no_record(kit: PipelineKit) -> None:
    send_first(kit)
    done = kit.run_apart("amid_file:1=kill,before_report:1=kill")
    assert done.returncode == 0, done.stderr
    kit.assert_clean()
    assert kit.unnamed_files() == set()


# The first batch at every point; the errors above are a second batch's, at every point, too.
@pytest.mark.heavy
def test_the_very_first_batch_is_brought_to_its_end(kit: PipelineKit, fail_at: Callable[..., None]) -> None:
    send_first(kit)
    for point in POINTS:
        fail_at(point)
        with pytest.raises(BudgetSpent, match=f"failpoint {point}"):
            kit.run()
    fail_at()
    outcome = kit.run()
    assert (outcome.summary.batches, outcome.summary.failures) == (0, 0), "the run before had finished it"
    kit.assert_clean()
    assert kit.unnamed_files() == set()
    # Each run that died before a manifest left its start in the log, the one that died after it, too.
    assert batches_in(kit, "ledger_batches") == [str(POINTS.index("after_manifest") + 1)]


def test_a_run_with_nothing_to_do_changes_nothing_and_files_lost_after_a_manifest_are_written_again(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    send_first(kit)
    kit.run()
    versions, ledger = kit.versions(), kit.rows("ledger_batches")
    assert kit.run().summary.batches == 0
    assert kit.versions() == versions
    assert kit.rows("ledger_batches") == ledger

    send_second(kit)
    # Behind the start of the run that had nothing to do, and its own.
    later = "4"
    fail_at(f"after_manifest:{later}")
    with pytest.raises(BudgetSpent, match="failpoint"):
        kit.run()
    fail_at()
    manifest = kit.manifests.read(int(later))
    assert manifest is not None
    lost = [table for table in manifest.tables if table.folder in (kit.folder_of(0), "quarantine")]
    assert len(lost) == 2
    for table in lost:
        kit.lake.root.delete(f"{table.folder}/{file.name}" for file in table.files)
    kit.run()
    assert_whole(kit, later)


# All files of a table lost: above; dying twice in one batch: test_the_very_first_batch_is_brought_to_its_end.
@pytest.mark.heavy
def test_half_of_a_tables_files_lost_after_the_manifest(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    send_first(kit)
    kit.run()
    send_second(kit)
    fail_at(f"after_manifest:{SECOND}")
    with pytest.raises(BudgetSpent, match="failpoint"):
        kit.run()
    manifest = kit.manifests.read(int(SECOND))
    assert manifest is not None
    table = next(table for table in manifest.tables if len(table.files) > 1)
    kit.lake.root.delete([f"{table.folder}/{table.files[0].name}"])
    # Dying again after the files are written anew loses nothing either.
    fail_at(f"between_commits:{SECOND}")
    with pytest.raises(BudgetSpent, match="failpoint"):
        kit.run()
    fail_at()
    kit.run()
    assert_whole(kit)


def test_a_lost_file_of_the_ledger_waits_for_a_decision(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    send_first(kit)
    fail_at(f"after_manifest:{FIRST}")
    with pytest.raises(BudgetSpent, match="failpoint"):
        kit.run()
    fail_at()
    manifest = kit.manifests.read(int(FIRST))
    assert manifest is not None
    (table,) = [table for table in manifest.tables if table.role == "changes"]
    kit.lake.root.delete([f"{table.folder}/{table.files[0].name}"])
    with pytest.raises(
        CommitImpossible, match=r"ledger_changes cannot take its files of batch 1: file .* is gone"
    ):
        kit.run()
    resolve(kit.settings, "ledger_changes", "skip")
    kit.run()
    kit.assert_clean()
