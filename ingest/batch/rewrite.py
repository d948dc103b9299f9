"""Files of a decided batch that have gone since: written again from the batch's records and its manifest's pins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame

from distributary.errors import CheckpointMismatch, SumsDisagree
from distributary.ingest.batch.passes import Workers, discard
from distributary.ingest.checkpoint import manifest_pins as decisions
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.manifest import Manifest, TableFiles
from distributary.ingest.checkpoint.rewritten import RewrittenFiles
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.pins import Pins, by_age
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.transaction import is_committed


class Rewriter:
    """Puts new files in the place of lost ones; the manifest itself stays as it was written."""

    def __init__(self, checkpoint: Checkpoint, workers: Workers) -> None:
        self._rewritten, self._workers = RewrittenFiles(checkpoint), workers

    def restored(self, manifest: Manifest, records: DataFrame, pins: Pins) -> Manifest:
        """The manifest with files that are there.

        Raises SumsDisagree if what was written again is not the same, CheckpointMismatch if it would not be because a
        schema that the batch was decided by cannot be used any more.
        """
        manifest = _with_files(manifest, self._rewritten.read(manifest.batch_id))
        lost = {
            table.folder: table
            for table in manifest.tables
            if _is_lost(pins.batch.root, table, manifest.batch_id)
        }
        if not lost:
            return manifest
        _check_schemas(manifest, pins, lost)
        found = self._write_again(manifest, records, pins, lost)
        self._rewritten.add(manifest.batch_id, found)
        return _with_files(manifest, found)

    def _write_again(
        self, manifest: Manifest, records: DataFrame, pins: Pins, lost: Mapping[str, TableFiles]
    ) -> dict[str, tuple[DataFile, ...]]:
        replayed = decisions.from_manifest(manifest, pins)
        report = self._workers.run(self._workers.columns(records, pins), replayed)
        discard(pins.batch.root, report, keep=lost.__contains__)
        found = {
            folder: tuple(written.file for written in report.files.written if written.file.table == folder)
            for folder in lost
        }
        wrong = {f: t.rows for f, t in lost.items() if sum(file.rows for file in found[f]) != t.rows}
        if wrong:
            raise SumsDisagree(
                f"batch {manifest.batch_id}: files of {', '.join(sorted(wrong))} are gone and cannot be written again just "
                "the same; let `distributary resolve` decide"
            )
        return found


def _check_schemas(manifest: Manifest, pins: Pins, lost: Mapping[str, TableFiles]) -> None:
    """Raises CheckpointMismatch where lost files may have rows of record types that nothing can decode here any more."""
    keys, values = decisions.undecodable(manifest, pins)
    concerned = [
        folder
        for folder, table in lost.items()
        # Whatever cannot be decoded would come to quarantine, and a key's text may be in every table.
        if keys
        or values.intersection(values if table.role == "quarantine" else manifest.met.get(folder, values))
    ]
    if concerned:
        names = ", ".join(dict.fromkeys(str(ref) for ref, _ in sorted(keys | values, key=by_age)))
        raise CheckpointMismatch(
            f"batch {manifest.batch_id}: files of {', '.join(sorted(concerned))} are gone, and what was in them needs a schema "
            f"that this version of distributary cannot use ({names}). Nothing was committed: run once with version "
            f"{manifest.code_version}, which wrote them, until the batch is done, or restore the files"
        )


def _with_files(manifest: Manifest, files: Mapping[str, tuple[DataFile, ...]]) -> Manifest:
    tables = tuple(
        replace(table, files=files[table.folder]) if table.folder in files else table
        for table in manifest.tables
    )
    return replace(manifest, tables=tables)


def _is_lost(root: str, table: TableFiles, batch_id: int) -> bool:
    if table.role not in ("events", "quarantine"):
        return False
    files = files_at(root)
    found = [files.info(f"{table.folder}/{file.name}") for file in table.files]
    there = [info and info.size for info in found] == [file.bytes for file in table.files]
    return not there and not _is_committed(f"{root}/{table.folder}", table, batch_id)


def _is_committed(path: str, table: TableFiles, batch_id: int) -> bool:
    """Spark's writer takes rows over into files of its own, so files that are gone may only mean that it is done."""
    try:
        return is_committed(path, table.app_id, batch_id)
    except DeltaError:
        return True  # a table for Spark's writer: it checks for itself
