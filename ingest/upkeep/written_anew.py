"""Files of a table written anew, and the entry of ours that puts them in the others' place, beside whoever else commits."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias
from urllib.parse import quote, unquote

import pyarrow as pa

from distributary.ingest import failpoints
from distributary.ingest.clustering.cubes import BY, CUBE, PROVIDER, Portion, told
from distributary.ingest.clustering.sorting import write_sorted
from distributary.ingest.clustering.writing import Made, Target
from distributary.ingest.columns.clustering import Path
from distributary.ingest.log_paths import entry_path
from distributary.ingest.merge import live_files
from distributary.ingest.merge.columns import Unreadable
from distributary.ingest.merge.entry import removal
from distributary.ingest.merge.found import partition_of
from distributary.ingest.merge.live_files import LiveFiles
from distributary.ingest.merge.vectors import WrongVector
from distributary.ingest.parquet.statistics import Indexed
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.known import named_columns
from distributary.ingest.tables.log import CHANGES, ENGINE, entry, is_read, is_still_there, put_entry
from distributary.ingest.tables.state import TableState, state_of
from distributary.ingest.upkeep.compaction import ATTEMPTS, Compaction, Size, target_bytes

Plan: TypeAlias = Callable[[TableState, LiveFiles], Sequence[Portion]]
"""Which files of a table, all of one partition, are to be written anew together."""


def write_anew(
    place: Files, plan: Plan, why_not: Callable[[TableState], str], *, dry_run: bool = False
) -> Compaction:
    """Write files of a table anew, as far as a plan says so; each portion by an entry of its own.

    A rival that changed what was read makes it begin anew, some times. The new versions survive a loss of power when this
    returns. `dry_run` changes nothing, and tells about how many files would come of how many.

    why_not  in words why a table's files cannot be written anew; empty where they can

    Raises TableNotFoundError, other DeltaErrors where delta-rs cannot open the table, OSError where its place does not answer or a disk
    refuses to sync.
    """
    before: Size | None = None
    done = Compaction(Size(), Size())
    for _ in range(ATTEMPTS):
        state = state_of(opened(place), place)
        live = live_files.read(place, state.version)
        before = before or _size(live)
        done, planned = replace(done, before=before, after=_size(live)), plan(state, live)
        if not planned:
            return done
        if why := why_not(state):
            return replace(done, left=why)
        if dry_run:
            made = sum(-(-one.bytes // target_bytes(state.properties)) for one in planned)
            return replace(done, compacted=sum(len(one.files) for one in planned), made=made)
        try:
            whole, own = True, list[Mapping[str, Any]]()
            for one in planned:
                written = _written(place, state, one, own)
                if written is None:
                    whole = False
                    break
                version, made, actions = written
                if version == state.version + 1:
                    # Otherwise each would go through the entries of all before it. A rival's between them is to be held against all.
                    state, own = replace(state, version=version), actions
                done = replace(done, compacted=done.compacted + len(one.files), made=done.made + made)
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


def only_sparks(state: TableState) -> str:
    """In words why only Spark may write a table's files; empty where others may."""
    return "" if state.native else f"only Spark's writer may rewrite its rows ({state.why_not})"


def _size(live: LiveFiles) -> Size:
    return Size.of([int(add["size"]) for _, add in live])


def _written(
    place: Files, state: TableState, portion: Portion, own: Sequence[Mapping[str, Any]]
) -> tuple[int, int, list[Mapping[str, Any]]] | None:
    """By which version, in how many files and by which actions a portion was written anew; None where a rival changed what was read.

    `own` are the actions of the version that it goes on from, where that is of the portion before. Raises as `write_sorted`.
    """
    by, partition = state.clustering or (), _partition_of(portion)
    target = Target(
        pa.schema([one for one in state.layout if one.name not in partition]),
        by,
        Indexed.told(state.properties, named_columns(state)),
        target_bytes(state.properties),
    )
    made = write_sorted(place, list(portion.files.items()), target)
    place.sync(one.name for one in made)
    failpoints.reach(failpoints.AMID_UPKEEP, state.version)
    actions = _actions(portion, made, by)
    # Another writer's entry may have taken the place of ours, and what it changed be in this portion.
    rests = not own or is_still_there(place, state.version, own)
    version = _put(place, state.version + 1, portion, actions) if rests else None
    if version is None:
        place.delete([one.name for one in made])
        return None
    place.sync([entry_path(version)])
    return version, len(made), actions


def _partition_of(portion: Portion) -> Mapping[str, str | None]:
    return next(map(partition_of, portion.files.values()), {})


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


def _actions(portion: Portion, made: Sequence[Made], by: Sequence[Path]) -> list[Mapping[str, Any]]:
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
    partition = _partition_of(portion)
    return [
        {"commitInfo": info},
        *({"remove": removal(add, now, data_change=False)} for add in portion.files.values()),
        *({"add": {**_add(one, now, partition), **lying}} for one in made),
    ]


def _add(made: Made, now: int, partition: Mapping[str, str | None]) -> dict[str, Any]:
    return {
        "path": quote(made.name),
        "partitionValues": dict(partition),
        "size": made.bytes,
        "modificationTime": now,
        "dataChange": False,
        "stats": made.statistics,
    }
