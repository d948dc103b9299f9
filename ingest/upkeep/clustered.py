"""Files of a clustered table brought together in the order of its curve, by entries of ours: delta-rs writes to none of these tables."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from distributary.ingest.clustering.cubes import Portion, portions
from distributary.ingest.columns.clustering import Path, spelled, type_at
from distributary.ingest.merge.live_files import LiveFiles
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.state import TableState
from distributary.ingest.upkeep.compaction import Compaction, target_bytes
from distributary.ingest.upkeep.written_anew import only_sparks, write_anew


def cluster(place: Files, *, dry_run: bool = False) -> Compaction:
    """Write files of a clustered table anew, in the order of its curve, as far as that is worth it. As `write_anew`."""
    return write_anew(place, _plan, _why_not, dry_run=dry_run)


def _plan(state: TableState, live: LiveFiles) -> Sequence[Portion]:
    return portions(live, state.clustering or (), target_bytes(state.properties))


def _why_not(state: TableState) -> str:
    """Why a table's rows cannot be sorted here; empty where they can."""
    if why := only_sparks(state):
        return why
    if unsorted := spelled(path for path in state.clustering or () if not _has_order(state, path)):
        return f"it is clustered by {unsorted}, which it has not as something that has an order: cluster it by other columns"
    return ""


def _has_order(state: TableState, path: Path) -> bool:
    """Whether rows can be sorted by a column: who writes a log may name any, or take it from the table."""
    dtype = type_at(state.layout, path)
    return dtype is not None and not pa.types.is_nested(dtype)
