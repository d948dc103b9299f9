"""Spark's files and our manifests, held against each other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from distributary.errors import CheckpointMismatch
from distributary.ingest.checkpoint.against_spark import check_continuity, check_manifest
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import Generation, World, born
from distributary.ingest.checkpoint.manifest import BatchPins, Counts, Manifest
from distributary.ingest.checkpoint.manifest_file import ManifestStore
from distributary.ingest.checkpoint.spark_files import batch_offsets


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path / "games")


@pytest.fixture
def generation(checkpoint: Checkpoint) -> Generation:
    return born(checkpoint, "games", World("cluster", {"events": "id"}, {}))


def plan(checkpoint: Checkpoint, batch_id: int, end: int | None = None) -> None:
    checkpoint.offsets.mkdir(parents=True, exist_ok=True)
    ends = json.dumps({"events": {"0": (batch_id + 1) * 10 if end is None else end}})
    (checkpoint.offsets / str(batch_id)).write_text(f"v1\n{{}}\n{ends}")
    if batch_id == 0:
        checkpoint.initial_offsets.parent.mkdir(parents=True)
        checkpoint.initial_offsets.write_text('\0v1\n{"events":{"0":0}}')


def decide(checkpoint: Checkpoint, batch_id: int, generation: Generation) -> Manifest:
    offsets = batch_offsets(checkpoint, batch_id)
    manifest = Manifest(batch_id, generation.id, "now", "0.1.0", offsets, BatchPins(), {}, (), Counts({}))
    ManifestStore(checkpoint).write(manifest)
    return manifest


def finish(checkpoint: Checkpoint, batch_id: int) -> None:
    checkpoint.commits.mkdir(exist_ok=True)
    (checkpoint.commits / str(batch_id)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def check(checkpoint: Checkpoint, generation: Generation | None) -> None:
    check_continuity(checkpoint, generation, ManifestStore(checkpoint))


def test_a_new_checkpoint_is_fine(checkpoint: Checkpoint) -> None:
    check(checkpoint, None)


def test_every_place_a_crash_can_leave_it_in_is_fine(checkpoint: Checkpoint, generation: Generation) -> None:
    check(checkpoint, generation)
    for batch_id in range(3):
        plan(checkpoint, batch_id)
        check(checkpoint, generation)
        decide(checkpoint, batch_id, generation)
        check(checkpoint, generation)
        finish(checkpoint, batch_id)
        check(checkpoint, generation)


def test_spark_s_lost_last_commit_is_a_crash_and_fine(checkpoint: Checkpoint, generation: Generation) -> None:
    for batch_id in range(2):
        plan(checkpoint, batch_id)
        decide(checkpoint, batch_id, generation)
        finish(checkpoint, batch_id)
    (checkpoint.commits / "1").unlink()
    check(checkpoint, generation)


def test_batches_that_spark_cleared_are_not_missed(checkpoint: Checkpoint, generation: Generation) -> None:
    for batch_id in range(3):
        plan(checkpoint, batch_id)
        decide(checkpoint, batch_id, generation)
        finish(checkpoint, batch_id)
    for batch_id in range(2):
        (checkpoint.offsets / str(batch_id)).unlink()
    check(checkpoint, generation)
    plan(checkpoint, 2, end=29)
    with pytest.raises(CheckpointMismatch, match="20 to 30 against 20 to 29"):
        check(checkpoint, generation)


@pytest.fixture
def filled(checkpoint: Checkpoint, generation: Generation) -> Checkpoint:
    for batch_id in range(2):
        plan(checkpoint, batch_id)
        decide(checkpoint, batch_id, generation)
        finish(checkpoint, batch_id)
    return checkpoint


def test_spark_s_offsets_edited_by_hand_are_noticed(filled: Checkpoint, generation: Generation) -> None:
    plan(filled, 1, end=15)
    with pytest.raises(CheckpointMismatch, match=r"batch 1 .*events/0: 10 to 20 against 10 to 15"):
        check(filled, generation)


def test_spark_s_offsets_that_were_lost_are_noticed(filled: Checkpoint, generation: Generation) -> None:
    (filled.offsets / "1").unlink()
    with pytest.raises(CheckpointMismatch, match=r"batch 1 has a manifest, but the newest batch in .* is 0"):
        check(filled, generation)
    (filled.offsets / "0").unlink()
    with pytest.raises(CheckpointMismatch, match="is none"):
        check(filled, generation)


def test_manifests_that_were_lost_are_noticed(filled: Checkpoint, generation: Generation) -> None:
    (filled.manifests / "1.json").unlink()
    with pytest.raises(
        CheckpointMismatch, match=r"Spark counts batch 1 as done, but the newest manifest in .* is 0"
    ):
        check(filled, generation)


def test_commits_beyond_the_plans_are_noticed(checkpoint: Checkpoint, generation: Generation) -> None:
    plan(checkpoint, 0)
    decide(checkpoint, 0, generation)
    finish(checkpoint, 0)
    finish(checkpoint, 3)
    with pytest.raises(CheckpointMismatch, match="batch 3"):
        check(checkpoint, generation)


def test_a_lost_generation_is_noticed(filled: Checkpoint) -> None:
    with pytest.raises(CheckpointMismatch, match=r"generation\.json is gone"):
        check(filled, None)


def test_another_query_s_checkpoint_is_left_alone(checkpoint: Checkpoint) -> None:
    plan(checkpoint, 0)
    with pytest.raises(CheckpointMismatch, match="the checkpoint of another Spark query"):
        check(checkpoint, None)


def test_a_manifest_of_another_generation_is_noticed(filled: Checkpoint, tmp_path: Path) -> None:
    stranger = born(Checkpoint(tmp_path / "other"), "games", World("cluster", {"events": "id"}, {}))
    with pytest.raises(CheckpointMismatch, match="folders were mixed"):
        check(filled, stranger)


def test_the_manifest_of_a_batch_on_its_way_is_held_against_its_plan(
    filled: Checkpoint, generation: Generation
) -> None:
    plan(filled, 2)
    manifest = decide(filled, 2, generation)
    check_manifest(filled, generation, manifest)
    plan(filled, 2, end=99)
    with pytest.raises(CheckpointMismatch, match="20 to 30 against 20 to 99"):
        check_manifest(filled, generation, manifest)
