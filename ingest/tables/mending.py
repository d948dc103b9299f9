"""What a loss of power left of a table's log, made readable again before anybody reads it.

Entries that nobody had synced may be empty, cut off, or name data files that are; so may checkpoints of the log. Of ours such a
one is of the newest batch at most, which is committed again by then. Those of others lost what they said: nobody has it any more.
"""

from __future__ import annotations

import json
import logging
import re
import time
import uuid
import zlib
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from distributary.errors import CheckpointMismatch
from distributary.ingest.log_paths import LOG, entry_path, entry_version
from distributary.ingest.merge.vectors import file_of
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.posix import PosixFiles
from distributary.ingest.tables.log import ENGINE, commit_info, entry, is_whole, transactions_of, write_again

_log = logging.getLogger(__name__)

_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.(?:.+\.)?(?:parquet|json)")

# Spark's sums of a version, which it makes anew.
_SUMS = re.compile(r"\.?(\d{20})\.crc(?:\.crc)?")

_MOST_LOOKED_AT = 1000

# Another start mends a log in milliseconds, unless it stands still.
_MOST_WAITED_SECONDS = 30.0

# What entries say of how many files they add and remove: ours, those of delta-rs and Spark that write rows anew, and those by which delta-rs
# writes rows, if only in the place of others as upkeep does. Spark's count there what it calls otherwise.
_OURS: Mapping[str, str] = {"numFiles": "add", "numRemovedFiles": "remove", "numTransactions": "txn"}
_REWRITING = {"OPTIMIZE", "DELETE", "UPDATE", "MERGE"}
_REWRITTEN: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "numFilesAdded",
            "numAddedFiles",
            "num_added_files",
            "numTargetFilesAdded",
            "num_target_files_added",
        ),
        "add",
    ),
    **dict.fromkeys(
        (
            "numFilesRemoved",
            "numRemovedFiles",
            "num_removed_files",
            "numTargetFilesRemoved",
            "num_target_files_removed",
        ),
        "remove",
    ),
}
_WRITTEN: Mapping[str, str] = {"num_added_files": "add", "num_removed_files": "remove"}

# A path is encoded as in a URI, so that only what names a scheme has a colon there. Spark has one slash behind it: `file:/lake/...`.
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")

# Applications that commit one thing only when the one before it is synced: what pipelines of ours commit to tables of each role, and replays.
_ONE_BY_ONE = re.compile(r"/(?:events|quarantine|batches|changes|bronze|replay)$")

# With so many letters Parquet files begin and end: others where they are encrypted.
_MAGIC = 4

# Of Hadoop's files of sums: a head, and four bytes for so many of the file.
_SUMMED = 512
_HEAD = b"crc\0" + _SUMMED.to_bytes(4, "big")

# In its file a vector has its size before it and its sum behind it, each a number of so many bytes.
_NUMBER = 4

# Whether a transaction, by its application and its number, was synced, and with it all before it.
Synced = Callable[[str, int], bool]

# A file's path, and what of it is deleted: a vector, and where in its file that begins.
_File = tuple[str, str | None, int | None]


def mend(table: Files, synced: Synced) -> list[int]:
    """The versions that a loss of power had damaged, each an entry now that changes nothing; whoever was to be in is not any more.

    Raises CheckpointMismatch where nothing but a copy helps, and PipelineError where another process mends it and does not end.
    """
    if not isinstance(table, PosixFiles) or _is_as_left(table, synced) or not table.has_files(LOG):
        return []
    damaged = list[int]()
    # Who only looks waits for nobody: a run that stands still in the block below would keep all others from starting.
    names = list(table.names(LOG))
    if _is_damaged(table, names, synced):
        # Two pipelines that share a table may both start now: what one finds damaged the other may have made anew by then.
        with table.locked(LOG, _MOST_WAITED_SECONDS):
            damaged = _mended(table, synced)
        names = list(table.names(LOG))
    _put_anew(table, names, synced)
    return damaged


def damaged_entries(table: Files) -> list[int]:
    """The versions behind the newest checkpoint of a log whose entries were emptied or cut off, which readers take for commits of nothing; all stay as they are."""
    names = list(table.names(LOG))
    base = max((int(one[1]) for name in names if (one := _CHECKPOINT.fullmatch(name))), default=-1)
    found = list[int]()
    for version in sorted(version for version in _versions(names) if version > base):
        # Whoever writes there may clean up meanwhile.
        with suppress(FileNotFoundError):
            actions = _actions(table.read(entry_path(version))) or []
            # Behind a whole line as well: of ours, as others may count otherwise.
            ours = any(action.get("commitInfo", {}).get("engineInfo") == ENGINE for action in actions)
            found += [version] if not actions or (ours and not _is_whole(actions, version)) else []
    return found


