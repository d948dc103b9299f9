"""delta-rs' handle on a table, wherever that is: the one place that knows what delta-rs needs to get there."""

from __future__ import annotations

import os

from deltalake import DeltaTable

from distributary.ingest.storage.opening import files_at


def opened(table: str | os.PathLike[str]) -> DeltaTable:
    """The table as it is now. Raises TableNotFoundError, and other DeltaErrors where delta-rs cannot open it."""
    return DeltaTable(os.fspath(table), storage_options=options(table))


def is_there(table: str | os.PathLike[str]) -> bool:
    """Whether there is a table, readable or not."""
    return DeltaTable.is_deltatable(os.fspath(table), options(table))


def options(table: str | os.PathLike[str]) -> dict[str, str] | None:
    """What delta-rs needs to get there; None for a folder, which takes nothing."""
    return dict(files_at(table).options) or None
