"""Files of tables written anew by entries of ours, where delta-rs would do the wrong thing or none.

It looks at files' sizes alone: large ones would stay for ever in which next to nothing is left, where rows are replaced. It would bring rows
that ended together with those that are true, so that each batch had to look into all that ever was. And of some columns it tells bounds that are
none, or none at all: readers pass by rows that are there, and batches look into every file for a key.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.types as kinds

from distributary.ingest.clustering.cubes import Portion, is_worn, small_or_worn
from distributary.ingest.merge.live_files import Action, LiveFiles
from distributary.ingest.parquet.statistics import Indexed
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.known import named_columns, upsert_of
from distributary.ingest.tables.log_checkpoint import interval_of
from distributary.ingest.tables.state import TableState
from distributary.ingest.upkeep.compaction import CANNOT_REWRITE, Compaction, compact, target_bytes
from distributary.ingest.upkeep.written_anew import only_sparks, write_anew

# By which others say of which columns there are statistics, whatever their place.
_NAMED = "delta.dataSkippingStatsColumns"

# delta-rs tells decimals as floating-point numbers, which have so many digits.
_MOST_DIGITS = 15


def keep_apart(place: Files, until: str, *, dry_run: bool = False) -> Compaction:
    """Bring small files of a table that keeps what was together, those of rows that ended apart from all others. As `write_anew`.

    until  the column of the moment since when a row is true no more
    """
    return write_anew(place, partial(_apart, lambda add: _ended(add, until)), only_sparks, dry_run=dry_run)


def bring_together(place: Files, state: TableState, *, dry_run: bool = False) -> Compaction:
    """Bring small files of a table that is not clustered together, and write those anew of which many rows are marked as gone.

    Raises as `compact` and `write_anew`.
    """
    upsert = upsert_of(state.properties)
    if upsert is not None and upsert.history is not None:
        return keep_apart(place, upsert.bounds[1], dry_run=dry_run)
    ours = is_told_wrong(state) or has_turn(place, state)
    done = None if ours else compact(place, dry_run=dry_run)
    if done is None or done.left.startswith(CANNOT_REWRITE):
        return write_anew(place, partial(_apart, lambda _: False), only_sparks, dry_run=dry_run)
    if done.left:
        return done
    more = write_anew(place, partial(_worn, only_large=dry_run), only_sparks, dry_run=dry_run)
    return replace(
        more, before=done.before, compacted=done.compacted + more.compacted, made=done.made + more.made
    )


def has_turn(place: Files, state: TableState) -> bool:
    """Whether delta-rs would write a checkpoint of a log in a folder with its next version, which it does whatever it is told where it brings files together.

    It takes away what is old behind that, before anybody has synced it: after a loss of power nothing would tell of the table.
    """
    return not place.remote and (state.version + 2) % interval_of(state.properties) == 0


def is_told_wrong(state: TableState) -> bool:
    """Whether delta-rs would tell of a table's files what is not so, or not tell by what batches find their keys.

    Its bounds of fractions leave NaN out, which Spark holds to be greater than everything, and those of long decimals are rounded. Of columns behind
    the first ones it tells nothing.
    """
    columns = pa.schema([one for one in state.layout if one.name not in state.partitions])
    named = named_columns(state)
    if named and (
        _NAMED in state.properties or Indexed.told(state.properties, named).has_more_than_first(columns)
    ):
        return True
    return any(map(_has_no_bound, _leaves(columns)))


def _leaves(fields: Iterable[pa.Field]) -> Iterator[pa.DataType]:
    """The types of columns, those in structs one by one."""
    for field in fields:
        yield from _leaves(field.type) if kinds.is_struct(field.type) else (field.type,)


def _has_no_bound(dtype: pa.DataType) -> bool:
    long = kinds.is_decimal(dtype) and dtype.precision > _MOST_DIGITS
    return bool(long or kinds.is_floating(dtype))


def _worn(state: TableState, live: LiveFiles, *, only_large: bool) -> Sequence[Portion]:
    """Each file by itself: a batch that marks more rows meanwhile is a rival of one alone.

    only_large  whether smaller ones would be brought together with others before
    """
    least = target_bytes(state.properties) if only_large else 0
    return [Portion({name: add}) for name, add in live if is_worn(add) and add["size"] >= least]


def _apart(is_other: Callable[[Action], bool], state: TableState, live: LiveFiles) -> Sequence[Portion]:
    """What is small or worn, those of each partition by themselves, and those files that are others."""
    groups: dict[tuple[str, bool], dict[str, Action]] = {}
    for name, add in live:
        partition = json.dumps(add.get("partitionValues") or {}, sort_keys=True)
        groups.setdefault((partition, is_other(add)), {})[name] = add
    target = target_bytes(state.properties)
    return [portion for files in groups.values() for portion in small_or_worn(files, target)]


def _ended(add: Action, until: str) -> bool:
    """Whether all rows of a file are known to have ended."""
    counts: Mapping[str, object] = json.loads(add.get("stats") or "{}").get("nullCount") or {}
    return counts.get(until) == 0
