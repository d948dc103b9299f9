"""A table that cannot take a batch's files is parked: the others go on, and it gets all that waited, once, in order."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession
from tests.ingest.e2e.handmade import column, registered, registered_beside
from tests.ingest.e2e.pipeline_kit import PATIENCE_SECONDS, PipelineKit
from tests.ingest.e2e.planted import said_here
from tests.ingest.e2e.test_wider_columns import BIG, WIDER, by_spark

from distributary.errors import BudgetSpent, CommitImpossible, PipelineError
from distributary.ingest import failpoints
from distributary.ingest.failpoints import AFTER_MANIFEST
from distributary.ingest.log_paths import entry_path
from distributary.ingest.progress import Silent
from distributary.ingest.rebuild.silver import replay
from distributary.ingest.replay.work import Work
from distributary.ingest.resolve import resolve, stuck_tables
from distributary.ingest.table_versions import versions_at
from distributary.producer_sim.verify.comparison import Beside, compare, verify

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.folder]


def spoil(kit: PipelineKit, table: str) -> None:
    """Give a table another schema, in which no file of the pipeline's fits; its files stay."""
    other = pa.table({"level": pa.array(["high"])})
    write_deltalake(kit.root / table, other, mode="overwrite", schema_mode="overwrite")


def mend(kit: PipelineKit, table: str) -> None:
    """Put a table back to what it was before it was spoiled."""
    kit.delta(table).restore(kit.delta(table).version() - 1)


class Told(Silent):
    def __init__(self) -> None:
        self.notices: list[str] = []

    def waiting(self, reason: str, seconds: float) -> None:
        self.notices.append(reason)


@pytest.fixture
def parked(kit: PipelineKit, fail_at: Callable[..., None]) -> PipelineKit:
    """A pipeline whose second batch waits for the second game's table, and whose third one waits behind it."""
    kit.configured(policies={"stuck_table": "park"})
    kit.simulate()
    kit.run()
    kit.simulate()
    fail_at("after_manifest:3")
    with pytest.raises(BudgetSpent, match="failpoint"):
        kit.run()
    fail_at()
    table = kit.folder_of(1)
    spoil(kit, table)

    first = kit.run()
    assert first.parked == {table: 1}
    kit.simulate(2, games=3)
    told = Told()
    second = kit.run(told)
    assert (second.summary.failures, second.parked) == (0, {table: 2})
    assert any(f"table {table} is parked since batch 3, 2 of its batches wait" in one for one in told.notices)
    return kit


def test_no_more_wait_than_the_settings_let_and_a_table_that_was_put_right_gets_all_in_order(
    parked: PipelineKit,
) -> None:
    kit, table = parked, parked.folder_of(1)
    waiting = stuck_tables(kit.settings)
    assert [(one.batch_id, one.table) for one in waiting] == [(3, table), (7, table)]
    assert "cannot take its files of batch 3" in waiting[0].why
    assert versions_at(kit.settings)[table].waits == 2
    told = said_here("versions", str(kit.settings_file))[1]
    assert f"{table}: version {versions_at(kit.settings)[table].version}; 2 batches wait" in told
    found = compare(kit.lake, None, None, Beside(kit.checkpoint)).differences
    assert {"table_parked", "ledger_rows"} <= {one.kind for one in found}

    kit.configured(policies={"parked_batches": 5})
    kit.simulate(2, games=3)
    before = kit.manifests.last_batch()
    with pytest.raises(
        CommitImpossible, match=rf"table {table} is parked since batch 3, .*parked_batches \(5\)"
    ):
        kit.run()
    assert kit.manifests.last_batch() == before
    kit.configured(policies={"stuck_table": "stop", "parked_batches": 1000})
    with pytest.raises(CommitImpossible, match=f"{table} cannot take"):
        kit.run()

    kit.configured(policies={"stuck_table": "park"})
    mend(kit, table)
    outcome = kit.run()
    assert (outcome.parked, outcome.summary.failures) == ({}, 0)
    assert stuck_tables(kit.settings) == []
    kit.assert_clean()
    assert kit.unnamed_files() == set()
    # And it goes on as if nothing had been.
    kit.simulate(2, games=3)
    assert kit.run().parked == {}
    kit.assert_clean()


