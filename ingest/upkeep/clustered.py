"""Files of a clustered table brought together in the order of its curve, by entries of ours: delta-rs writes to none of these tables."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa

from distributary.ingest import failpoints
from distributary.ingest.clustering.cubes import BY, CUBE, PROVIDER, Portion, portions, told
from distributary.ingest.clustering.sorting import write_sorted
from distributary.ingest.clustering.writing import Made, Target
from distributary.ingest.columns.clustering import Path, spelled, type_at
from distributary.ingest.log_paths import entry_path
from distributary.ingest.merge import live_files
from distributary.ingest.merge.columns import Unreadable
from distributary.ingest.merge.entry import removal
from distributary.ingest.merge.live_files import LiveFiles
from distributary.ingest.merge.vectors import WrongVector
from distributary.ingest.parquet.statistics import Indexed
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.known import named_columns
from distributary.ingest.tables.log import CHANGES, ENGINE, entry, is_read, put_entry
from distributary.ingest.tables.state import TableState, state_of
from distributary.ingest.upkeep.compaction import ATTEMPTS, Compaction, Size, target_bytes


def cluster(place: Files, *, dry_run: bool = False) -> Compaction:
    """Write files of a clustered table anew, in the order of its curve, as far as that is worth it; each portion by an entry of its own.

    A rival that changed what was read makes it begin anew, some times. The new versions survive a loss of power when this
    returns. `dry_run` changes nothing, and tells about how many files would come of how many.

    Raises TableNotFoundError, other DeltaErrors where delta-rs cannot open the table, OSError where its place does not answer or a disk
    refuses to sync.
    """
    before: Size | None = None
    done = Compaction(Size(), Size())
    for _ in range(ATTEMPTS):
        state = state_of(opened(place), place)
        live = live_files.read(place, state.version)
        sizes = _size(live)
        before = before or sizes
        done = replace(done, before=before, after=sizes)
        target = target_bytes(state.properties)
        planned = portions(live, state.clustering or (), target)
        if not planned:
            return done
        if why := _why_not(state):
            return replace(done, left=why)
        if dry_run:
            made = sum(-(-one.bytes // target) for one in planned)
            return replace(done, compacted=sum(len(one.files) for one in planned), made=made)
        try:
            whole = True
            for one in planned:
                made_of = _rewritten(place, state, one)
                if made_of is None:
                    whole = False
                    break
                done = replace(done, compacted=done.compacted + len(one.files), made=done.made + made_of)
        except FileNotFoundError:
            # Somebody brought its rows into another file, and cleaned up.
            continue
        except (Unreadable, WrongVector) as error:
            return replace(done, left=str(error))
        if whole:
            return replace(done, after=_size(live_files.read(place, opened(place).version())))
    return replace(
        done,
        left=f"{ATTEMPTS} times a batch changed files while they were brought together; the next time will do",
    )


def _why_not(state: TableState) -> str:
    """Why a table's rows cannot be sorted here; empty where they can."""
    if not state.native:
        return f"only Spark's writer may rewrite its rows ({state.why_not})"
    if unsorted := spelled(path for path in state.clustering or () if not _has_order(state, path)):
        return f"it is clustered by {unsorted}, which it has not as something that has an order: cluster it by other columns"
    return ""


def _has_order(state: TableState, path: Path) -> bool:
    """Whether rows can be sorted by a column: who writes a log may name any, or take it from the table."""
    dtype = type_at(state.layout, path)
    return dtype is not None and not pa.types.is_nested(dtype)


def _size(live: LiveFiles) -> Size:
    return Size.of([int(add["size"]) for _, add in live])


def _rewritten(place: Files, state: TableState, portion: Portion) -> int | None:
    """In how many files a portion was written anew; None where a rival changed what was read."""
    by = state.clustering or ()
    target = Target(
        state.layout,
        by,
        Indexed.told(state.properties, named_columns(state)),
        target_bytes(state.properties),
    )
    made = write_sorted(place, list(portion.files.items()), target)
    place.sync(one.name for one in made)
    failpoints.reach(failpoints.AMID_UPKEEP, state.version)
    version = _put(place, state.version + 1, portion, _actions(portion, made, by))
    if version is None:
        place.delete([one.name for one in made])
        return None
    place.sync([entry_path(version)])
    return len(made)


def _put(place: Files, version: int, portion: Portion, actions: Sequence[Mapping[str, Any]]) -> int | None:
    """The version that an entry made, behind those that change nothing of what it rests on; None where one does.

    Raises FileNotFoundError where the log was cleaned up beyond it.
    """
    while not put_entry(place, version, actions):
        rival = entry(place, version)
        gone = {unquote(action["remove"]["path"]) for action in rival if "remove" in action}
        # A file of which more rows are marked is taken away and added again.
        if gone & portion.files.keys() or any(CHANGES & action.keys() for action in rival):
            return None
        version += 1
    # To sort takes so long that the log may have been cleaned up beyond that number.
    if not is_read(place, version):
        # Its files stay: where nobody can tell, the entry may be read all the same.
        raise FileNotFoundError(f"{place}: nobody reads version {version}")
    return version


def _actions(portion: Portion, made: Sequence[Made], by: Sequence[Path]) -> list[dict[str, Any]]:
    now = int(time.time() * 1000)
    info = {
        "timestamp": now,
        "operation": "OPTIMIZE",
        "operationParameters": {
            "predicate": "[]",
            "zOrderBy": "[]",
            "clusterBy": json.dumps([".".join(path) for path in by]),
            "auto": "false",
        },
        "operationMetrics": {
            "numRemovedFiles": str(len(portion.files)),
            "numFiles": str(len(made)),
            "numAddedFiles": str(len(made)),
            "numRemovedBytes": str(portion.bytes),
            "numAddedBytes": str(sum(one.bytes for one in made)),
        },
        "isBlindAppend": False,
        "engineInfo": ENGINE,
        "txnId": str(uuid.uuid4()),
    }
    lying = {"clusteringProvider": PROVIDER, "tags": {CUBE: uuid.uuid4().hex, BY: told(by)}} if by else {}
    return [
        {"commitInfo": info},
        *({"remove": removal(add, now, data_change=False)} for add in portion.files.values()),
        *({"add": {**_add(one, now), **lying}} for one in made),
    ]


def _add(made: Made, now: int) -> dict[str, Any]:
    return {
        "path": quote(made.name),
        "partitionValues": {},
        "size": made.bytes,
        "modificationTime": now,
        "dataChange": False,
        "stats": made.statistics,
    }
