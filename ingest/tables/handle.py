"""delta-rs' handle on a table, wherever that is: the one place that knows what delta-rs needs to get there."""

from __future__ import annotations

from deltalake import DeltaTable

from distributary.ingest.storage.opening import At, files_at


def opened(table: At) -> DeltaTable:
    """The table as it is now. Raises TableNotFoundError, and other DeltaErrors where delta-rs cannot open it."""
    files = files_at(table)
    return DeltaTable(files.url, storage_options=options(files))


def is_there(table: At) -> bool:
    """Whether there is a table, readable or not."""
    files = files_at(table)
    return DeltaTable.is_deltatable(files.url, options(files))


def options(table: At) -> dict[str, str] | None:
    """What delta-rs needs to get there; None for a folder, which takes nothing."""
    return dict(files_at(table).options) or None
