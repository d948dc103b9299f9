"""Entries of a Delta table's log, written as the protocol says: one file a version, there whole or not at all.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#delta-log-entries
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from distributary.ingest.clustering.domain import ACTION, FEATURES, clustering_action
from distributary.ingest.columns.clustering import Path
from distributary.ingest.log_paths import LOG, entry_path
from distributary.ingest.merge.rule import VECTORS
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.storage.contract import Files, Info
from distributary.ingest.storage.opening import At, files_at
from distributary.ingest.storage.place import is_name

_log = logging.getLogger(__name__)

T = TypeVar("T")

# What a log entry says of its author, beside the commit's own metadata.
ENGINE = "distributary"

CHANGES = frozenset({"metaData", "protocol", ACTION})
"""The actions that make another table of it, so that what was decided by the one before may not fit."""

# What begins and ends every Parquet file.
_PARQUET = b"PAR1"

_LAST = f"{LOG}/_last_checkpoint"

_ENTRY, _CHECKPOINT = re.compile(r"\d{20}\.json"), re.compile(r"\d{20}\.checkpoint\.")

# To have columns, or wider ones, a table gets a feature, new columns, wider ones and properties, each in an entry of its own.
_CHANGED_BY = 5

# No log is cleaned up so soon behind what somebody sees as its newest entry.
_MOMENT_SECONDS = 60.0

# Between a pipeline's newest commit and the newest one there may be those of maintenance and, in the ledger, of other pipelines.
_LOOKED_BACK = 1000


@dataclass(frozen=True, slots=True)
class LastCheckpoint:
    """What a log says of its newest checkpoint, in `words` of Delta's.

    version  -1 where there is none
    size     how many actions are in it
    plain    whether it is one file that names no others
    """

    version: int = -1
    size: int = 0
    plain: bool = True
    words: bytes = b""


def has_log(table: At) -> bool:
    """Whether there is a Delta log, by a look into its folder alone."""
    return files_at(table).has_files(LOG)


def tables_under(root: At) -> list[str]:
    """The folders right under a root that have a Delta log, in order; one that may not be read is passed by with a warning.

    Hidden ones are none: a table that `distributary resolve` put aside is one of those.
    """
    files = files_at(root)
    is_table = passing_unread(files, lambda folder: has_log(files.below(folder)))
    return [folder for folder in may_be_tables(files) if is_table(folder)]


def may_be_tables(root: Files) -> list[str]:
    """The folders right under a root by names that a table may have, in order: in a store others cannot be opened."""
    return [
        folder
        for folder in root.folders()
        if not folder.startswith(".") and (is_name(folder) or not root.remote)
    ]


def passing_unread(root: Files, ask: Callable[[str], T]) -> Callable[[str], T | None]:
    """The same question about a folder right under a root; None, with a warning, of one that may not be read, as it is kept for others."""

    def asked(folder: str) -> T | None:
        try:
            return ask(folder)
        except PermissionError as error:
            _log.warning("%s/%s is passed by, since it may not be read (%s)", root.url, folder, error)
            return None

    return asked


def is_whole(table: At, path: str) -> bool:
    """Whether a Parquet file is there from its first bytes to its last, as it is not where the power failed while it was written."""
    files = files_at(table)
    info = files.info(path)
    # Cut off behind its first bytes, both ends of it would be these.
    long = info is not None and info.size > 2 * len(_PARQUET)
    return long and files.ends(path, len(_PARQUET)) == (_PARQUET, _PARQUET)


def has_entry(table: At, version: int) -> bool:
    """Whether a version's entry is there (yet)."""
    return files_at(table).info(entry_path(version)) is not None


def entry_tag(table: At, version: int) -> str | None:
    """What tells a version's entry from every other file by its name; None where it is not there (any more).

    In a store that is its content: who put it knows that without a request.
    """
    files = files_at(table)
    if not files.remote:
        info = files.info(entry_path(version))
        return None if info is None else info.tag
    try:
        return _digest(files.read(entry_path(version)))
    except FileNotFoundError:
        return None


def tag_of(actions: Sequence[Mapping[str, Any]]) -> str:
    """The tag, in a store, of an entry with these actions."""
    return _digest(lines_of(actions))


def lines_of(actions: Sequence[Mapping[str, Any]]) -> bytes:
    """An entry with these actions, as it is in the log."""
    return b"".join(map(_line, actions))


