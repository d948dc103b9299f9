"""The checkpoint's folder: Spark's own files beside ours."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from distributary.files import make_folder, numbered
from distributary.ingest.checkpoint.damage import undamaged
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.posix import PosixFiles

# Where in a checkpoint each kind of our files is.
MANIFESTS, CHANGES, PINS, STUCK = "manifests", "changes", "pins", "stuck"
RESOLUTIONS, REWRITTEN, GENERATION = "resolutions", "rewritten", "generation.json"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where everything of a checkpoint is. Spark owns `offsets`, `commits`, `sources` and `metadata`.

    manifests    what each batch decided, one file a batch: the point of no return
    changes      changes of tables, written before they are made
    pins         every schema ever used
    aside        rows set aside during a batch, raw
    stuck        commits that can never succeed
    resolutions  what the user decided about them
    rewritten    files of decided batches that were lost and written again
    lease        the locks that keep a second run out
    """

    folder: Path

    @property
    def files(self) -> Files:
        """Our files, each by its path from here."""
        return PosixFiles(self.folder)

    @property
    def offsets(self) -> Path:
        """Spark's plan of each batch: the offsets at which it ends."""
        return self.folder / "offsets"

    @property
    def commits(self) -> Path:
        """Spark's marks of the batches that are done."""
        return self.folder / "commits"

    @property
    def initial_offsets(self) -> Path:
        """Where Spark's Kafka source wrote down where the very first batch starts."""
        return self.folder / "sources" / "0" / "0"

    @property
    def metadata(self) -> Path:
        """Spark's file with the id of the streaming query."""
        return self.folder / "metadata"

    @property
    def manifests(self) -> Path:
        """One file a batch, `<batch_id>.json`."""
        return self.folder / MANIFESTS

    @property
    def changes(self) -> Path:
        """Changes of tables, `<batch_id>-<n>.json`."""
        return self.folder / CHANGES

    @property
    def pins(self) -> Path:
        """One file a schema."""
        return self.folder / PINS

    @property
    def aside(self) -> Path:
        """Rows set aside during a batch."""
        return self.folder / "aside"

    @property
    def stuck(self) -> Path:
        """Commits that can never succeed and wait for `distributary resolve`."""
        return self.folder / STUCK

    @property
    def resolutions(self) -> Path:
        """What the user decided about stuck commits."""
        return self.folder / RESOLUTIONS

    @property
    def rewritten(self) -> Path:
        """Files that were lost and written again, `<batch_id>.json`."""
        return self.folder / REWRITTEN

    @property
    def lease(self) -> Path:
        """The locks that keep a second run out."""
        return self.folder / "lease"

    @property
    def generation_file(self) -> Path:
        """Who this checkpoint is."""
        return self.folder / GENERATION

    def make(self) -> None:
        """Make our folders; nothing happens to those that are there."""
        for folder in (self.manifests, self.changes, self.pins, self.aside, self.lease):
            make_folder(folder)
        for folder in (self.stuck, self.resolutions, self.rewritten):
            make_folder(folder)

    def sweep(self) -> int:
        """How many leftovers of killed writers were removed; only for the holder of the lease.

        Checksums of Spark's whose file is gone go too: Spark could not write that file again beside its old checksum.
        """
        folders = ("", MANIFESTS, CHANGES, PINS, STUCK, RESOLUTIONS, REWRITTEN, self.lease.name)
        checksums = [*_without_file(self.offsets), *_without_file(self.commits)]
        for file in checksums:
            file.unlink(missing_ok=True)
        return len(checksums) + sum(map(self.files.sweep, folders))

    def last_spark_batch(self) -> int | None:
        """The newest batch that Spark has planned, done or not; None before the first."""
        return max(numbered(self.offsets), default=None)

    def last_committed_batch(self) -> int | None:
        """The newest batch that Spark counts as done; None before the first."""
        return max(numbered(self.commits), default=None)

    def query_id(self) -> str | None:
        """The id of Spark's streaming query; None before its first start."""
        try:
            with undamaged(self.metadata):
                return str(json.loads(self.metadata.read_bytes())["id"])
        except FileNotFoundError:
            return None


def _without_file(folder: Path) -> list[Path]:
    """Checksums (`.7.crc`) of files (`7`) that are not there any more."""
    found = folder.glob(".*.crc")
    return [path for path in found if not path.with_name(path.name[1 : -len(".crc")]).exists()]
