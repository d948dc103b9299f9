"""Entries of a Delta table's log, written as the protocol says: one file a version, there whole or not at all.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#delta-log-entries
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.storage.contract import Info
from distributary.ingest.storage.opening import files_at

# What a log entry says of its author, beside the commit's own metadata.
_ENGINE = "distributary"


def _path(version: int) -> str:
    """Where in its table a version's entry is, or would be."""
    return f"_delta_log/{version:020d}.json"


def has_log(table: str | os.PathLike[str]) -> bool:
    """Whether there is a Delta log, by a look into its folder alone."""
    return any(True for _ in files_at(table).list("_delta_log"))


def entry_info(table: str | os.PathLike[str], version: int) -> Info | None:
    """What tells a version's entry from every other one by its name; None where it is not there (any more)."""
    return files_at(table).info(_path(version))


def is_newest(table: str | os.PathLike[str], version: int) -> bool:
    """Whether this version's entry is the last one; looking for the next costs microseconds."""
    return entry_info(table, version) is not None and entry_info(table, version + 1) is None


def put_entry(table: str | os.PathLike[str], version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
    """Make these actions the table's next version; False where somebody else has made that version already.

    Not synced to disk, which would take milliseconds a table: kill -9 loses nothing of it, loss of power may. Raises
    SetupError on a file system without hard links.
    """
    lines = (json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
    return files_at(table).put_new(_path(version), "".join(lines).encode(), durable=False)


def entry(table: str | os.PathLike[str], version: int) -> list[dict[str, Any]]:
    """The actions of a version. Raises FileNotFoundError where its entry is not there (any more)."""
    return [json.loads(line) for line in files_at(table).read(_path(version)).splitlines()]


def create_actions(
    like: Sequence[Mapping[str, Any]], configuration: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The first entry of a table whose columns and protocol are those of another one's first entry."""
    now = int(time.time() * 1000)
    found = {kind: content for action in like for kind, content in action.items()}
    own = {"id": str(uuid.uuid4()), "createdTime": now, "configuration": dict(configuration)}
    return [
        {"protocol": found["protocol"]},
        {"metaData": {**found["metaData"], **own}},
        {"commitInfo": {"timestamp": now, "operation": "CREATE TABLE", "engineInfo": _ENGINE}},
    ]


def append_actions(
    files: Sequence[tuple[DataFile, Info]], app_id: str, batch_id: int, metadata: Mapping[str, str]
) -> list[dict[str, Any]]:
    """A blind append of these files under the transaction (app_id, batch_id)."""
    now = int(time.time() * 1000)
    rows, size = sum(file.rows for file, _ in files), sum(file.bytes for file, _ in files)
    info = {
        "timestamp": now,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": "[]"},
        "operationMetrics": {
            "numFiles": str(len(files)),
            "numOutputRows": str(rows),
            "numOutputBytes": str(size),
        },
        "isBlindAppend": True,
        "engineInfo": _ENGINE,
        **metadata,
    }
    return [
        {"commitInfo": info},
        {"txn": {"appId": app_id, "version": batch_id, "lastUpdated": now}},
        *({"add": _add(file, info)} for file, info in files),
    ]


def _add(file: DataFile, info: Info) -> dict[str, Any]:
    return {
        "path": quote(file.name),
        "partitionValues": {},
        "size": file.bytes,
        "modificationTime": info.modified,
        "dataChange": True,
        "stats": file.statistics,
    }
