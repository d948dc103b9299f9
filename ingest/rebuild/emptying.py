"""All files of a table taken out of it by one entry of its log, once however often it is begun; columns, transactions and older versions stay."""

from __future__ import annotations

import time
import uuid
from typing import Any

from distributary.errors import PipelineError
from distributary.ingest import failpoints
from distributary.ingest.merge import live_files
from distributary.ingest.merge.entry import removal
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log import ENGINE, clocks, is_read, is_still_there, put_entry
from distributary.ingest.tables.state import TableState, state_of
from distributary.ingest.tables.transaction import Transaction, is_committed

RESET = "distributary.reset"
"""In a commit: the reset that it is a part of."""

_ATTEMPTS = 20


def empty(place: Files, by: Transaction, reset: str) -> int | None:
    """Take all rows out of a table; by which version, and None where this reset has done so before, or a later one.

    by  the transaction by which it is known to be done

    It survives a loss of power when this returns. Raises DeltaError where it cannot be opened, and PipelineError where others were first each time.
    """
    for _ in range(_ATTEMPTS):
        if is_committed(place, by.app_id, by.batch_id):
            return None
        began, state = clocks(), state_of(opened(place), place)
        failpoints.reach(failpoints.AMID_RESET, 0)
        version, actions = state.version + 1, _actions(place, state, by, reset)
        if put_entry(place, version, actions) and is_read(place, version, began):
            # With what it rests on: were that lost, it would be undone, and the rows be there beside those that come anew.
            place.sync_folders([""])
            if is_still_there(place, version, actions):
                return version
    raise PipelineError(f"table {place}: {_ATTEMPTS} times another writer was first; say it again")


def _actions(place: Files, state: TableState, by: Transaction, reset: str) -> list[dict[str, Any]]:
    now = int(time.time() * 1000)
    gone = [add for _, add in live_files.read(place, state.version)]
    info = {
        "timestamp": now,
        "operation": "DELETE",
        "operationParameters": {"predicate": "[]"},
        "operationMetrics": {"numRemovedFiles": str(len(gone)), "numAddedFiles": "0"},
        "isBlindAppend": False,
        "engineInfo": ENGINE,
        "txnId": str(uuid.uuid4()),
        RESET: reset,
    }
    return [
        {"commitInfo": info},
        {"txn": {"appId": by.app_id, "version": by.batch_id, "lastUpdated": now}},
        *({"remove": removal(add, now)} for add in gone),
    ]