def _put_anew(table: Files, names: Sequence[str], synced: Synced) -> None:
    """Put what may not have been synced in its own place, as it is, and safe from a loss of power.

    The run before may have ended because a disk did not take it. Asked once more such a disk says that it has it, and until the
    power fails everybody reads it.
    """
    newest = max(_versions(names), default=-1)
    first, found, known = newest + 1, list[str](), set[str]()
    for version in range(newest, max(newest - _MOST_LOOKED_AT, -1), -1):
        try:
            told = transactions_of(table, version)
        except FileNotFoundError:
            break
        if any(synced(app, number) for app, number in told.items()):
            break
        first = version
        # Of the thousands that another pipeline may have in a ledger of several only its newest one may not be.
        if not told or not known.issuperset(told):
            found.append(entry_path(version))
        known |= {app for app in told if _ONE_BY_ONE.search(app)}
    found += [
        f"{LOG}/{name}" for name in names if (one := _CHECKPOINT.fullmatch(name)) and int(one[1]) >= first
    ]
    for path in found:
        # Spark takes away what is old, whenever it likes.
        with suppress(FileNotFoundError):
            write_again(table, [path])


def _is_damaged(table: Files, names: Sequence[str], synced: Synced) -> bool:
    """Whether a log has anything that is to be put right, or is changed just now."""
    base, broken = _broken_checkpoints(table, names)
    try:
        return bool(broken or _damaged(table, _versions(names), base, names, synced))
    except FileNotFoundError:
        return True


def _versions(names: Sequence[str]) -> set[int]:
    return {version for name in names if (version := entry_version(name)) is not None}


def _mended(table: Files, synced: Synced) -> list[int]:
    names = list(table.names(LOG))
    base, broken = _broken_checkpoints(table, names)
    if broken:
        table.delete(f"{LOG}/{name}" for name in broken)
    versions = _versions(names)
    damaged = _damaged(table, versions, base, names, synced)
    if damaged:
        _void(table, damaged, versions, base, names)
        _log.warning(
            "table %s: a loss of power took version %s of its log", table, ", ".join(map(str, damaged))
        )
    return damaged


def _is_as_left(table: Files, synced: Synced) -> bool:
    """Whether nothing happened to a log, as is usual; without a look at all names of it, which may be many."""
    try:
        version = json.loads(table.read(f"{LOG}/_last_checkpoint"))["version"]
        if not _is_checkpoint(table, _checkpoint(version)):
            return False
        while table.info(entry_path(version + 1)) is not None:
            version += 1
            if table.info(_checkpoint(version)) is not None:
                return False  # newer than the one that is told of
        actions = _actions(table.read(entry_path(version)))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return False
    if actions is None or not (_is_whole(actions, version) and _are_there(table, actions, set())):
        return False
    _without_wrong_sums(table, entry_path(version))
    return any(synced(one["txn"]["appId"], one["txn"]["version"]) for one in actions if "txn" in one)


def _checkpoint(version: int) -> str:
    return f"{LOG}/{version:020d}.checkpoint.parquet"


def _broken_checkpoints(table: Files, names: Sequence[str]) -> tuple[int, list[str]]:
    """The newest checkpoint of the log that can be read, -1 where there is none, and the names of newer ones and of words that lead to them."""
    found = {name: int(one[1]) for name in names if (one := _CHECKPOINT.fullmatch(name))}
    base, broken = -1, list[str]()
    for version in sorted(set(found.values()), reverse=True):
        parts = [name for name, of in found.items() if of == version]
        if all(_is_checkpoint(table, f"{LOG}/{name}") for name in parts):
            base = version
            break
        broken += parts
    if "_last_checkpoint" in names and not _is_told(table, base):
        broken.append("_last_checkpoint")
    return base, broken


def _is_checkpoint(table: Files, path: str) -> bool:
    if path.endswith(".json"):
        return _actions(table.read(path)) is not None
    return is_whole(table, path)


def _is_told(table: Files, base: int) -> bool:
    try:
        return bool(json.loads(table.read(f"{LOG}/_last_checkpoint"))["version"] <= base)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return False


def _damaged(table: Files, versions: set[int], base: int, names: Sequence[str], synced: Synced) -> list[int]:
    """The versions that mean nothing any more, the newest first: damaged ones, and those that rest on what these had said."""
    lost, found = set[int](), _lost(table, versions, base, synced, set())
    while found != lost:
        lost = found | _resting_on(found, table, versions, base, names)
        # What one of them had removed is there again, and has to be.
        found = _lost(table, versions, base, synced, lost)
    return sorted(lost, reverse=True)


