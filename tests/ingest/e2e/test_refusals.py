"""A checkpoint whose files, topic or settings are not what they were: the run stops and names what is wrong."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.errors import CheckpointMismatch, LeaseHeld
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.producer_sim.demo.background_run import BackgroundRun
from distributary.producer_sim.stack.local import LocalStack

pytestmark = [pytest.mark.spark, pytest.mark.stack]


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
    original, versions = done.checkpoint.folder, done.versions()
    aside = original.with_name("aside")
    shutil.copytree(original, aside)
    try:
        yield done
        assert done.versions() == versions
    finally:
        shutil.rmtree(original)
        aside.rename(original)


def edit_offset(path: Path, by: int) -> None:
    """Changes the offset of partition 0 in one of Spark's files."""
    *head, last = path.read_text(encoding="utf-8").splitlines()
    offsets = json.loads(last)
    for partitions in offsets.values():
        partitions["0"] += by
    path.write_text("\n".join([*head, json.dumps(offsets)]), encoding="utf-8")


def remove_all(*paths: Path) -> None:
    for path in paths:
        shutil.rmtree(path)


def remove_newest_with_commit(checkpoint: Checkpoint) -> None:
    (checkpoint.offsets / "1").unlink()
    (checkpoint.commits / "1").unlink()


DAMAGES: dict[str, tuple[Callable[[Checkpoint], object], str]] = {
    "the newest end is less": (
        lambda it: edit_offset(it.offsets / "1", -1),
        r"batch 1 was decided for other offsets.*refusals/0: \d+ to \d+ against",
    ),
    "the newest end is more": (
        lambda it: edit_offset(it.offsets / "1", 1),
        r"batch 1 was decided for other offsets.*refusals/0: \d+ to \d+ against",
    ),
    "the end before is less": (
        lambda it: edit_offset(it.offsets / "0", -1),
        r"batch 1 was decided for other offsets.*refusals/0: \d+ to \d+ against",
    ),
    "an end is before its start": (
        lambda it: edit_offset(it.offsets / "1", -1_000),
        r"batch 1: Spark's files say that refusals/0 starts at \d+ and ends at -\d+",
    ),
    "a cut file": (
        lambda it: (it.offsets / "1").write_text("v1\n{}"),
        r"offsets/1 was cut off or edited",
    ),
    "the newest plan is gone": (
        lambda it: (it.offsets / "1").unlink(),
        r"batch 1 has a manifest, but the newest batch in .*offsets is 0: Spark's files were lost",
    ),
    "the newest batch is gone": (
        remove_newest_with_commit,
        r"batch 1 has a manifest, but the newest batch in .*offsets is 0: Spark's files were lost",
    ),
    "all of Spark's files are gone": (
        lambda it: remove_all(it.offsets, it.commits, it.folder / "sources"),
        r"batch 1 has a manifest, but the newest batch in .*offsets is none: Spark's files were lost",
    ),
    "the manifests are gone": (
        lambda it: remove_all(it.manifests),
        r"Spark counts batch 1 as done, but the newest manifest in .*manifests is none",
    ),
    "the generation is gone": (
        lambda it: it.generation_file.unlink(),
        r"generation\.json is gone, though manifests are there; restore it",
    ),
    "a cut manifest": (
        lambda it: (it.manifests / "1.json").write_text("{"),
        r"manifests/1\.json was cut off or edited, or another version wrote it",
    ),
}


# Found by the same comparison as another one that `make test` has: more as less, before as newest, many as one.
SAME = {
    "the newest end is more",
    "the end before is less",
    "the newest batch is gone",
    "all of Spark's files are gone",
}


@pytest.mark.parametrize(
    "damage", [pytest.param(name, marks=pytest.mark.heavy if name in SAME else ()) for name in DAMAGES]
)
def test_damaged_files_are_noticed_and_named(copy: PipelineKit, damage: str) -> None:
    harm, message = DAMAGES[damage]
    harm(copy.checkpoint)
    with pytest.raises(CheckpointMismatch, match=message):
        copy.run()


def test_the_start_of_the_very_first_batch_edited(kit: PipelineKit) -> None:
    kit.simulate(games=1, events=50)
    kit.run()
    (kit.checkpoint.commits / "0").unlink()
    edit_offset(kit.checkpoint.initial_offsets, 1)
    with pytest.raises(CheckpointMismatch, match=rf"batch 0 was decided for other offsets.*{kit.topic}/0"):
        kit.run()


def test_the_plan_of_a_batch_that_is_not_decided_edited(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    """Here no manifest tells, but the batch before does."""
    kit.simulate(games=1, events=50)
    kit.run()
    kit.simulate(games=1, events=50)
    fail_at("before_manifest:1")
    with pytest.raises(Exception, match="failpoint"):
        kit.run()
    edit_offset(kit.checkpoint.offsets / "0", -1)
    before = kit.versions()
    with pytest.raises(CheckpointMismatch, match=rf"batch [01] .*{kit.topic}"):
        kit.run()
    assert kit.versions() == before


def test_another_route_is_refused(copy: PipelineKit) -> None:
    table = copy.settings.route.table
    copy.configured(route={"table": "bronze_{entity}"})
    with pytest.raises(CheckpointMismatch, match=r'route\.table was "silver_.*" and is "bronze_'):
        copy.run()
    copy.configured(route={"table": table})


def test_another_topic_is_refused(copy: PipelineKit, admin: AdminClient) -> None:
    topics = list(copy.settings.source.topics)
    other = copy.topic + "-other"
    admin.create_topics([NewTopic(other, num_partitions=1)])[other].result(30)
    copy.configured(source={"topics": [other]})
    with pytest.raises(CheckpointMismatch, match=r"source\.topics was refusals and is refusals-other"):
        copy.run()
    copy.configured(source={"topics": topics})


def test_a_topic_made_anew_is_noticed(kit: PipelineKit, admin: AdminClient) -> None:
    kit.simulate(games=1, events=50)
    kit.run()
    versions = kit.versions()
    admin.delete_topics([kit.topic])[kit.topic].result(30)
    admin.create_topics([NewTopic(kit.topic, num_partitions=2)])[kit.topic].result(30)
    with pytest.raises(CheckpointMismatch, match=f"topic '{kit.topic}' was made anew"):
        kit.run()
    assert kit.versions() == versions


def test_a_second_run_on_the_same_checkpoint_stops(kit: PipelineKit) -> None:
    kit.simulate(games=1, events=50)
    with kit.running() as first:
        first.wait_for(kit.truth.records)
        with pytest.raises(LeaseHeld, match=r"is held by pid \d+ on .*pipeline games"):
            BackgroundRun(kit.settings, kit.spark).__enter__().wait_until_started()
        apart = kit.run_apart()
        assert apart.returncode == 1
        assert "is held by pid" in apart.stderr
        assert "Traceback" not in apart.stderr
        # The first one goes on undisturbed.
        kit.simulate(games=1, events=50)
        first.wait_for(kit.truth.records)
    kit.assert_clean()
