"""A checkpoint whose files, topic or settings are not what they were: the run stops and names what is wrong."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.errors import CheckpointMismatch, LeaseHeld
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.commit_log.entry_json import FORMAT
from distributary.ingest.commit_log.reading import entry_path
from distributary.ingest.progress import Silent
from distributary.producer_sim.demo.background_run import BackgroundRun
from distributary.producer_sim.stack.local import LocalStack

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.folder]


@pytest.fixture(scope="module")
def done(
    tmp_path_factory: pytest.TempPathFactory, stack: LocalStack, spark: SparkSession
) -> Iterator[PipelineKit]:
    """A pipeline that has finished two batches."""
    kit = PipelineKit(tmp_path_factory.mktemp("refusals"), "refusals", stack, spark)
    for _ in range(2):
        kit.simulate(games=1, events=50)
        kit.run()
    yield kit
    # Put back, it goes on as if nothing had been.
    kit.simulate(games=1, events=50)
    kit.run()
    kit.assert_clean()


@pytest.fixture
def copy(done: PipelineKit) -> Iterator[PipelineKit]:
    """The same pipeline with a copy of its checkpoint, to do with as a test likes."""
    original, versions = done.checkpoint_folder, done.versions()
    aside = original.with_name("aside")
    shutil.copytree(original, aside)
    try:
        yield done
        assert done.versions() == versions
    finally:
        shutil.rmtree(original)
        aside.rename(original)


def entry(checkpoint: Checkpoint, number: int) -> Path:
    return Path(str(checkpoint)) / entry_path(number)


def put_back(checkpoint: Checkpoint) -> None:
    """The log as it was before the second run, as from an older copy."""
    for number in (2, 3):
        entry(checkpoint, number).unlink()


# Two runs: a start and a batch each.
DAMAGES: dict[str, tuple[Callable[[Checkpoint], object], str]] = {
    "a batch is gone": (lambda it: entry(it, 1).unlink(), r"log/0000000001\.json is gone: files were lost"),
    "the log is gone": (
        lambda it: shutil.rmtree(it.folder / "log"),
        r"have batch 3, and the log in .* knows no batch: the checkpoint was put back from an older copy",
    ),
    "the log is an older one": (
        put_back,
        r"have batch 3, and the log in .* knows batch 1 as the newest one: the checkpoint was put back",
    ),
    "the generation is gone": (
        lambda it: (it.folder / "generation.json").unlink(),
        r"generation\.json is gone, though batches were decided; restore it",
    ),
    "a cut entry": (
        lambda it: entry(it, 3).write_text("{"),
        r"log/0000000003\.json was cut off or edited",
    ),
    "a newer format": (
        lambda it: entry(it, 3).write_text(json.dumps({"format": FORMAT + 1})),
        rf"log/0000000003\.json has format {FORMAT + 1}, and this version of distributary reads up to {FORMAT}",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_noticed_and_named(copy: PipelineKit, damage: str) -> None:
    harm, message = DAMAGES[damage]
    harm(copy.checkpoint)
    with pytest.raises(CheckpointMismatch, match=message):
        copy.run()


def test_another_route_is_refused(copy: PipelineKit) -> None:
    table = copy.settings.route.table
    copy.configured(route={"table": "bronze_{entity}"})
    with pytest.raises(CheckpointMismatch, match=r'route\.table was "silver_.*" and is "bronze_'):
        copy.run()
    copy.configured(route={"table": table})


def test_a_topic_made_anew_is_noticed(kit: PipelineKit, admin: AdminClient) -> None:
    kit.simulate(games=1, events=50)
    kit.run()
    versions = kit.versions()
    admin.delete_topics([kit.topic])[kit.topic].result(30)
    admin.create_topics([NewTopic(kit.topic, num_partitions=2)])[kit.topic].result(30)
    with pytest.raises(CheckpointMismatch, match=f"topic '{kit.topic}' was made anew"):
        kit.run()
    assert kit.versions() == versions


class Remade(Silent):
    """Holds the run after its first batch until its topic was made anew, and holds as many records as before."""

    def __init__(self, kit: PipelineKit, admin: AdminClient) -> None:
        self._kit, self._admin, self._done = kit, admin, False

    def batch_done(self, *batch: Any) -> None:
        if self._done:
            return
        self._done = True
        topic = self._kit.topic
        self._admin.delete_topics([topic])[topic].result(30)
        self._admin.create_topics([NewTopic(topic, num_partitions=2)])[topic].result(30)
        self._kit.simulate(games=1, events=400)


def test_a_topic_made_anew_while_the_pipeline_runs_is_noticed_before_anything_of_it_is_decided(
    kit: PipelineKit, admin: AdminClient
) -> None:
    # Where Spark sees fewer records than it has read, it says so itself, and the next query asks who the topic is.
    kit.configured(supervisor={"failures": {"max": 3, "first_wait_seconds": 0}})
    kit.simulate(games=1, events=50)
    running = kit.running(Remade(kit, admin))
    with pytest.raises(CheckpointMismatch, match=f"topic '{kit.topic}' was made anew"), running as run:
        run.wait_for(51)
    assert kit.manifests.last_batch() == 1
    assert sum(row["rows_read"] for row in kit.rows("ledger_batches").to_pylist()) == 50


def test_a_second_run_on_the_same_checkpoint_stops(kit: PipelineKit) -> None:
    kit.simulate(games=1, events=50)
    with kit.running() as first:
        first.wait_for(kit.truth.records)
        with pytest.raises(LeaseHeld, match=r"is held by pid \d+ on .*pipeline games"):
            BackgroundRun(kit.settings, kit.spark).__enter__().wait_until_started()
        # The first one goes on undisturbed.
        kit.simulate(games=1, events=50)
        first.wait_for(kit.truth.records)
    kit.assert_clean()


# A JVM for two sentences: another process is kept out in tests/ingest/lease/test_folder_lock.py, what the command line makes of
# such an error is in tests/cli/test_cli.py.
@pytest.mark.heavy
def test_a_second_run_of_another_process_stops(kit: PipelineKit) -> None:
    kit.simulate(games=1, events=50)
    with kit.running() as first:
        first.wait_for(kit.truth.records)
        apart = kit.run_apart()
        assert apart.returncode == 1
        assert "is held by pid" in apart.stderr
        assert "Traceback" not in apart.stderr
    kit.assert_clean()
