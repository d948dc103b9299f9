"""What there is to make tables of: the pipeline's tables, each at a version that a whole batch has, and the entities that they are of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from distributary.ingest.checkpoint.generation import app_of
from distributary.ingest.columns.safe_names import OUR_NAMES
from distributary.ingest.commit_log.owners import Records
from distributary.ingest.storage.contract import Files
from distributary.ingest.table_versions import Versions
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.known import ENTITY_PROPERTY
from distributary.ingest.tables.log import newest_version, transactions_of

# How the applications of batches end, and what is in those of replays.
_EVENTS, _REPLAY = "/events", "/replay/"


def versions_now(root: Files, found: Versions) -> dict[str, int]:
    """The newest versions that have no later batch: upkeep may have deleted files since that a batch's own version names."""
    now = dict[str, int]()
    for one in found.tables:
        place, app, version = root.below(one.table), app_of(found.generation, one.table), one.version
        while (told := _transactions(place, version + 1)) is not None:
            if told.get(app, found.batch) > found.batch:
                break
            version += 1
        now[one.table] = version
    return {**now, **dict(_brought_back(root, found.pipeline, now))}


def entities_of(root: Files, versions: Mapping[str, int], named: Mapping[str, str]) -> dict[str, str]:
    """The entities with the folders of their tables; `named` are those that the newest batch knows, to which those come whose tables replays made."""
    others = sorted(versions.keys() - {*named.values(), *OUR_NAMES})
    told = {folder: opened(root.below(folder)).metadata().configuration for folder in others}
    mine = {
        told[folder][ENTITY_PROPERTY]: folder
        for folder in others
        if told[folder].get(ENTITY_PROPERTY) is not None
    }
    return {**mine, **named}


def _brought_back(root: Files, pipeline: str, known: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Tables of a pipeline in which there are records that were replayed, and of no batch so far."""
    records = Records(root)
    for table, numbers in records.tables().items():
        if table in known:
            continue
        _, owner = records.newest(table, numbers)
        version = None if owner is None or owner.pipeline != pipeline else _of_replays(root.below(table))
        if version is not None:
            yield table, version


def _of_replays(place: Files) -> int | None:
    """The last version before the first batch, if there is a replay among those up to it; None where there is not, or the log does not tell any more."""
    newest, replayed = newest_version(place), False
    for version in range(0 if newest is None else newest + 1):
        told = _transactions(place, version)
        if told is None:
            return None
        if any(app.endswith(_EVENTS) for app in told):
            return version - 1 if replayed else None
        replayed = replayed or any(_REPLAY in app for app in told)
    return newest if replayed else None


def _transactions(place: Files, version: int) -> Mapping[str, int] | None:
    try:
        return transactions_of(place, version)
    except FileNotFoundError:
        return None
