"""A table dropped or altered by hand after its files were decided: the run stops and waits for `resolve`."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.errors import BudgetSpent, CommitImpossible, ConfigError, LeaseHeld
from distributary.ingest.resolve import Choice, resolve, stuck_tables

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.folder]


def drop(kit: PipelineKit, table: str) -> None:
    shutil.rmtree(kit.root / table)


def replace_by_another(kit: PipelineKit, table: str) -> None:
    drop(kit, table)
    write_deltalake(kit.root / table, pa.table({"level": pa.array(["high"])}))


@pytest.fixture
def decided(kit: PipelineKit, fail_at: Callable[..., None]) -> PipelineKit:
    """A pipeline whose second batch has its manifest, and no commit yet."""
    kit.simulate(corrupt=0.05)
    kit.run()
    kit.simulate(corrupt=0.05)
    fail_at("after_manifest:3")
    with pytest.raises(BudgetSpent, match="failpoint"):
        kit.run()
    fail_at()
    return kit


def rows_of_second_batch(kit: PipelineKit, table: str) -> int:
    manifest = kit.manifests.read(3)
    assert manifest is not None
    return manifest.counts.rows[table]


@pytest.mark.parametrize(
    ("harm", "choice"),
    [
        (drop, "recreate"),
        # To skip is decided below as well; another table is no more the one decided for than none is.
        pytest.param(drop, "skip", marks=pytest.mark.heavy),
        pytest.param(replace_by_another, "recreate", marks=pytest.mark.heavy),
    ],
)
def test_a_table_lost_by_hand_waits_for_a_decision(
    decided: PipelineKit, harm: Callable[[PipelineKit, str], None], choice: Choice
) -> None:
    kit, table = decided, decided.folder_of(1)
    harm(kit, table)

    for _ in range(2):  # it is not retried for ever, and starting again helps nothing
        with pytest.raises(CommitImpossible, match=rf"{table} cannot take its files of batch 3.*resolve"):
            kit.run()
    waiting = stuck_tables(kit.settings)
    assert [(one.batch_id, one.table, one.rows) for one in waiting] == [
        (3, table, rows_of_second_batch(kit, table))
    ]
    assert table in waiting[0].why
    with pytest.raises(ConfigError, match=f"does not wait for a decision; those that do: {table}"):
        resolve(kit.settings, "quarantine", choice)

    assert resolve(kit.settings, table, choice) == waiting[0]
    outcome = kit.run()
    assert (outcome.summary.batches, outcome.summary.failures) == (1, 0)
    assert stuck_tables(kit.settings) == []

    kit.simulate()  # and the pipeline goes on with the next batch
    kit.run()
    third = kit.manifests.last()
    assert third is not None
    kept = rows_of_second_batch(kit, table) if choice == "recreate" else 0
    assert kit.rows(table).num_rows == kept + third.counts.rows[table]
    # What the user took away is missing, and nothing else is wrong.
    differences = kit.verify().differences
    assert {one.kind for one in differences} == {"rows_missing", "record_lost", "ledger_rows"}
    assert all(table in one.where for one in differences if one.kind == "rows_missing")


def test_a_table_that_got_a_condition_which_all_rows_meet_stops_nothing(decided: PipelineKit) -> None:
    kit, table = decided, decided.folder_of(1)
    kit.delta(table).alter.add_constraint({"offsets": "kafka_offset >= 0"})
    assert kit.run().summary.failures == 0
    assert stuck_tables(kit.settings) == []
    kit.assert_clean()
    assert kit.unnamed_files() == set()


# One table waits and is decided above.
@pytest.mark.heavy
def test_several_tables_wait_and_are_decided_one_by_one(decided: PipelineKit) -> None:
    kit = decided
    lost = sorted(kit.folder_of(number) for number in (0, 2))
    for table in lost:
        drop(kit, table)
    with pytest.raises(CommitImpossible):
        kit.run()
    assert sorted(one.table for one in stuck_tables(kit.settings)) == lost
    resolve(kit.settings, lost[0], "recreate")
    resolve(kit.settings, lost[1], "skip")
    assert kit.run().summary.batches == 1
    assert kit.rows(lost[0]).num_rows == rows_of_second_batch(kit, lost[0])
    assert kit.rows(lost[1]).num_rows == 0
    assert stuck_tables(kit.settings) == []


# Lighter: test_nothing_is_decided_while_a_run_is_alive (tests/ingest/test_resolve.py).
@pytest.mark.heavy
def test_nobody_decides_while_a_run_is_alive(kit: PipelineKit) -> None:
    kit.simulate(games=1, events=20)
    with kit.running() as running:
        running.wait_for(kit.truth.records)
        with pytest.raises(LeaseHeld):
            resolve(kit.settings, kit.folder_of(0), "skip")


# Lighter: test_a_batch_that_came_to_its_end_is_stuck_no_more (tests/ingest/test_resolve.py), and whatever comes to its end above.
@pytest.mark.heavy
def test_nothing_waits_in_a_healthy_pipeline(kit: PipelineKit) -> None:
    assert stuck_tables(kit.settings) == []
    kit.simulate(games=1, events=20)
    kit.run()
    assert stuck_tables(kit.settings) == []
