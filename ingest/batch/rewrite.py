"""Files of a decided batch that have gone since: written again from the batch's records and its manifest's pins."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.sql import DataFrame

from distributary.errors import SumsDisagree
from distributary.files import replace as replace_file
from distributary.ingest.batch.passes import discard, run_pass
from distributary.ingest.checkpoint import manifest_pins as decisions
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.manifest import Manifest, TableFiles
from distributary.ingest.kafka.records import worker_columns
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.pins import Pins


class Rewriter:
    """Puts new files in the place of lost ones; the manifest itself stays as it was written."""

    def __init__(self, checkpoint: Checkpoint, headers: Mapping[str, str], slots: int) -> None:
        self._folder, self._headers, self._slots = checkpoint.resolutions, headers, slots

    def restored(self, manifest: Manifest, records: DataFrame, pins: Pins) -> Manifest:
        """The manifest with files that are there. Raises SumsDisagree if what was written again is not the same."""
        manifest = _with_files(manifest, self._written_before(manifest.batch_id))
        lost = {
            table.folder: table
            for table in manifest.tables
            if _is_lost(pins.batch.root, table, manifest.batch_id)
        }
        if not lost:
            return manifest
        found = self._write_again(manifest, records, pins, lost)
        known = self._written_before(manifest.batch_id)
        value = {folder: [asdict(file) for file in files] for folder, files in {**known, **found}.items()}
        replace_file(self._path(manifest.batch_id), json.dumps(value).encode())
        return _with_files(manifest, found)

    def _path(self, batch_id: int) -> Path:
        return self._folder / f"rewritten-{batch_id}.json"

    def _written_before(self, batch_id: int) -> dict[str, tuple[DataFile, ...]]:
        try:
            with open(self._path(batch_id), "rb") as file:
                value = json.load(file)
        except FileNotFoundError:
            return {}
        return {folder: tuple(DataFile(**one) for one in files) for folder, files in value.items()}

    def _write_again(
        self, manifest: Manifest, records: DataFrame, pins: Pins, lost: Mapping[str, TableFiles]
    ) -> dict[str, tuple[DataFile, ...]]:
        todo = worker_columns(records, len(pins.rules.topics), self._headers)
        report = run_pass(todo, decisions.from_manifest(manifest, pins), self._slots)
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


def _with_files(manifest: Manifest, files: Mapping[str, tuple[DataFile, ...]]) -> Manifest:
    tables = tuple(
        replace(table, files=files[table.folder]) if table.folder in files else table
        for table in manifest.tables
    )
    return replace(manifest, tables=tables)


def _is_lost(root: str, table: TableFiles, batch_id: int) -> bool:
    if table.role not in ("events", "quarantine"):
        return False
    there = all(_size(f"{root}/{table.folder}/{file.name}") == file.bytes for file in table.files)
    return not there and not _is_committed(f"{root}/{table.folder}", table, batch_id)


def _size(path: str) -> int | None:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return None


def _is_committed(path: str, table: TableFiles, batch_id: int) -> bool:
    """Spark's writer takes rows over into files of its own, so files that are gone may only mean that it is done."""
    try:
        known = DeltaTable(path).transaction_version(table.app_id)
    except TableNotFoundError:
        return False
    except DeltaError:
        return True  # a table for Spark's writer: it checks for itself
    return known is not None and known >= batch_id
