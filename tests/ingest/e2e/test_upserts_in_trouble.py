"""Tables with one row a key where something is lost, in the way, or not where it was: the topic still says what each key has."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest
from tests.ingest.e2e.keyed import Keyed, counted, held, newest, rows_of
from tests.ingest.e2e.pipeline_kit import PATIENCE_SECONDS, PipelineKit
from tests.ingest.e2e.test_fenced import stopped
from tests.ingest.e2e.test_upserts import (
    BY_FIELD,
    BY_KEY,
    assert_current,
    by_time,
    has_key_and_time,
)

from distributary.errors import BudgetSpent, CommitImpossible
from distributary.ingest.tables.state_by_spark import path_for_spark
from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack]


# Lighter: lost files are in test_crashes.py, rows that are brought together in test_brought_together.py, merges that fail in test_upserts.py.
@pytest.mark.heavy
def test_lost_files_are_written_again_and_merged_where_rows_are_brought_together(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    keyed = Keyed(kit).configured(BY_FIELD, limits={"batch_files": 2})
    keyed.send(40)
    kit.run()
    keyed.send(40, level=3)
    fail_at("after_manifest:3")
    with pytest.raises(BudgetSpent, match="failpoint"):
        kit.run()
    fail_at()
    decided = kit.manifests.read(3)
    assert decided is not None
    lost = decided.table("go")
    assert lost.merging is not None
    kit.lake.root.delete(f"go/{file.name}" for file in lost.files)
    # What the settings say by now of how rows land is for the batches to come.
    kit.run()
    assert_current(kit, BY_FIELD)
    assert kit.unnamed_files() == set()


# A table that each row is added to is parked and brought in the same way in `make test`.
@pytest.mark.heavy
@pytest.mark.folder
def test_a_table_that_only_spark_can_add_to_is_parked_and_gets_what_waited_in_order(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    keyed = Keyed(kit).configured(BY_FIELD, policies={"stuck_table": "park"})
    keyed.send(40)
    kit.run()
    keyed.send(40)
    fail_at("after_manifest:3")
    with pytest.raises(BudgetSpent, match="failpoint"):
        kit.run()
    fail_at()
    table = f"delta.`{path_for_spark(kit.lake.root.below('go'))}`"
    kit.spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT some CHECK (score < 5000)")
    assert kit.run().parked == {"go": 1}
    keyed.send(40)
    assert kit.run().parked == {"go": 2}
    kit.spark.sql(f"ALTER TABLE {table} DROP CONSTRAINT some")
    # It keeps the feature, which is harmless without a constraint.
    keyed.send(40)
    assert not kit.run().parked
    expected = newest(kit, by_time, has_key_and_time)
    assert held(kit) == {key: kept.position for key, kept in expected.items()}
    found = verify(kit.settings).differences
    assert not found, "\n".join(map(str, found))


def test_a_known_key_in_another_partition_stops_the_run_until_the_settings_say_what_orders_it(
    kit: PipelineKit,
) -> None:
    keyed = Keyed(kit).configured(BY_KEY)
    body = {"game": "go", "player": 1, "score": 1, "at": 1}
    for player in (0, 1):
        keyed.send_one(player, body)
    kit.run()
    kit.send([b'{"game": "go", "player": {"id": 0}, "score": 2, "at": 0}'], key=b"p0", partition=1)
    with pytest.raises(CommitImpossible, match="on_repartition"):
        kit.run()
    assert len(rows_of(kit, "go")) == 2
    keyed.configured({**BY_KEY, "on_repartition": "timestamp"})
    kit.run()
    assert {row["player"]["id"]: row["score"] for row in rows_of(kit, "go")} == {0: 2, 1: 1}
    assert counted(kit)["updated"] == 1


def test_a_new_checkpoint_goes_on_from_tables_that_are_half_way_through_a_batch(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    keyed = Keyed(kit).configured(BY_FIELD, limits={"commit_threads": 1})
    keyed.send(40)
    kit.run()
    keyed.send(40)
    fail_at("between_commits:3")
    with pytest.raises(BudgetSpent, match="failpoint"):
        kit.run()
    fail_at()
    kit.configured(checkpoint="./checkpoints/another", start="from_tables")
    keyed.send(40)
    kit.run()
    expected = newest(kit, by_time, has_key_and_time)
    assert held(kit) == {key: kept.position for key, kept in expected.items()}
    found = verify(kit.settings).differences
    assert not found, "\n".join(map(str, found))


# Python imports a module of this name as it begins: another version of the program, whose ledger has other bytes of the same rows.
ANOTHER_VERSION = """
import pyarrow.parquet as pq

write = pq.ParquetWriter.__init__


def otherwise(*given, **named):
    write(*given, **{**named, "use_dictionary": False, "compression": "none"})


pq.ParquetWriter.__init__ = otherwise
"""


# Runs whose rows are added wake in test_fenced.py and test_owners.py; the bytes alone are in tests/ingest/tables/test_ledger.py.
@pytest.mark.heavy
@pytest.mark.parametrize(
    ("point", "taken"),
    [
        ("before_manifest", "from_tables"),
        ("amid_merge", "over"),
        ("between_commits", "from_tables"),
        ("before_ledger", "over"),
    ],
)
def test_a_run_that_merges_and_wakes_after_another_took_its_tables_stops_by_name(
    kit: PipelineKit, point: str, taken: str
) -> None:
    keyed = Keyed(kit).configured(BY_FIELD, limits={"commit_threads": 1, "batch_rows": 25})
    keyed.send(20)
    kit.run()
    keyed.send(60)
    (kit.folder / "version").mkdir()
    (kit.folder / "version" / "sitecustomize.py").write_text(ANOTHER_VERSION)
    with stopped(kit, f"{point}:3", PYTHONPATH=str(kit.folder / "version")) as zombie:
        if taken == "from_tables":
            kit.configured(checkpoint="./checkpoints/second", start="from_tables")
        kit.run()
        expected = newest(kit, by_time, has_key_and_time)
        assert held(kit) == {key: kept.position for key, kept in expected.items()}
        versions, told = kit.versions(), counted(kit)
        assert kit.unnamed_files() == set()
        os.kill(zombie.pid, signal.SIGCONT)
        _, said = zombie.communicate(timeout=PATIENCE_SECONDS)
    assert zombie.returncode == 1, said
    by = "another run (pid" if taken == "over" else "were handed over to pipeline 'games' (log "
    assert by in said and "it ends here, and nothing is lost or twice" in said
    assert "Traceback" not in said
    # What it wrote once more of the ledger is as the table's log has it.
    assert (kit.versions(), counted(kit)) == (versions, told)
    keyed.send(20)
    kit.run()
    expected = newest(kit, by_time, has_key_and_time)
    assert held(kit) == {key: kept.position for key, kept in expected.items()}
    found = verify(kit.settings).differences
    assert not found, "\n".join(map(str, found))
    if taken == "over":
        # Where its log is shut for good nobody but upkeep looks for what it wrote for a batch that it could not decide.
        assert kit.unnamed_files() == set()
