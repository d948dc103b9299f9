"""A Delta table's folder as Arrow reads it."""

from __future__ import annotations

from deltalake import DeltaTable
from pyarrow import fs


def table_folder(table: DeltaTable) -> fs.FileSystem:
    """Where a table's files are, for `to_pyarrow_dataset`, `to_pyarrow_table` and Arrow's own datasets.

    Left to itself, delta-rs has Arrow's threads call Python for each read. Those that read ahead of somebody who stops
    early are then without an interpreter when the process ends, and hang it or abort it.
    """
    root, path = fs.FileSystem.from_uri(table.table_uri)
    return fs.SubTreeFileSystem(path, root)
