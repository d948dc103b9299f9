"""Whether Spark's files and our manifests tell one story, asked at every start before Spark is."""

from __future__ import annotations

from distributary.errors import CheckpointMismatch
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import Generation
from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.checkpoint.manifest_file import ManifestStore
from distributary.ingest.checkpoint.spark_files import batch_end, batch_offsets, between
from distributary.ingest.kafka.offsets import Offsets, differences, starts

_REMEDY = "restore Spark's files, or go on with a new checkpoint and `start: from_tables`"


def check_continuity(checkpoint: Checkpoint, generation: Generation | None, manifests: ManifestStore) -> None:
    """Raises CheckpointMismatch if files of Spark's or ours were lost or edited, or belong to something else.

    It rests on two promises: every batch Spark counts as done has a manifest, and a manifest is written only for
    a batch that Spark has planned.
    """
    _check_owner(checkpoint, generation, manifests)
    newest = manifests.last()
    _check_order(checkpoint, newest)
    if newest is not None and generation is not None:
        check_manifest(checkpoint, generation, newest)


def check_manifest(checkpoint: Checkpoint, generation: Generation, manifest: Manifest) -> None:
    """Raises CheckpointMismatch unless a manifest is this checkpoint's and means the batch that Spark planned."""
    if manifest.generation != generation.id:
        raise CheckpointMismatch(
            f"{checkpoint.manifests} holds the manifest of batch {manifest.batch_id} of generation "
            f"{manifest.generation}, the checkpoint is generation {generation.id}: folders were mixed; restore them"
        )
    found = differences(manifest.offsets, _planned(checkpoint, manifest))
    if found:
        raise CheckpointMismatch(
            f"batch {manifest.batch_id} was decided for other offsets than Spark's files now name (manifest against "
            f"{checkpoint.offsets}): {'; '.join(found)}. {_REMEDY}"
        )


def _planned(checkpoint: Checkpoint, manifest: Manifest) -> Offsets:
    batch_id = manifest.batch_id
    oldest = batch_id > 0 and not (checkpoint.offsets / str(batch_id - 1)).exists()
    if not oldest or checkpoint.last_committed_batch() != batch_id:
        return batch_offsets(checkpoint, batch_id)
    # Done, and only its end matters for what comes: Spark may have cleared the batch before it.
    return between(starts(manifest.offsets), batch_end(checkpoint, batch_id), f"batch {batch_id}")


def _check_owner(checkpoint: Checkpoint, generation: Generation | None, manifests: ManifestStore) -> None:
    if generation is not None:
        return
    if manifests.last_batch() is not None:
        raise CheckpointMismatch(
            f"{checkpoint.generation_file} is gone, though manifests are there; restore it"
        )
    if checkpoint.last_spark_batch() is not None or checkpoint.query_id() is not None:
        raise CheckpointMismatch(
            f"{checkpoint.folder} is the checkpoint of another Spark query; give this pipeline a folder of its own"
        )


def _check_order(checkpoint: Checkpoint, newest: Manifest | None) -> None:
    planned, done = checkpoint.last_spark_batch(), checkpoint.last_committed_batch()
    decided = None if newest is None else newest.batch_id
    if decided is not None and (planned is None or planned < decided):
        raise CheckpointMismatch(
            f"batch {decided} has a manifest, but the newest batch in {checkpoint.offsets} is "
            f"{'none' if planned is None else planned}: Spark's files were lost or put back; {_REMEDY}"
        )
    if done is not None and (decided is None or decided < done):
        raise CheckpointMismatch(
            f"Spark counts batch {done} as done, but the newest manifest in {checkpoint.manifests} is "
            f"{'none' if decided is None else decided}: manifests were lost; restore them, or go on with a new "
            "checkpoint and `start: from_tables`"
        )