def _lost(table: Files, versions: set[int], base: int, synced: Synced, known: AbstractSet[int]) -> set[int]:
    """The versions that are damaged, and those that are known to be lost."""
    found, removed = set[int](), set[str]()
    newest = max(versions, default=-1)
    for version in range(newest, max(newest - _MOST_LOOKED_AT, -1), -1):
        if version not in versions:
            _require_cleaned_up(table, version, base)
            break
        _without_wrong_sums(table, entry_path(version))
        actions = None if version in known else _actions(table.read(entry_path(version)))
        if actions is None or not (_is_whole(actions, version) and _are_there(table, actions, removed)):
            found.add(version)
            continue
        removed |= {action["remove"]["path"] for action in actions if "remove" in action}
        if any(synced(one["txn"]["appId"], one["txn"]["version"]) for one in actions if "txn" in one):
            break
    return found


def _resting_on(
    lost: AbstractSet[int], table: Files, versions: set[int], base: int, names: Sequence[str]
) -> set[int]:
    """Later versions that remove a file which is not there without those that are lost: they have its rows, which come again.

    One of after the loss of power, when nobody read what is lost any more, removes no such file, and stays.
    """
    later = {version for version in versions - lost if version > min(lost, default=max(versions))}
    there = _in_checkpoint(table, base, names) if later else None
    if there is None:
        return set()
    found = set[int]()
    for version in sorted(versions - lost):
        if version <= base:
            continue
        actions = entry(table, version)
        gone = {_file(action["remove"]) for action in actions if "remove" in action}
        if version in later and not gone <= there:
            found.add(version)
            continue
        there -= gone
        there |= {_file(action["add"]) for action in actions if "add" in action}
    return found


def _in_checkpoint(table: Files, base: int, names: Sequence[str]) -> set[_File] | None:
    """The files that a checkpoint names; None where it names other files that do."""
    found = set[_File]()
    for name in names:
        if (one := _CHECKPOINT.fullmatch(name)) is None or int(one[1]) != base:
            continue
        try:
            content = pq.read_table(pa.BufferReader(table.read(f"{LOG}/{name}")))
        except pa.ArrowException:
            return None
        if "sidecar" in content.column_names and content["sidecar"].null_count < content.num_rows:
            return None
        found |= {_file(add) for add in content["add"].to_pylist() if add is not None}
    return found


def _file(action: Mapping[str, Any]) -> _File:
    """Which file is added or removed: with other rows deleted it is another one."""
    vector = action.get("deletionVector") or {}
    return unquote(action["path"]), vector.get("pathOrInlineDv"), vector.get("offset")


def _require_cleaned_up(table: Files, version: int, base: int) -> None:
    if version > base:
        raise CheckpointMismatch(
            f"table {table}: version {version} of its log is gone, and later ones are there. Restore the table from a copy, or "
            "move it away: it is made anew then, and `distributary verify` tells what it lacks"
        )


def _actions(content: bytes) -> list[dict[str, Any]] | None:
    """What an entry says; None of one that was emptied or cut off."""
    try:
        actions: list[dict[str, Any]] = [json.loads(line) for line in content.splitlines()]
    except ValueError:
        return None
    return actions if actions and all(isinstance(action, dict) for action in actions) else None


def _is_whole(actions: Sequence[Mapping[str, Any]], version: int) -> bool:
    """Whether no line is missing, as far as that can be told: a table begins with two, and many say how many files they add and remove."""
    kinds = [kind for action in actions for kind in action]
    if version == 0:
        return {"protocol", "metaData"} <= set(kinds)
    info = commit_info(actions)
    metrics = info.get("operationMetrics") or {}
    told = (
        _OURS
        if info.get("engineInfo") == ENGINE
        else _REWRITTEN
        if info.get("operation") in _REWRITING
        else _WRITTEN
    )
    named = all(int(metrics.get(name, 0)) <= kinds.count(kind) for name, kind in told.items())
    return named and (info.get("operation") != "WRITE" or _has_all_rows(actions, info))


def _has_all_rows(actions: Sequence[Mapping[str, Any]], info: Mapping[str, Any]) -> bool:
    """Whether the files that an entry appends have the rows that were written; Spark counts empty files, too, which are in none."""
    written = (info.get("operationMetrics") or {}).get("numOutputRows")
    told = [json.loads(action["add"].get("stats") or "{}") for action in actions if "add" in action]
    appends = (info.get("operationParameters") or {}).get("mode") == "Append"
    if written is None or not appends or not all("numRecords" in one for one in told):
        return True
    return int(written) <= sum(int(one["numRecords"]) for one in told)


