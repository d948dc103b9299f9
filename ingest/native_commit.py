"""Appending files to a Delta table with delta-rs: one transaction id a batch, so a repeat changes nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random

from distributary.errors import CommitImpossible
from distributary.ingest.data_file import DataFile
from distributary.ingest.table_schema import misfits
from distributary.ingest.tables import Path, state_of

_ATTEMPTS = 10


@retry(
    retry=retry_if_exception_type(CommitFailedError),
    stop=stop_after_attempt(_ATTEMPTS),
    wait=wait_random(0, 0.1),
    reraise=True,
)
def commit_native(  # noqa: PLR0913, PLR0917 - one value each of what a commit is
    path: Path,
    files: Sequence[DataFile],
    schema: pa.Schema,
    app_id: str,
    batch_id: int,
    metadata: Mapping[str, str],
) -> bool:
    """Makes the files part of the table under the transaction (app_id, batch_id); False when it was in already.

    `schema` is that of the files. A rival's conflicting commit makes the attempt start again on a fresh handle, checks
    included, a bounded number of times. Raises CommitImpossible where repeating can never help.
    """
    table = _opened(path, batch_id)
    # Looked at on the handle that commits: a rival in between then makes the commit fail instead of doubling it.
    known = table.transaction_version(app_id)
    if known is not None and known >= batch_id:  # 0 is a version
        return False
    _require_fit(table, schema, path, batch_id)
    actions: list[AddAction | RemoveAction] = [_add_action(path, file, batch_id) for file in files]
    properties = CommitProperties(
        custom_metadata=dict(metadata),
        app_transactions=[Transaction(app_id, batch_id)],
    )
    table.create_write_transaction(actions, "append", table.schema(), commit_properties=properties)
    return True


def impossible(path: Path, batch_id: int, why: str) -> CommitImpossible:
    """The error for a table that can never take its files of this batch."""
    return CommitImpossible(
        f"table {os.fspath(path)} cannot take its files of batch {batch_id}: {why}. Put that right and run again, "
        "or let `distributary resolve` decide what becomes of them"
    )


def require_file(path: Path, file: DataFile, batch_id: int) -> os.stat_result:
    """The file's status; CommitImpossible where it is gone or has another size than when it was written."""
    try:
        status = os.stat(os.path.join(path, file.name))
    except FileNotFoundError:
        raise impossible(path, batch_id, f"file {file.name} is gone") from None
    if status.st_size != file.bytes:
        raise impossible(
            path, batch_id, f"file {file.name} has {status.st_size} bytes, not {file.bytes} as written"
        )
    return status


def require_columns(path: Path, table: pa.Schema, files: pa.Schema, batch_id: int) -> None:
    """CommitImpossible where the files have columns that the table lacks or holds with another type."""
    if differences := [str(misfit) for misfit in misfits(table, files)]:
        raise impossible(path, batch_id, "; ".join(differences))


def _opened(path: Path, batch_id: int) -> DeltaTable:
    try:
        return DeltaTable(path)
    except TableNotFoundError:
        raise impossible(path, batch_id, "there is no Delta table any more") from None


def _require_fit(table: DeltaTable, schema: pa.Schema, path: Path, batch_id: int) -> None:
    state = state_of(table, path)
    if not state.native:
        raise impossible(path, batch_id, f"it does not take files as they are any more ({state.why_not})")
    require_columns(path, state.layout, schema, batch_id)


def _add_action(path: Path, file: DataFile, batch_id: int) -> AddAction:
    status = require_file(path, file, batch_id)
    return AddAction(file.name, file.bytes, {}, int(status.st_mtime * 1000), True, file.statistics)
