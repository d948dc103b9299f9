"""Where manifests are kept: one file a batch, whole or not at all, and only once."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from distributary.errors import CheckpointMismatch
from distributary.ingest.atomic_file import write_once
from distributary.ingest.checkpoint import Checkpoint, numbered
from distributary.ingest.manifest import Manifest, check_sums
from distributary.ingest.manifest_text import from_bytes, to_bytes

# As many batches as Spark keeps of its own log by default; each manifest is complete by itself.
KEPT = 100

_SUFFIX = ".json"


class ManifestStore:
    """The manifests of a checkpoint."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._folder = checkpoint.manifests

    def path(self, batch_id: int) -> Path:
        """Where a batch's manifest is, or would be."""
        return self._folder / f"{batch_id}{_SUFFIX}"

    def write(self, manifest: Manifest) -> None:
        """Pass the point of no return. Old manifests go.

        Raises SumsDisagree before anything is written, and CheckpointMismatch if the batch has a manifest already.
        """
        check_sums(manifest)
        path = self.path(manifest.batch_id)
        if not write_once(path, to_bytes(manifest)):
            raise CheckpointMismatch(
                f"{path} is there already: another run decided this batch; stop that run, then start this one again"
            )
        self._prune(manifest.batch_id)

    def read(self, batch_id: int) -> Manifest | None:
        """The manifest of a batch; None if there is none. Raises CheckpointMismatch for a file that was edited."""
        path = self.path(batch_id)
        try:
            manifest = from_bytes(path.read_bytes())
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError, OSError, pa.ArrowException) as error:
            raise CheckpointMismatch(
                f"{path} cannot be used ({error or type(error).__name__}): it was cut off, edited, or written by another "
                "version; restore it, or go on with a new checkpoint and `start: from_tables`"
            ) from error
        if manifest.batch_id != batch_id:
            raise CheckpointMismatch(
                f"{path} is the manifest of batch {manifest.batch_id}; restore the right file"
            )
        return manifest

    def last(self) -> Manifest | None:
        """The newest manifest; None in a new checkpoint."""
        newest = self.last_batch()
        return None if newest is None else self.read(newest)

    def last_batch(self) -> int | None:
        """The newest batch that has a manifest; None in a new checkpoint."""
        return max(numbered(self._folder, _SUFFIX), default=None)

    def _prune(self, newest: int) -> None:
        # Oldest first, so that a crash in between leaves no hole. What cannot be removed now goes next time:
        # the batch is decided and must not fail for it.
        for batch_id in numbered(self._folder, _SUFFIX):
            if batch_id <= newest - KEPT:
                with suppress(OSError):
                    self.path(batch_id).unlink()