def _line(action: Mapping[str, Any]) -> bytes:
    # delta-rs takes a character of the planes behind the first two, such as rare Chinese ones, for another where two escapes stand for it.
    try:
        return json.dumps(action, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        # Half a character, as a property in the settings may have it, can only be written by its escape.
        return json.dumps(action, separators=(",", ":")).encode() + b"\n"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def is_version(name: str) -> bool:
    """Whether a file of this name in a log is an entry, or a checkpoint of entries."""
    return bool(_ENTRY.fullmatch(name) or _CHECKPOINT.match(name))


def newest_version(table: At) -> int | None:
    """The version of the newest entry in a table's log, by a listing alone; None where there is no log."""
    names = filter(_ENTRY.fullmatch, files_at(table).names(LOG))
    return max((int(name.removesuffix(".json")) for name in names), default=None)


def last_checkpoint(place: Files) -> LastCheckpoint:
    """The newest checkpoint of a table's log, none where the log says nothing that can be read."""
    try:
        words = place.read(_LAST)
        found = json.loads(words)
        version, size = found["version"], found.get("size", 0)
        plain = not ({"parts", "v2Checkpoint"} & found.keys())
        return LastCheckpoint(int(version), int(size), plain, words)
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return LastCheckpoint()


def is_newest(table: At, version: int) -> bool:
    """Whether this version's entry is the last one; looking for the next costs microseconds."""
    return has_entry(table, version) and not has_entry(table, version + 1)


def put_entry(table: At, version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
    """Make these actions the table's next version; False where somebody else has made that version already.

    It survives a loss of power once it is synced, with those of all tables together. Raises SetupError on a file system
    without hard links.
    """
    return files_at(table).put_new(entry_path(version), lines_of(actions), durable=False)


def clocks() -> tuple[float, float]:
    """What goes on while a process stands still, and what goes on, or is put right, while a machine does."""
    return time.monotonic(), time.time()


def is_read(table: At, version: int, began: tuple[float, float] | None = None) -> bool:
    """Whether readers come to an entry that was just put: its number may have been free because the log was cleaned up beyond it.

    Where the entry before is still there, or none is behind it, they do; of a log without the former to which somebody else just added
    one nobody can tell, and then the answer is no. It takes requests in a store, which is asked where more than a moment went by since the
    table was looked at; `began` is what the clocks said then.
    """
    files = files_at(table)
    if files.remote and began is not None:
        passed = (abs(now - then) for now, then in zip(clocks(), began, strict=True))
        if max(passed) < _MOMENT_SECONDS:
            return True
    if version > 0 and files.info(entry_path(version - 1)) is not None:
        return True
    behind = files.names(LOG, after=entry_path(version).rpartition("/")[2])
    return not any(_ENTRY.fullmatch(name) or _CHECKPOINT.match(name) for name in behind)


def is_still_there(table: At, version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the entry of a version is (still) the one with these actions, the first of which has a `txnId`.

    On a local file system Delta's own store looks whether a version is there and then renames its entry to it.
    """
    files = files_at(table)
    if files.remote:
        return True
    try:
        told = entry(files, version)
    except FileNotFoundError:
        return False
    own = actions[0]["commitInfo"]["txnId"]
    return bool(commit_info(told).get("txnId") == own)


def sync_logs(root: At, folders: Iterable[str]) -> None:
    """Let the newest entries of these tables, and checkpoints of them, survive a loss of power, whoever wrote them."""
    files = files_at(root)
    if not files.remote:
        files.sync(path for folder in folders for path in _newest_entries(files, folder))


def write_again(root: At, paths: Iterable[str]) -> None:
    """Put these entries in their own place, as they are, and safe from a loss of power.

    A disk that did not take a file says once that it did not, and has forgotten it by the next time that it is asked to sync it.
    """
    files = files_at(root)
    for path in paths:
        files.put(path, files.read(path))


def newest_entries(root: At, folder: str) -> list[str]:
    """The paths of the entries by which a table came to be what it is just now."""
    return [path for path in _newest_entries(files_at(root), folder) if path.endswith(".json")]


def _newest_entries(root: Files, folder: str) -> list[str]:
    names = list(root.names(f"{folder}/{LOG}"))
    entries = sorted(filter(_ENTRY.fullmatch, names))[-_CHANGED_BY:]
    # Spark may have taken away what came before it.
    found = [name for name in names if entries and name[:20] >= entries[0][:20]]
    return [f"{folder}/{LOG}/{name}" for name in found if name in entries or _CHECKPOINT.match(name)]


def version_of(table: At, newest: int, app_id: str, number: int) -> tuple[int | None, bool]:
    """The version by which a transaction came into the table, looked for from `newest` backwards, and whether that is certain.

    It is not where an entry was cleaned up before an older one of the application was met, or a thousand versions lie between.
    """
    last = max(newest - _LOOKED_BACK, -1)
    for version in range(newest, last, -1):
        try:
            found = transactions_of(table, version).get(app_id)
        except FileNotFoundError:
            return None, False
        if found is not None and found <= number:
            return (version if found == number else None), True
    return None, last < 0


def transactions_of(table: At, version: int) -> dict[str, int]:
    """Those of a version, whose other actions are not looked at. Raises FileNotFoundError where its entry is not there (any more)."""
    return transactions_in(files_at(table).read(entry_path(version)))


def transactions_in(content: bytes) -> dict[str, int]:
    """The same of an entry's content."""
    told = (json.loads(line).get("txn") for line in content.splitlines() if b'"txn"' in line)
    return {action["appId"]: action["version"] for action in told if action is not None}


def entry(table: At, version: int) -> list[dict[str, Any]]:
    """The actions of a version. Raises FileNotFoundError where its entry is not there (any more)."""
    return _actions(files_at(table).read(entry_path(version)))


def tagged_entry(table: At, version: int) -> tuple[list[dict[str, Any]], str | None]:
    """The actions of a version and its tag, in a store by one request. Raises FileNotFoundError where its entry is not there (any more)."""
    content = files_at(table).read(entry_path(version))
    return _actions(content), _digest(content) if files_at(table).remote else entry_tag(table, version)


def commit_info(actions: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """What an entry with these actions says of itself; nothing where it does not, as it may be without."""
    return next((action["commitInfo"] for action in actions if "commitInfo" in action), {})


def _actions(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.splitlines()]


def commit_of(
    table: At, version: int, app_id: str, number: int
) -> tuple[Mapping[str, Any], Mapping[str, Mapping[str, str | None]]] | None:
    """What the commit of a transaction says of itself, and the files it added with the values of their partitions; looked for from a version of the table backwards.

    None where its entry is not among the newest thousand, or was cleaned up.
    """
    for candidate in range(version, max(version - _LOOKED_BACK, -1), -1):
        try:
            actions = entry(table, candidate)
        except FileNotFoundError:
            return None
        if any(_is_transaction(action.get("txn"), app_id, number) for action in actions):
            adds = [action["add"] for action in actions if "add" in action]
            return commit_info(actions), {
                unquote(add["path"]): add.get("partitionValues") or {} for add in adds
            }
    return None


def _is_transaction(action: Mapping[str, Any] | None, app_id: str, number: int) -> bool:
    return action is not None and (action["appId"], action["version"]) == (app_id, number)


def first_actions(
    schema: str,
    configuration: Mapping[str, str],
    comment: str = "",
    partitions: Sequence[str] = (),
    clustering: Sequence[Path] | None = None,
) -> list[dict[str, Any]]:
    """The first entry of a table with these columns, as Delta's JSON has them, whose rows may be marked as gone, or are clustered.

    delta-rs would have readers need what the one does not, and makes none of the other.
    """
    now = int(time.time() * 1000)
    read = ["deletionVectors"] if configuration.get(VECTORS) == "true" else []
    read += ["timestampNtz"] if '"timestamp_ntz"' in schema else []
    feed = ["changeDataFeed"] if configuration.get("delta.enableChangeDataFeed") == "true" else []
    lying = [] if clustering is None else [*FEATURES]
    return [
        {
            "protocol": {
                "minReaderVersion": 3 if read else 1,
                "minWriterVersion": 7,
                **({"readerFeatures": read} if read else {}),
                "writerFeatures": [*read, "appendOnly", "invariants", *feed, *lying],
            }
        },
        {
            "metaData": {
                "id": str(uuid.uuid4()),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema,
                "partitionColumns": list(partitions),
                "createdTime": now,
                "configuration": dict(configuration),
                **({"description": comment} if comment else {}),
            }
        },
        *([] if clustering is None else [clustering_action(clustering)]),
        {"commitInfo": {"timestamp": now, "operation": "CREATE TABLE", "engineInfo": ENGINE}},
    ]


def create_actions(
    like: Sequence[Mapping[str, Any]], configuration: Mapping[str, str], comment: str = ""
) -> list[dict[str, Any]]:
    """The first entry of a table whose columns and protocol are those of another one's first entry."""
    now = int(time.time() * 1000)
    found = {kind: content for action in like for kind, content in action.items()}
    own = {
        "id": str(uuid.uuid4()),
        "createdTime": now,
        "configuration": dict(configuration),
        "description": comment or None,
    }
    return [
        {"protocol": found["protocol"]},
        {"metaData": {**found["metaData"], **own}},
        *([{ACTION: found[ACTION]}] if ACTION in found else []),
        {"commitInfo": {"timestamp": now, "operation": "CREATE TABLE", "engineInfo": ENGINE}},
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
        "operationParameters": {"mode": "Append", "partitionBy": json.dumps(_partitions(files))},
        "operationMetrics": {
            "numFiles": str(len(files)),
            "numOutputRows": str(rows),
            "numOutputBytes": str(size),
        },
        "isBlindAppend": True,
        "engineInfo": ENGINE,
        # Its writer's own: who puts the same entry within the same millisecond is told that another was first.
        "txnId": str(uuid.uuid4()),
        **metadata,
    }
    return [
        {"commitInfo": info},
        {"txn": {"appId": app_id, "version": batch_id, "lastUpdated": now}},
        *({"add": _add(file, info)} for file, info in files),
    ]


def _partitions(files: Sequence[tuple[DataFile, Info]]) -> list[str]:
    return [name for name, _ in files[0][0].partition] if files else []


def _add(file: DataFile, info: Info) -> dict[str, Any]:
    return {
        "path": quote(file.name),
        "partitionValues": dict(file.partition),
        "size": file.bytes,
        "modificationTime": info.modified,
        "dataChange": True,
        "stats": file.statistics,
    }