# The moments of this are thrown in tests/ingest/batch/test_parked_at_random.py.
@pytest.mark.heavy
def test_a_crash_while_what_waited_is_brought_in_doubles_nothing(
    parked: PipelineKit, fail_at: Callable[..., None]
) -> None:
    kit, table = parked, parked.folder_of(1)
    mend(kit, table)
    for point in ("between_commits:3", "between_commits:7"):
        fail_at(point)
        with pytest.raises(BudgetSpent, match="failpoint"):
            kit.run()
    fail_at()
    assert kit.run().parked == {}
    kit.assert_clean()


# That a replay knows by then what is parked is shown in tests/ingest/replay/test_beside.py.
@pytest.mark.heavy
def test_a_replay_beside_a_run_that_parks_a_table_just_then_brings_nothing_that_waits(
    kit: PipelineKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit.configured(bronze={}, policies={"stuck_table": "park"})
    schema, table = registered(kit), kit.folder_of("chess")
    kit.send([schema.value(game=game, level=1) for game in ("chess", "go")])
    decided, opened, begun = threading.Event(), threading.Event(), Work.finish_begun
    reach = failpoints.reach

    def stands(point: str, number: int) -> None:
        reach(point, number)
        if point == AFTER_MANIFEST and not decided.is_set():
            spoil(kit, table)
            decided.set()
            assert opened.wait(PATIENCE_SECONDS)

    with kit.running() as going:
        going.wait_for(2)
        monkeypatch.setattr(failpoints, "reach", stands)
        kit.send([schema.value(game=game, level=2) for game in ("chess", "go")])
        assert decided.wait(PATIENCE_SECONDS)

        def parked_meanwhile(work: Work) -> Any:
            opened.set()
            going.wait_for(4)
            mend(kit, table)
            return begun(work)

        monkeypatch.setattr(Work, "finish_begun", parked_meanwhile)
        with pytest.raises(CommitImpossible, match="parked"):
            replay(kit.settings, spark=kit.spark)
    kit.configured(trigger={"available_now": True})
    assert kit.run().parked == {}
    assert column(kit, "chess", "level") == [1, 2]
    assert not verify(kit.settings).differences


# What is parked and brought in is the first test's, and batch/test_parking.py's.
@pytest.mark.heavy
def test_a_table_made_anew_gets_what_waited(parked: PipelineKit) -> None:
    kit, table = parked, parked.folder_of(1)
    rows = sum(one.rows for one in stuck_tables(kit.settings))
    assert resolve(kit.settings, table, "recreate").rows == rows
    assert kit.run().parked == {}
    assert kit.rows(table).num_rows == rows
    assert kit.unnamed_files() == set()


# Lighter: test_a_lost_file_of_the_ledger_waits_for_a_decision goes on without what was skipped, tests/ingest/test_resolve.py skips what is parked.
@pytest.mark.heavy
def test_a_table_goes_without_what_waited_where_that_is_decided(parked: PipelineKit) -> None:
    kit, table = parked, parked.folder_of(1)
    mend(kit, table)
    rows = kit.rows(table).num_rows
    resolve(kit.settings, table, "skip")
    assert kit.run().parked == {}
    assert kit.rows(table).num_rows == rows
    kit.simulate(2, games=3)
    kit.run()
    assert kit.rows(table).num_rows > rows


def test_a_new_checkpoint_brings_in_what_waited_in_the_one_before(parked: PipelineKit) -> None:
    kit, table = parked, parked.folder_of(1)
    kit.simulate(2, games=3)
    old = str(kit.checkpoint)
    kit.configured(checkpoint="./other", start="from_tables")
    with pytest.raises(CommitImpossible, match=rf"`checkpoint: {old}`"):
        kit.run()
    mend(kit, table)
    assert kit.run().parked == {}
    kit.assert_clean()
    assert kit.unnamed_files() == set()


# What is parked and brought in is the first test's, and batch/test_parking.py's.
@pytest.mark.heavy
def test_files_that_go_with_a_dropped_table_are_written_again_before_they_wait(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    kit.configured(policies={"stuck_table": "park"})
    kit.simulate()
    kit.run()
    kit.simulate()
    table = kit.folder_of(1)
    fail_at("after_manifest:3")
    with pytest.raises(BudgetSpent, match="failpoint"):
        kit.run()
    fail_at()
    shutil.rmtree(kit.root / table)
    assert kit.run().parked == {table: 1}
    (waits,) = stuck_tables(kit.settings)
    resolve(kit.settings, table, "recreate")
    assert kit.run().parked == {}
    assert kit.rows(table).num_rows == waits.rows


# What is parked and brought in is the first test's, and batch/test_parking.py's.
@pytest.mark.heavy
def test_a_table_that_is_dropped_in_the_moment_of_its_commit_is_parked_within_the_run(
    kit: PipelineKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = {"max": 1, "first_wait_seconds": 0}
    kit.configured(policies={"stuck_table": "park"}, supervisor={"failures": failures})
    kit.simulate()
    kit.run()
    kit.simulate()
    table = kit.folder_of(1)
    dropped: list[int] = []

    def drop(point: str, batch_id: int) -> None:
        if point == AFTER_MANIFEST and not dropped:
            dropped.append(batch_id)
            shutil.rmtree(kit.root / table)

    monkeypatch.setattr("distributary.ingest.failpoints.reach", drop)
    outcome = kit.run()
    assert (outcome.parked, outcome.summary.failures) == ({table: 1}, 1)
    (waits,) = stuck_tables(kit.settings)
    resolve(kit.settings, table, "recreate")
    kit.run()
    assert kit.rows(table).num_rows == waits.rows


# Lighter: test_no_more_wait_than_the_settings_let_and_a_table_that_was_put_right_gets_all_in_order brings in what waited.
@pytest.mark.heavy
def test_columns_that_became_wider_while_a_table_was_parked_do_so_when_it_gets_what_waited(
    kit: PipelineKit, spark: SparkSession, fail_at: Callable[..., None]
) -> None:
    narrow, wide = registered(kit), registered_beside(kit, WIDER)
    kit.configured(decode={"evolution": "inline"}, policies={"stuck_table": "park", "wider_type": "widen"})
    kit.send([narrow.value(game=game, level=1) for game in ("chess", "golf")])
    kit.run()
    kit.send([narrow.value(game=game, level=2) for game in ("chess", "golf")])
    fail_at("after_manifest:3")
    with pytest.raises(BudgetSpent, match="failpoint"):
        kit.run()
    fail_at()
    table = kit.folder_of("chess")
    spoil(kit, table)
    assert kit.run().parked == {table: 1}
    kit.send([wide.value(game=game, level=BIG, mood="glad") for game in ("chess", "golf")])
    assert kit.run().parked == {table: 2}
    mend(kit, table)
    assert kit.run().parked == {}
    for game in ("chess", "golf"):
        assert by_spark(kit, spark, game) == [(1, None), (2, None), (BIG, "glad")]
    assert kit.unnamed_files() == set()


# What a start does about it without Spark is told by batch/test_parked_at_work.py.
@pytest.mark.heavy
def test_a_parked_table_that_spark_cannot_read_either_keeps_only_itself(parked: PipelineKit) -> None:
    kit, table = parked, parked.folder_of(1)
    first = kit.root / table / "_delta_log" / f"{0:020d}.json"
    before = first.read_bytes()
    first.write_text("at work")
    kit.simulate(2, games=3)
    outcome = kit.run()
    assert (outcome.parked, outcome.summary.failures) == ({table: 3}, 0)
    first.write_bytes(before)
    mend(kit, table)
    assert kit.run().parked == {}
    kit.assert_clean()


# Lighter: tests/ingest/batch/test_unreadable.py meets such tables wherever, whenever and by whatever they may be met.
@pytest.mark.heavy
def test_tables_that_neither_delta_rs_nor_spark_can_open_keep_only_themselves(kit: PipelineKit) -> None:
    kit.simulate(games=3)
    kit.run()
    newer, broken = kit.folder_of(0), kit.folder_of(1)
    first = kit.root / broken / entry_path(0)
    entry = kit.root / newer / entry_path(kit.delta(newer).version() + 1)
    entry.write_text('{"protocol": {"minReaderVersion": 99, "minWriterVersion": 99}}\n')
    kit.simulate(games=3)
    failures = {"max": 1, "first_wait_seconds": 0}
    kit.configured(supervisor={"failures": failures})
    with pytest.raises(PipelineError, match=rf"table \S*{newer} cannot be opened.*stuck_table: park"):
        kit.run()
    before = first.read_bytes()
    first.write_text("at work")
    kit.configured(policies={"stuck_table": "park"})
    outcome = kit.run()
    # The newest that each has, and the one that came.
    assert (outcome.parked, outcome.summary.failures) == ({newer: 2, broken: 2}, 0)
    assert all("cannot be opened" in one.why for one in stuck_tables(kit.settings)[::2])
    entry.unlink()
    first.write_bytes(before)
    assert kit.run().parked == {}
    kit.assert_clean()
    assert kit.unnamed_files() == set()
