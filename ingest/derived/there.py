"""What there is to make tables of: the pipeline's tables, each at a version that a whole batch has, and the entities that they are of."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from deltalake.exceptions import DeltaError

from distributary.ingest.checkpoint.generation import app_of
from distributary.ingest.columns.safe_names import OUR_NAMES
from distributary.ingest.storage.contract import Files
from distributary.ingest.table_versions import EVENTS, Versions
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.known import ENTITY_PROPERTY
from distributary.ingest.tables.log import transactions_of
from distributary.ingest.tables.transaction import is_of_batch


def versions_now(root: Files, found: Versions, own: str | None = None) -> dict[str, int]:
    """The newest versions that have no later batch: upkeep may have deleted files since that a batch's own version names.

    own  the checkpoint's generation, of which no batch is whole yet where those that were found are of another one

    Raises PipelineError where a table cannot be opened: without its rows the rest would be wrong.
    """
    found.require_readable()
    under_way = () if own is None or own == found.generation else (own,)
    now = dict[str, int]()
    for one in found.tables:
        place, app, version = root.below(one.table), app_of(found.generation, one.table), one.version
        while (told := _transactions(place, version + 1)) is not None:
            is_later = told.get(app, found.batch) > found.batch
            # An entity's table has one owner after the other.
            theirs = (other for other in told if other != app)
            if is_later or any(one.endswith(EVENTS) or is_of_batch(one, *under_way) for one in theirs):
                break
            version += 1
        now[one.table] = version
    return now


def entities_of(
    root: Files, versions: Mapping[str, int], named: Mapping[str, str], folder_of: Callable[[str], str]
) -> dict[str, str]:
    """The entities with the folders of their tables; `named` are those that the newest batch knows, to which those come whose tables replays, or an earlier checkpoint, made.

    An entity that has several, as where `route.table` named them otherwise once, has that which it would get now (`folder_of`). Of these
    tables those are left out that delta-rs cannot open, as some that are nobody's table alone, such as bronze, may be.
    """
    others = sorted(versions.keys() - {*named.values(), *OUR_NAMES})
    told = ((folder, _entity(root.below(folder))) for folder in others)
    there = [(entity, folder) for folder, entity in told if entity is not None]
    as_now = [one for one in there if folder_of(one[0]) == one[1]]
    return {**dict(there), **named, **dict(as_now)}


def _entity(place: Files) -> str | None:
    try:
        return opened(place).metadata().configuration.get(ENTITY_PROPERTY)
    except DeltaError:
        return None


def _transactions(place: Files, version: int) -> Mapping[str, int] | None:
    try:
        return transactions_of(place, version)
    except FileNotFoundError:
        return None
