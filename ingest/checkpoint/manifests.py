"""The manifests of a checkpoint, read: each stands in the log, in the entry of its batch, where `commit_log/writing.py` puts it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from distributary.ingest.checkpoint import manifest_json, old_layout
from distributary.ingest.checkpoint.damage import undamaged
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.commit_log.entries import Batch, Rewritten
from distributary.ingest.commit_log.formats import require_readable
from distributary.ingest.commit_log.reading import CommitLog, entry_path
from distributary.ingest.commit_log.writing import Unsettled
from distributary.ingest.merge.rule import memory_folder
from distributary.ingest.parquet.data_file import DataFile


class ManifestStore:
    """The manifests of a checkpoint, as everybody may read them; those of earlier versions, too, which had files of their own."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint

    def last(self) -> Manifest | None:
        """The newest manifest; None in a new checkpoint. Raises CheckpointMismatch for one that was edited."""
        so_far = self._checkpoint.log.state().so_far
        if so_far is None:
            return old_layout.newest_manifest(self._checkpoint)
        return None if so_far.last is None else self.read(so_far.last)

    def read(self, number: int) -> Manifest | None:
        """The manifest of a batch; None if there is none any more. Raises CheckpointMismatch for one that was edited."""
        log = self._checkpoint.log
        entry = log.entry(number) or log.newest_batch(number)
        if isinstance(entry, Batch):
            return manifest_of(entry, log)
        old = old_layout.newest_manifest(self._checkpoint)
        return old if old is not None and old.batch_id == number else None

    def last_batch(self) -> int | None:
        """The newest batch that has a manifest; None in a new checkpoint."""
        last = self.last()
        return None if last is None else last.batch_id


def manifest_of(batch: Batch, log: CommitLog) -> Manifest:
    """What a batch decided. Raises CheckpointMismatch for an entry that was edited."""
    where = f"{log.url}/{entry_path(batch.number)}"
    with undamaged(where):
        require_readable(f"the manifest in {where}", batch.decided["format"], manifest_json.FORMAT)
        manifest = manifest_json.from_json(batch.decided)
        if manifest.batch_id != batch.number:
            raise ValueError(f"it is the manifest of batch {manifest.batch_id}")
        return manifest


def folders_of(batch: Batch, log: CommitLog) -> Mapping[str, str]:
    """The folders that a batch has something for, each with that of the table it is of, which costs little of its manifest.

    A table's own, and where the batch has deletes for it that of what remembers them. Raises CheckpointMismatch for an entry that was edited.
    """
    with undamaged(f"{log.url}/{entry_path(batch.number)}"):
        tables = batch.decided["tables"]
        remembering = {memory_folder(one["folder"]): one["folder"] for one in tables if one.get("deletes")}
        return {**remembering, **{one["folder"]: one["folder"] for one in tables}}


def rewritten_of(entry: Rewritten, log: CommitLog) -> manifest_json.RewrittenFiles:
    """The files that were written again. Raises CheckpointMismatch for an entry that was edited."""
    with undamaged(f"{log.url}/{entry_path(entry.number)}"):
        return manifest_json.rewritten_from_json(entry.decided)


def with_rewritten(manifest: Manifest, entries: Iterable[Rewritten], log: CommitLog) -> Manifest:
    """The manifest with the files that entries name in the place of lost ones."""
    for entry in entries:
        files = rewritten_of(entry, log)
        tables = (table.with_parts(files) for table in manifest.tables)
        manifest = replace(manifest, tables=tuple(tables))
    return manifest


def finished_manifest(log: CommitLog, number: int) -> tuple[Manifest, int]:
    """A batch that is not closed, with the files that it had in the end, and the newest batch before it."""
    batch, rewritten = log.as_finished(number)
    return with_rewritten(manifest_of(batch, log), rewritten, log), batch.before


def finished_table(log: CommitLog, number: int, folder: str) -> tuple[Manifest, int]:
    """The same as far as it is about one table, by its folder, which costs little of it. Raises CheckpointMismatch for an entry that was edited."""
    batch, rewritten = log.as_finished(number)
    where = f"{log.url}/{entry_path(number)}"
    with undamaged(where):
        require_readable(f"the manifest in {where}", batch.decided["format"], manifest_json.FORMAT)
        manifest = manifest_json.of_table(batch.decided, folder)
    return with_rewritten(manifest, rewritten, log), batch.before


def partitions_told(log: CommitLog, numbers: Sequence[int], folder: str) -> tuple[str, ...] | None:
    """What a table's files of the newest of these batches that has any are partitioned by; None where none has: deletes alone have none."""
    each = (finished_table(log, number, folder)[0].table(folder) for number in reversed(numbers))
    return next((one.partitions for one in each if one.files), None)


def names_of(unsettled: Unsettled, log: CommitLog) -> frozenset[str]:
    """The names of all files that are to stay of those that a start has to look through: of lost ones that were written again the new ones."""
    names: set[str] = set()
    files: dict[str, tuple[DataFile, ...]] = {}
    for entry in sorted(unsettled.entries, key=lambda entry: entry.number):
        if isinstance(entry, Batch):
            names |= _names(files)
            tables = manifest_of(entry, log).tables
            files = {folder: found for table in tables for folder, found in table.parts.items()}
        else:
            files.update(rewritten_of(entry, log))
    return frozenset(names | _names(files))


def _names(files: manifest_json.RewrittenFiles) -> set[str]:
    return {file.name for found in files.values() for file in found}
