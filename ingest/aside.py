"""Records set aside by a task, as Kafka gave them, until the driver has answered what they wait for."""

from __future__ import annotations

import os
import uuid

import pyarrow as pa
import pyarrow.parquet as pq


class AsideFile:
    """A Parquet file of raw records in the batch's own folder, made only if there is something to set aside."""

    def __init__(self, folder: str) -> None:
        self._path = f"{folder}/{uuid.uuid4().hex}.parquet"
        self._writer: pq.ParquetWriter | None = None

    def add(self, records: pa.RecordBatch) -> None:
        """Set these records aside."""
        if self._writer is None:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            self._writer = pq.ParquetWriter(self._path, records.schema, compression="zstd")
        self._writer.write_batch(records)

    def close(self) -> list[str]:
        """The file's path, or nothing where nothing was set aside."""
        if self._writer is None:
            return []
        self._writer.close()
        return [self._path]
