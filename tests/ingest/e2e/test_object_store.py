"""Tables in S3, the checkpoint in a folder: evolved, crashed amid their commits and brought to their end, and no secret told."""

from __future__ import annotations

import signal
import time
import uuid
from collections.abc import Callable

import pytest
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import SparkSession
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.planted import holding, said
from tests.ingest.storage.stores import Store

from distributary.errors import ConfigError, LeaseHeld, SetupError
from distributary.ingest.checkpoint.folder import ASIDE
from distributary.ingest.checkpoint.generation import read_generation
from distributary.ingest.inputs.opening import open_source
from distributary.ingest.lease.heartbeat import BEAT_SECONDS, MISSED
from distributary.ingest.pipeline import _ASKED, open_pipeline
from distributary.ingest.resolve import resolve, stuck_tables
from distributary.registry.confluent.registry import ConfluentRegistry

pytestmark = [pytest.mark.spark, pytest.mark.stack]

PLANTED = "planted-3f9a"


@pytest.fixture
def kit(kit: PipelineKit, s3_store: Store, monkeypatch: pytest.MonkeyPatch) -> PipelineKit:
    """The pipeline with its tables in S3, its checkpoint in a folder; its tests are skipped where there is none."""
    monkeypatch.setenv("S3_SECRET", PLANTED)
    return kit.in_store(s3_store, checkpoint=False)


# In a folder they are in test_evolution.py and in test_crashes.py.
@pytest.mark.heavy
@pytest.mark.parametrize(("name", "mode"), [("protobuf", "restart"), ("json", "inline")])
def test_tables_evolve_and_a_batch_that_died_amid_its_commits_is_brought_to_its_end(
    kit: PipelineKit, name: str, mode: str
) -> None:
    kit.configured(decode={"format": name, "evolution": mode}, limits={"commit_threads": 1})
    kit.simulate(1, format=name, corrupt=0.05, tombstones=0.02)
    kit.run()
    assert list((kit.checkpoint_folder / ASIDE).iterdir()) == [], "rows wait beside the tables"
    before = kit.versions()
    kit.simulate(2, games=4, format=name, corrupt=0.05, tombstones=0.02, old_producers=0.3)

    killed = kit.run_apart("between_commits:3=kill")

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert kit.manifests.last_batch() == 3
    kit.run()
    kit.assert_clean()
    assert kit.unnamed_files() == set()
    assert set(before) < set(kit.versions())
    columns = {field.name for field in kit.delta(kit.folder_of(0)).schema().fields}
    assert "season" in columns
    assert holding(PLANTED, kit.folder) == []
    assert PLANTED not in killed.stdout + killed.stderr


