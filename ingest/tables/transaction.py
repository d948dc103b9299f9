"""One table's part of a batch as a Delta transaction, and what is true of it however it is committed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake.exceptions import TableNotFoundError

from distributary.errors import CommitImpossible
from distributary.ingest.columns.differences import differences
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.storage.contract import Info
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.handle import opened


@dataclass(frozen=True, slots=True)
class TableCommit:
    """One table's part of a batch.

    table     the table's folder, relative to the sink's root
    path      that folder from the root of the file system
    files     what becomes part of the table
    schema    the files' schema
    app_id    with batch_id the transaction that makes a repeat harmless
    metadata  what the commit says of itself
    native    by an entry in the log, not by Spark's writer
    """

    table: str
    path: str
    files: Sequence[DataFile]
    schema: pa.Schema
    app_id: str
    batch_id: int
    metadata: Mapping[str, str]
    native: bool

    def impossible(self, why: str) -> CommitImpossible:
        """The error for a table that can never take its files of this batch."""
        return CommitImpossible(
            f"table {self.path} cannot take its files of batch {self.batch_id}: {why}. Put that right and run again, "
            "or let `distributary resolve` decide what becomes of them",
            (self.table,),
        )

    def require_file(self, file: DataFile) -> Info:
        """What there is to tell of the file; CommitImpossible where it is gone or has another size than when it was written."""
        info = files_at(self.path).info(file.name)
        if info is None:
            raise self.impossible(f"file {file.name} is gone")
        if info.size != file.bytes:
            raise self.impossible(f"file {file.name} has {info.size} bytes, not {file.bytes} as written")
        return info

    def require_columns(self, table: pa.Schema) -> None:
        """CommitImpossible where the files have columns that the table lacks or holds with another type."""
        if found := [str(difference) for difference in differences(table, self.schema)]:
            raise self.impossible("; ".join(found))


def is_in(newest: int | None, batch_id: int) -> bool:
    """Whether a batch is in a table whose newest transaction of the same application is this one; None: it has none."""
    return newest is not None and newest >= batch_id  # 0 is a version


def is_committed(path: str | os.PathLike[str], app_id: str, batch_id: int) -> bool:
    """Whether the transaction (app_id, batch_id) is in the table here. Raises DeltaError where delta-rs cannot open it."""
    try:
        return is_in(opened(path).transaction_version(app_id), batch_id)
    except TableNotFoundError:
        return False
