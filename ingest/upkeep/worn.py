"""Files of tables whose rows are replaced, or end, written anew by entries of ours, where delta-rs would do the wrong thing or none.

It looks at files' sizes alone: large ones would stay for ever in which next to nothing is left. And it would bring rows that ended together
with those that are true, so that each batch had to look into all that ever was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from distributary.ingest.clustering.cubes import Portion, is_worn, small_or_worn
from distributary.ingest.merge.live_files import Action, LiveFiles
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.known import upsert_of
from distributary.ingest.tables.state import TableState
from distributary.ingest.upkeep.compaction import Compaction, compact, target_bytes
from distributary.ingest.upkeep.written_anew import only_sparks, write_anew


def keep_apart(place: Files, until: str, *, dry_run: bool = False) -> Compaction:
    """Bring small files of a table that keeps what was together, those of rows that ended apart from all others. As `write_anew`.

    until  the column of the moment since when a row is true no more
    """
    return write_anew(place, partial(_apart, until), only_sparks, dry_run=dry_run)


def bring_together(place: Files, state: TableState, *, dry_run: bool = False) -> Compaction:
    """Bring small files of a table that is not clustered together, and write those anew of which many rows are marked as gone.

    Raises as `compact` and `write_anew`.
    """
    upsert = upsert_of(state.properties)
    if upsert is not None and upsert.history is not None:
        return keep_apart(place, upsert.bounds[1], dry_run=dry_run)
    done = compact(place, dry_run=dry_run)
    if done.left:
        return done
    more = write_anew(place, partial(_worn, only_large=dry_run), only_sparks, dry_run=dry_run)
    return replace(
        more, before=done.before, compacted=done.compacted + more.compacted, made=done.made + more.made
    )


def _worn(state: TableState, live: LiveFiles, *, only_large: bool) -> Sequence[Portion]:
    """Each file by itself: a batch that marks more rows meanwhile is a rival of one alone.

    only_large  whether smaller ones would be brought together with others before
    """
    least = target_bytes(state.properties) if only_large else 0
    return [Portion({name: add}) for name, add in live if is_worn(add) and add["size"] >= least]


def _apart(until: str, state: TableState, live: LiveFiles) -> Sequence[Portion]:
    kinds: dict[tuple[str, bool], dict[str, Action]] = {}
    for name, add in live:
        partition = json.dumps(add.get("partitionValues") or {}, sort_keys=True)
        kinds.setdefault((partition, _ended(add, until)), {})[name] = add
    target = target_bytes(state.properties)
    return [portion for files in kinds.values() for portion in small_or_worn(files, target)]


def _ended(add: Action, until: str) -> bool:
    """Whether all rows of a file are known to have ended."""
    counts: Mapping[str, object] = json.loads(add.get("stats") or "{}").get("nullCount") or {}
    return counts.get(until) == 0
