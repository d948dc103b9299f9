"""delta-rs' handle on a table, wherever that is: the one place that knows what delta-rs needs to get there."""

from __future__ import annotations

from deltalake import DeltaTable

from distributary.ingest.storage.opening import At, files_at
from distributary.ingest.tables.log import LOG, is_version


def opened(table: At) -> DeltaTable:
    """The table as it is now. Raises TableNotFoundError, and other DeltaErrors where delta-rs cannot open it."""
    files = files_at(table)
    return DeltaTable(files.url, storage_options=options(files))


def is_there(table: At) -> bool:
    """Whether there is a table, readable or not.

    delta-rs' own answer keeps the interpreter until the store has given it: no sign of life, and no signal, gets through meanwhile.
    """
    # Behind it the names begin, so that a store tells one page of them.
    return any(map(is_version, files_at(table).names(LOG, after="0")))


def options(table: At) -> dict[str, str] | None:
    """What delta-rs needs to get there; None for a folder, which takes nothing."""
    return dict(files_at(table).options) or None
