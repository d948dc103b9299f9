"""Entries of a Delta table's log, written as the protocol says: one file a version, there whole or not at all.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#delta-log-entries
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from distributary.files import write_once
from distributary.ingest.parquet.data_file import DataFile

# What a log entry says of its author, beside the commit's own metadata.
_ENGINE = "distributary"


def entry_path(table: str | os.PathLike[str], version: int) -> str:
    """Where a version's entry is, or would be."""
    return os.path.join(table, "_delta_log", f"{version:020d}.json")


def is_newest(table: str | os.PathLike[str], version: int) -> bool:
    """Whether this version's entry is the last one; looking for the next costs microseconds."""
    return os.path.exists(entry_path(table, version)) and not os.path.exists(entry_path(table, version + 1))


def put_entry(table: str | os.PathLike[str], version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
    """Make these actions the table's next version; False where somebody else has made that version already.

    Not synced to disk, which would take milliseconds a table: kill -9 loses nothing of it, loss of power may. Raises
    SetupError on a file system without hard links.
    """
    lines = (json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
    return write_once(Path(entry_path(table, version)), "".join(lines).encode(), durable=False)


def entry(table: str | os.PathLike[str], version: int) -> list[dict[str, Any]]:
    """The actions of a version. Raises FileNotFoundError where its entry is not there (any more)."""
    with open(entry_path(table, version), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


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
    files: Sequence[tuple[DataFile, os.stat_result]], app_id: str, batch_id: int, metadata: Mapping[str, str]
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
        *({"add": _add(file, status)} for file, status in files),
    ]


def _add(file: DataFile, status: os.stat_result) -> dict[str, Any]:
    return {
        "path": quote(file.name),
        "partitionValues": {},
        "size": file.bytes,
        "modificationTime": int(status.st_mtime * 1000),
        "dataChange": True,
        "stats": file.statistics,
    }
