"""Bringing small files of a table together in large ones, by delta-rs, beside whoever else commits to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable, PostCommitHookProperties
from deltalake.exceptions import CommitFailedError, DeltaError

from distributary.errors import DistributaryError, unforeseen
from distributary.ingest import failpoints
from distributary.ingest.clustering.cubes import bins
from distributary.ingest.log_paths import entry_path
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log import commit_info, entry
from distributary.ingest.tables.state import state_of
from distributary.values import without_logins

_TARGET = "delta.targetFileSize"

_TARGET_BYTES = 128 * 2**20

_SIZE = re.compile(r"(\d+)([kmgt]?)b?", re.IGNORECASE)

_FACTORS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}

CANNOT_REWRITE = "delta-rs cannot rewrite its rows"
"""What is said of a table that delta-rs reads and does not bring together, as where a field was added within a map's values."""

# As Rust's own failures reach Python: https://docs.rs/pyo3/latest/pyo3/panic/struct.PanicException.html
_PANIC = "PanicException"

# How often a compaction is begun anew because a batch changed what it read.
ATTEMPTS = 4

# One large file after the other: each takes some three times its size in memory. What is sorted goes to a disk beyond this.
_TASKS, _MEMORY_BYTES = 1, 512 * 2**20

# Its entry alone: checkpoints and cleaning up are the pipeline's, which syncs the one before it does the other.
NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


@dataclass(frozen=True, slots=True)
class Size:
    """Some files.

    files  how many
    bytes  of all together
    """

    files: int = 0
    bytes: int = 0

    @classmethod
    def of(cls, sizes: Sequence[int]) -> Size:
        """Files of these sizes."""
        return cls(len(sizes), sum(sizes))


@dataclass(frozen=True, slots=True)
class Compaction:
    """What became of a table's files.

    before     those that it had
    after      those that it has
    compacted  how many were brought together, or would be
    made       in how many
    left       why it was left as it is, though there may be something to bring together; empty where there is no such reason
    """

    before: Size
    after: Size
    compacted: int = 0
    made: int = 0
    left: str = ""


def compact(place: Files, *, dry_run: bool = False) -> Compaction:
    """Bring a table's small files together, as far as at least two of them fit one.

    A rival that changed what was read makes it begin anew, some times. The new version survives a loss of power when this
    returns. `dry_run` changes nothing, and tells about how many files would come of how many.

    Raises TableNotFoundError, other DeltaErrors where delta-rs cannot open the table, OSError where its place does not answer or a disk
    refuses to sync.
    """
    handle = opened(place)
    before = Size.of(_all(_sizes(handle)))
    for _ in range(ATTEMPTS):
        state, parts = state_of(handle, place), _sizes(handle)
        sizes, target = _all(parts), target_bytes(state.properties)
        planned = [one for part in parts for one in packed(part, target)]
        if not planned:
            return Compaction(before, Size.of(sizes))
        if not state.native:
            return Compaction(
                before, Size.of(sizes), left=f"only Spark's writer may rewrite its rows ({state.why_not})"
            )
        if dry_run:
            return Compaction(before, Size.of(sizes), sum(map(len, planned)), len(planned))
        version = handle.version()
        try:
            told = handle.optimize.compact(
                target_size=target,
                max_concurrent_tasks=_TASKS,
                max_spill_size=_MEMORY_BYTES,
                post_commithook_properties=NO_HOOKS,
            )
        except CommitFailedError:
            # Of what a rival took away, or marked rows of, a copy was made. That copy is in no version.
            handle = opened(place)
            continue
        except DeltaError as error:
            # What it says may quote a value of a row.
            why = f"{CANNOT_REWRITE} ({type(error).__name__}); Spark's OPTIMIZE may"
            return Compaction(before, Size.of(sizes), left=why)
        sync(place, range(version + 1, handle.version() + 1), "OPTIMIZE")
        return Compaction(
            before, Size.of(_all(_sizes(handle))), told["numFilesRemoved"], told["numFilesAdded"]
        )
    return Compaction(
        before,
        Size.of(_all(_sizes(handle))),
        left=f"{ATTEMPTS} times a batch changed files while they were brought together; the next time will do",
    )


def packed(sizes: Iterable[int], target: int) -> list[list[int]]:
    """The files, by their sizes, that fit one of the target's size together; those that fit none with another are left out."""
    return bins(sizes, int, target)


def target_bytes(properties: Mapping[str, str]) -> int:
    """How large files are to become, by a table's own word or else 128 MiB; so, too, where it says nothing that a file can have."""
    found = _SIZE.fullmatch(properties.get(_TARGET, "").strip())
    return (0 if found is None else int(found[1]) * _FACTORS[found[2].lower()]) or _TARGET_BYTES


def said(error: Exception) -> str:
    """What delta-rs says of an error, in its first sentence."""
    return without_logins(str(error)).strip().partition("\n")[0]


def fault(error: BaseException) -> str:
    """Why one of several tables failed, whatever that was: of what nobody has foreseen where it was, as its words may quote a value of a row.

    Raises what is no fault of a table's: whatever asks the program to end.
    """
    if isinstance(error, DeltaError | DistributaryError | OSError | ValueError):
        return said(error)
    # What a native library comes to its own end by is no Exception.
    ends = not isinstance(error, Exception) and type(error).__name__ != _PANIC
    if ends or isinstance(error, failpoints.Failpoint):
        raise error
    return unforeseen(error)


def _sizes(handle: DeltaTable) -> list[list[int]]:
    """The sizes of the files of each partition; of a table that is whole all are of one."""
    files = pa.table(handle.get_add_actions(flatten=True))
    by = [files[f"partition.{name}"].to_pylist() for name in handle.metadata().partition_columns]
    found: dict[tuple[Any, ...], list[int]] = {}
    for place, size in enumerate(files["size_bytes"].to_pylist()):
        found.setdefault(tuple(values[place] for values in by), []).append(size)
    return list(found.values())


def _all(parts: Iterable[Sequence[int]]) -> list[int]:
    return [size for part in parts for size in part]


def sync(place: Files, versions: Iterable[int], operation: str) -> None:
    """Have new versions of others' making survive a loss of power: nothing that they replace may go before."""
    if place.remote:
        return
    for version in versions:
        actions = entry(place, version)
        if commit_info(actions).get("operation") == operation:
            added = [unquote(action["add"]["path"]) for action in actions if "add" in action]
            place.sync([*added, entry_path(version)])
