"""A checkpoint of the layout before the log: its manifests were files of their own, and Spark kept its files beside them.

It is taken over in place. What shuts the programs of that time out comes first: a manifest in a format that they refuse, where
their next one would be. docs/adr/0015-the-log-of-a-pipeline.md, rule 13.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from distributary.errors import CheckpointMismatch
from distributary.ingest.checkpoint import manifest_json
from distributary.ingest.checkpoint.damage import damaged, undamaged
from distributary.ingest.checkpoint.folder import GENERATION, RESOLUTIONS, Checkpoint
from distributary.ingest.checkpoint.generation import BEFORE_THE_LOG, Generation
from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.checkpoint.spark_files import SparkFiles, initial
from distributary.ingest.commit_log.entries import NONE, Batch, Standing
from distributary.ingest.commit_log.writing import take_over
from distributary.ingest.kafka.offsets import Positions, starts
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.storage.numbered import numbered

MANIFESTS, REWRITTEN = "manifests", "rewritten"

# The format of what stands in the place of the next manifest; theirs was 1.
_BLOCKING = 2


def check_owner(checkpoint: Checkpoint, generation: Generation | None) -> None:
    """Raises CheckpointMismatch for a folder that has no generation, though it is no new checkpoint."""
    if generation is not None:
        return
    if checkpoint.log.state().newest is not None or numbered(checkpoint.files, MANIFESTS, ".json"):
        raise CheckpointMismatch(
            f"{checkpoint}/{GENERATION} is gone, though batches were decided; restore it"
        )
    if checkpoint.files.info("metadata") is not None or "offsets" in checkpoint.files.folders():
        raise CheckpointMismatch(
            f"{checkpoint} is the checkpoint of another Spark query; give this pipeline a folder of its own"
        )


def adopt(checkpoint: Checkpoint, generation: Generation) -> None:
    """Make the newest manifest of the old layout the first batch of the log, and shut out who would write the next one.

    Where no batch was decided yet, only the latter. Nothing happens to a checkpoint that the programs of that time cannot read
    anyway, or where that was done before. Raises CheckpointMismatch for files that were
    edited, or belong to another checkpoint.
    """
    if not _is_old(checkpoint, generation):
        return
    manifest = newest_manifest(checkpoint)
    while not _blocked(checkpoint, NONE if manifest is None else manifest.batch_id):
        manifest = newest_manifest(checkpoint)
    if manifest is not None:
        if manifest.generation != generation.id:
            raise CheckpointMismatch(
                f"{checkpoint}/{MANIFESTS} holds the manifest of batch {manifest.batch_id} of generation "
                f"{manifest.generation}, the checkpoint is generation {generation.id}: folders were mixed; restore them"
            )
        take_over(checkpoint.log, as_batch(manifest))


def newest_manifest(checkpoint: Checkpoint) -> Manifest | None:
    """The newest manifest of the old layout, with the files that were written again for it; None where there is none."""
    for number in reversed(numbered(checkpoint.files, MANIFESTS, ".json")):
        path = _path(number)
        with undamaged(_where(checkpoint, path)):
            value = json.loads(checkpoint.files.read(path))
            if value["format"] == _BLOCKING:
                continue
            manifest = manifest_json.from_json(value)
            if manifest.batch_id != number:
                raise ValueError(f"it is the manifest of batch {manifest.batch_id}")
            return _with_rewritten(manifest, _rewritten(checkpoint, number))
    return None


def first_offsets(checkpoint: Checkpoint) -> Positions | None:
    """Where the first batch of the old layout begins, if Spark had written that down."""
    if checkpoint.files.remote:
        return None
    spark = SparkFiles(checkpoint.folder)
    return initial(spark) if spark.initial_offsets.exists() else None


def _is_old(checkpoint: Checkpoint, generation: Generation) -> bool:
    """Whether programs that know nothing of the log could go on here, though nothing but its birth may have come of it yet."""
    return generation.format == BEFORE_THE_LOG or bool(numbered(checkpoint.files, MANIFESTS, ".json"))


def _blocked(checkpoint: Checkpoint, decided: int) -> bool:
    """Whether the manifest behind the newest one is none that the programs of that time can write or read."""
    path = _path(decided + 1)
    value = {"format": _BLOCKING, "id": uuid.uuid4().hex, "see": "log"}
    if checkpoint.files.put_new(path, json.dumps(value).encode()):
        return True
    with undamaged(_where(checkpoint, path)):
        found: Mapping[str, Any] = json.loads(checkpoint.files.read(path))
        if found["format"] > _BLOCKING:
            raise damaged(_where(checkpoint, path), f"its format is {found['format']}")
        return bool(found["format"] == _BLOCKING)


def as_batch(manifest: Manifest) -> Batch:
    """A manifest as the first entry of a log."""
    return Batch(
        number=manifest.batch_id,
        id=uuid.uuid4().hex,
        at=manifest.created_at,
        so_far=Standing(settled=manifest.batch_id - 1, ends=starts(manifest.offsets)),
        start=NONE,
        offsets=manifest.offsets,
        decided=manifest_json.to_json(manifest),
    )


def _rewritten(checkpoint: Checkpoint, number: int) -> manifest_json.RewrittenFiles:
    for path in (f"{REWRITTEN}/{number}.json", f"{RESOLUTIONS}/rewritten-{number}.json"):
        with suppress(FileNotFoundError), undamaged(_where(checkpoint, path)):
            tables = json.loads(checkpoint.files.read(path)).items()
            return {folder: tuple(DataFile(**one) for one in files) for folder, files in tables}
    return {}


def _with_rewritten(manifest: Manifest, files: manifest_json.RewrittenFiles) -> Manifest:
    tables = tuple(replace(table, files=files.get(table.folder, table.files)) for table in manifest.tables)
    return replace(manifest, tables=tables)


def _path(number: int) -> str:
    return f"{MANIFESTS}/{number}.json"


def _where(checkpoint: Checkpoint, path: str) -> str:
    return f"{checkpoint}/{path}"