def _are_there(table: Files, actions: Sequence[Mapping[str, Any]], removed: set[str]) -> bool:
    """Whether an entry's files are, but for those that later ones removed."""
    adds = (action["add"] for action in actions if "add" in action)
    return all(_is_there(table, add) for add in adds if add["path"] not in removed)


def _is_there(table: Files, add: Mapping[str, Any]) -> bool:
    if _ABSOLUTE.match(add["path"]):
        return True  # another table's, which this one is a shallow clone of
    name = unquote(add["path"])
    _without_wrong_sums(table, name)
    info = table.info(name)
    if info is None or info.size != add["size"]:
        return False
    # Blocks that were given to a file and never written are blank, and it has its size.
    return bytes(_MAGIC) not in table.ends(name, _MAGIC) and _is_deletion_there(table, add)


def _is_deletion_there(table: Files, add: Mapping[str, Any]) -> bool:
    """Whether there is what says which of a file's rows are deleted, if any are."""
    vector = add.get("deletionVector")
    name = None if vector is None else file_of(vector)
    if vector is None or name is None:
        return True  # in the entry itself, or another table's
    _without_wrong_sums(table, name)
    begin, size = vector.get("offset", 0), vector["sizeInBytes"]
    try:
        found = table.read(name)[begin : begin + size + 2 * _NUMBER]
    except FileNotFoundError:
        return False
    bits = found[_NUMBER:-_NUMBER]
    return len(bits) == size and found == _number(size) + bits + _number(zlib.crc32(bits))


def _number(value: int) -> bytes:
    return value.to_bytes(_NUMBER, "big")


def _without_wrong_sums(table: Files, path: str) -> None:
    """Hadoop's sums of a file, which are none of it, go: Spark would read that no more."""
    folder, _, name = path.rpartition("/")
    sums, of = table.info(f"{folder}/.{name}.crc".lstrip("/")), table.info(path)
    if sums is None:
        return
    right = of is not None and sums.size == len(_HEAD) + 4 * -(-of.size // _SUMMED)
    if not right or table.ends(sums.path, len(_HEAD))[0] != _HEAD:
        table.delete([sums.path])


def _void(table: Files, damaged: Sequence[int], versions: set[int], base: int, names: Sequence[str]) -> None:
    """Put entries that change nothing in the place of these. Nobody has read them, as they were never whole, and two may do it."""
    first = min(damaged)
    if first == 0 and base < 0 and versions <= set(damaged):
        # It was being made, and is made once more. Its beginning last: of a log without one nobody knows that it was.
        table.delete(f"{LOG}/{name}" for name in sorted(names, reverse=True))
        return
    if first == 0 and base < 0:
        raise CheckpointMismatch(
            f"table {table}: the first version of its log is damaged, and later ones are there. Restore the table from a copy, or "
            "move it away: it is made anew then, and `distributary verify` tells what it lacks"
        )
    late = [name for name in names if _is_late(name, first)]
    if _is_readable_without(late, versions, names):
        table.delete(f"{LOG}/{name}" for name in late)
        if late:
            table.delete([f"{LOG}/_last_checkpoint"])
    # The newest first: one that rests on another is told by that one.
    for version in damaged:
        table.put(entry_path(version), _nothing())
        table.delete([f"{LOG}/.{version:020d}.json.crc"])


def _is_late(name: str, first: int) -> bool:
    found = _CHECKPOINT.fullmatch(name) or _SUMS.fullmatch(name)
    return found is not None and int(found[1]) >= first


def _is_readable_without(late: Sequence[str], versions: set[int], names: Sequence[str]) -> bool:
    """Whether a log without these has all that it needs from its beginning, or from a checkpoint before them."""
    earlier = (int(one[1]) for name in names if name not in late and (one := _CHECKPOINT.fullmatch(name)))
    return set(range(max(earlier, default=-1) + 1, max(versions) + 1)) <= versions


def _nothing() -> bytes:
    now = int(time.time() * 1000)
    info = {
        "inCommitTimestamp": now,
        "timestamp": now,
        "operation": "LOST WITH THE POWER",
        "operationParameters": {},
        "engineInfo": ENGINE,
        "txnId": str(uuid.uuid4()),
    }
    return json.dumps({"commitInfo": info}, separators=(",", ":")).encode() + b"\n"
