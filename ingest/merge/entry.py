"""The entry of a table's log by which a batch is merged into it: files that come, and files of which more rows are marked."""

from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from distributary.ingest.merge.counts import MadeFiles, MergeCounts
from distributary.ingest.merge.found import LiveFile
from distributary.ingest.merge.rule import MergeRule
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.storage.contract import Info

FILES = "distributary.files"
"""By which a merge's commit tells its batch's files from others: one of which no row is left is not among those that it adds."""

Vector = Mapping[str, Any]

_TIGHT = re.compile(r'"tightBounds"\s*:\s*true')


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge changes.

    live    files in force, and what marks their rows now; None where all are
    staged  the batch's files that have rows left, with what tells of them and what marks the others; None where none is
    made    files of rows that are made of others
    counts  what became of the batch's rows
    """

    live: Sequence[tuple[LiveFile, Vector | None]]
    staged: Sequence[tuple[DataFile, Info, Vector | None]]
    made: Sequence[tuple[DataFile, Info]]
    counts: MergeCounts


def digest(names: Iterable[str]) -> str:
    """What tells some files' names from others."""
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()


def merge_actions(
    merged: Merged, rule: MergeRule, told: Mapping[str, str], transaction: tuple[str, int], engine: str
) -> list[dict[str, Any]]:
    """The actions of the entry; `told` is what the commit says of itself, `engine` who makes it."""
    now = int(time.time() * 1000)
    removes = [removal(file.add, now) for file, _ in merged.live]
    adds = [
        *(_again(file, vector) for file, vector in merged.live if vector is not None),
        *(_add(file, info, vector) for file, info, vector in merged.staged),
        *(_add(file, info, None) for file, info in merged.made),
    ]
    made = MadeFiles(len(merged.made), sum(file.bytes for file, _ in merged.made))
    info = {
        "timestamp": now,
        "operation": "MERGE",
        "operationParameters": {"keys": json.dumps(rule.keys), "update": rule.update},
        "operationMetrics": {
            # By these a cut-off entry shows: https://github.com/delta-io/delta/blob/master/PROTOCOL.md#commit-provenance-information
            "numTransactions": "1",
            "numRemovedFiles": str(len(removes)),
            "numFiles": str(len(adds)),
            **merged.counts.metrics(),
            **made.metrics(),
        },
        "isBlindAppend": False,
        "engineInfo": engine,
        # Its writer's own: who puts the same entry within the same millisecond is told that another was first.
        "txnId": str(uuid.uuid4()),
        **told,
    }
    app_id, batch_id = transaction
    return [
        {"commitInfo": info},
        {"txn": {"appId": app_id, "version": batch_id, "lastUpdated": now}},
        *({"remove": remove} for remove in removes),
        *({"add": add} for add in adds),
    ]


_KEPT = ("path", "partitionValues", "size", "tags", "deletionVector", "baseRowId", "defaultRowCommitVersion")


def removal(add: Mapping[str, Any], now: int, *, data_change: bool = True) -> dict[str, Any]:
    """What takes a file away that an entry added; `data_change` is whether its rows are not all there again."""
    found = {name: add[name] for name in _KEPT if name in add}
    return {**found, "deletionTimestamp": now, "dataChange": data_change, "extendedFileMetadata": True}


def _again(file: LiveFile, vector: Vector) -> dict[str, Any]:
    statistics = file.add.get("stats") or json.dumps({"numRecords": file.rows})
    return {
        **file.add,
        "dataChange": True,
        "stats": _wide(statistics, file.rows),
        "deletionVector": dict(vector),
    }


def _add(file: DataFile, info: Info, vector: Vector | None) -> dict[str, Any]:
    found = {
        "path": quote(file.name),
        "partitionValues": dict(file.partition),
        "size": file.bytes,
        "modificationTime": info.modified,
        "dataChange": True,
    }
    if vector is None:
        return {**found, "stats": file.statistics}
    return {**found, "stats": _wide(file.statistics, file.rows), "deletionVector": dict(vector)}


# Two escapes that stand for one character, where no backslash before them takes that away.
_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)


def without_pairs(statistics: str) -> str:
    """The same without such pairs, as files have them that earlier versions wrote: delta-rs takes some of them for other characters."""
    return _PAIR.sub(
        lambda found: found[1] + bytes.fromhex(found[2] + found[3]).decode("utf-16-be"), statistics
    )


def _wide(statistics: str, rows: int) -> str:
    """Statistics of which bounds need not be values that are there any more; numbers stay as they are spelled."""
    statistics = without_pairs(statistics)
    found = json.loads(statistics)
    if found.get("tightBounds") is False and "numRecords" in found:
        return statistics
    if "tightBounds" not in found and "numRecords" in found:
        return f'{{"tightBounds":false,{statistics.lstrip()[1:]}'
    if "numRecords" in found and len(_TIGHT.findall(statistics)) == 1:
        return _TIGHT.sub('"tightBounds":false', statistics)
    return json.dumps({"numRecords": rows, "tightBounds": False})