# Sweeping in a store is in tests/ingest/tables/test_in_stores.py, a whole run's in test_crashes.py.
@pytest.mark.heavy
def test_files_of_an_attempt_that_died_before_its_manifest_are_swept(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    kit.configured(supervisor={"failures": {"max": 1, "first_wait_seconds": 0}})
    kit.simulate(1)
    fail_at("before_manifest:1")
    outcome = kit.run()
    assert (outcome.summary.batches, outcome.summary.failures) == (1, 1)
    kit.assert_clean()
    assert kit.unnamed_files() == set()


# From a folder in test_new_checkpoint.py; what is read of tables is read by delta-rs and by the seam alone.
@pytest.mark.heavy
def test_a_new_checkpoint_goes_on_from_what_the_tables_keep(kit: PipelineKit) -> None:
    kit.simulate(1)
    kit.run()
    kit.configured(checkpoint="./anew", start="from_tables")
    kit.simulate(2)
    kit.run()
    kit.assert_clean()


def test_a_checkpoint_and_inferred_schemas_are_in_a_store_too(kit: PipelineKit, s3_store: Store) -> None:
    kit.configured(checkpoint=f"{s3_store.url}/{uuid.uuid4().hex}")
    kit.configured(decode={"format": "json", "evolution": "inline", "schema_per": "entity"})
    for version in (1, 2):
        kit.simulate(version, format="json")
        kit.run()
    kit.assert_clean()
    names = [name for folder in kit.schemas.folders() for name in kit.schemas.names(folder)]
    assert "1.json" in names
    assert all(row["requests"] > row["files"] for row in kit.rows("ledger_batches").to_pylist())
    assert not {"schemas", "checkpoint"} & {path.name for path in kit.folder.iterdir()}


class Refusing:
    """The lease of a pipeline that runs elsewhere, as one finds out after a while."""

    def look(self) -> None:
        raise AssertionError("it was looked for before")

    def acquire(self, holder: bytes) -> bool:
        return False

    def holder(self) -> bytes:
        raise FileNotFoundError

    def release(self) -> None:
        raise AssertionError("it was never held")


@pytest.mark.parametrize("watched", [True, False], ids=["in_a_store", "in_a_folder"])
def test_workers_get_ready_while_a_lease_is_watched_and_not_where_its_locks_tell_at_once(
    kit: PipelineKit, s3_store: Store, spark: SparkSession, watched: bool
) -> None:
    if watched:
        kit.configured(checkpoint=f"{s3_store.url}/{uuid.uuid4().hex}")
    kit.simulate(1)
    spark.conf.unset(_ASKED)
    settings, keeper = kit.settings, Refusing()
    with (
        open_source(settings, spark) as kafka,
        ConfluentRegistry(settings.registry) as registry,
        pytest.raises(LeaseHeld),
        open_pipeline(settings, spark, registry, kafka, keeper),
    ):
        pass
    assert spark.conf.get(_ASKED, "") == ("true" if watched else "")


def test_a_table_that_is_stuck_is_not_put_aside_where_nothing_can_be_renamed(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    kit.simulate(1)
    kit.run()
    table, root = kit.folder_of(0), kit.lake.root
    kit.simulate(1)
    fail_at("after_manifest:3")
    with pytest.raises(Exception, match="after_manifest"):
        kit.run()
    fail_at()
    moved = [info.path for info in root.list(f"{table}/_delta_log")]
    kept = {path: root.read(path) for path in moved}
    root.delete(moved)
    with pytest.raises(Exception, match=table):
        kit.run()
    assert [one.table for one in stuck_tables(kit.settings)] == [table]
    for path, content in kept.items():
        root.put(path, content)
    with pytest.raises(ConfigError, match=r"move .* away, or delete it"):
        resolve(kit.settings, table, "recreate")
    root.delete(moved)
    with pytest.raises(TableNotFoundError):
        kit.delta(table)
    resolve(kit.settings, table, "recreate")
    kit.run()
    assert kit.delta(table).version() > 0


def test_a_bucket_that_is_not_there_is_told_before_anything_is_read(kit: PipelineKit) -> None:
    kit.simulate(1)
    kit.configured(sink={"root": "s3://nowhere-at-all/lake"}, storage={"http": {"retry_seconds": 0}})
    with pytest.raises(SetupError, match="s3://nowhere-at-all/lake cannot be used"):
        kit.run()
    assert read_generation(kit.checkpoint) is None


def told_by_spark(kit: PipelineKit) -> list[str]:
    """What Spark shows of itself, where that holds the secret."""
    context = kit.spark.sparkContext
    shown = [str(kit.spark.conf.getAll), str(context.getConf().getAll()), str(kit.spark.sql("SET").collect())]
    return [text for text in shown if PLANTED in text]


# That a run writes no secret is in the first of these tests, that settings show none in test_model.py.
@pytest.mark.heavy
def test_a_secret_of_the_store_is_told_nowhere(kit: PipelineKit, capfd: pytest.CaptureFixture[str]) -> None:
    kit.simulate(1)
    kit.run()
    file = str(kit.settings_file)
    outputs = [said(kit, *one)[1] for one in (("plan", file), ("plan", file, "--json"), ("verify", file))]
    outputs += [said(kit, "settings", "check", file, "--json")[1], repr(kit.settings), str(kit.lake)]
    kit.configured(sink={"root": "s3://nowhere-at-all/lake"}, storage={"http": {"retry_seconds": 0}})
    outputs.append(said(kit, "--debug", "run", str(kit.settings_file), "--available-now")[1])
    assert all(outputs)
    assert [text for text in outputs if PLANTED in text] == []
    assert told_by_spark(kit) == []
    assert holding(PLANTED, kit.folder) == []
    assert PLANTED not in "".join(capfd.readouterr())


# A checkpoint in a store is above; who waits for whom is in tests/ingest/lease/test_heartbeat.py, what a killed run left in test_crashes.py.
@pytest.mark.heavy
def test_a_killed_run_with_its_checkpoint_in_a_store_is_followed_in_time(
    kit: PipelineKit, s3_store: Store
) -> None:
    kit.configured(checkpoint=f"{s3_store.url}/{uuid.uuid4().hex}", limits={"commit_threads": 1})
    kit.simulate(1, corrupt=0.05)
    kit.run()
    kit.simulate(2, games=4, corrupt=0.05)
    assert kit.run_apart("between_commits:3=kill").returncode == -signal.SIGKILL
    started = time.monotonic()
    kit.run()
    assert time.monotonic() - started > BEAT_SECONDS * (MISSED - 1), "it did not look whether somebody lives"
    kit.assert_clean()
    assert kit.unnamed_files() == set()
    assert holding(PLANTED, kit.folder) == []
