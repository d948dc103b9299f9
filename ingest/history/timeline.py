"""What was true of each key from when to when: by records' order alone, in arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from distributary.ingest.merge.counts import MergeCounts
from distributary.ingest.merge.key_index import Codes
from distributary.ingest.merge.outcome import Mask, sorted_by
from distributary.ingest.merge.ranks import Ranks

FOR_EVER = int(np.iinfo(np.int64).max)
"""The end of what is true still."""

NO_ROW = -1

Numbers = npt.NDArray[np.int64]


class Event(IntEnum):
    """Where a record comes from. Of those of one order the last of these counts: what is there already stays.

    MEMORY          remembered; it may say what the row over it says, or have made it, or be a staged one in a file that somebody compacted
    MEMORY_DELETE   a delete that is remembered
    STAGED          of the batch
    STAGED_DELETE   a delete of the batch
    TABLE           it made the row
    END             of a row after which there is none: a delete that nobody may remember any more
    """

    MEMORY = 0
    MEMORY_DELETE = 1
    STAGED = 2
    STAGED_DELETE = 3
    TABLE = 4
    END = 5


_DELETES = (Event.MEMORY_DELETE, Event.STAGED_DELETE)


@dataclass(frozen=True, slots=True)
class Records:
    """Records of keys of which each has a staged one.

    codes   the number of each one's key
    order   numbers that compare as the records do, the first that differs decides: first of all the moments since when they are true
    kinds   where each comes from (`Event`)
    until   of those in the table the moment since when they are true no more; FOR_EVER
    """

    codes: Codes
    order: Sequence[Ranks]
    kinds: npt.NDArray[np.int8]
    until: Ranks


@dataclass(frozen=True, slots=True)
class Timeline:
    """What becomes of the records.

    marked  those that are no rows of the table any more, or never become any
    counts  of the staged ones
    made    for each row that is to be made the record that it is like
    over    beside it the remembered one that it is of; NO_ROW where it is of that which it is like
    until   of these the moment since when they are true no more; FOR_EVER
    """

    marked: Mask
    counts: MergeCounts
    made: Numbers
    over: Numbers
    until: Ranks


Same = Callable[[Numbers, Numbers], Mask]
"""Whether records, by their numbers, say the same as others."""


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Records, and the ends of rows, by key, moment and order.

    records  their numbers; NO_ROW for an end
    table    for each the place of the last row of the table up to it, be it of its key or not; NO_ROW for none
    """

    records: Numbers
    codes: Codes
    moments: Ranks
    kinds: npt.NDArray[np.int8]
    until: Ranks
    table: Numbers


def timeline(records: Records, same: Same) -> Timeline:
    """Each record is true until the next of its key, of one moment the last; what says the same as the one before begins nothing."""
    count = len(records.codes)
    if not count:
        nothing = np.empty(0, dtype=np.int64)
        return Timeline(np.zeros(0, dtype=bool), MergeCounts(), nothing, nothing, nothing)
    found = _sorted(records)
    differs = (found.codes[1:] != found.codes[:-1]) | (found.moments[1:] != found.moments[:-1])
    groups = np.flatnonzero(np.concatenate(([True], differs)))
    decisive = _decisive(found, groups)
    like = np.where(found.kinds[decisive] == Event.MEMORY, found.table[decisive], decisive)
    kept = like != NO_ROW
    places, like = decisive[kept], like[kept]
    codes, kinds = found.codes[places], found.kinds[places]
    deletes = np.isin(kinds, (*_DELETES, Event.END))
    follows = np.zeros(len(places), dtype=bool)
    follows[1:] = (codes[1:] == codes[:-1]) & ~deletes[:-1]
    begins = ~deletes & ~_repeats(found, like, np.flatnonzero(follows & ~deletes), same)
    until = _ends(codes, found.moments[places], begins | deletes)
    stays = begins & np.where(kinds == Event.TABLE, until == found.until[places], until == FOR_EVER)
    stays &= kinds != Event.MEMORY
    made = np.flatnonzero(begins & ~stays)
    marked = np.isin(records.kinds, (Event.TABLE, Event.STAGED))
    marked[found.records[places[stays]]] = False
    over = np.where(kinds[made] == Event.MEMORY, found.records[places[made]], NO_ROW)
    counts = _counts(found, groups, decisive, (places, begins, follows))
    return Timeline(marked, counts, found.records[like[made]], over, until[made])


def _sorted(records: Records) -> _Sorted:
    ending = np.flatnonzero((records.kinds == Event.TABLE) & (records.until != FOR_EVER))
    nothing = np.zeros(len(ending), dtype=np.int64)
    codes = np.concatenate([records.codes, records.codes[ending]])
    moments = np.concatenate([records.order[0], records.until[ending]])
    kinds = np.concatenate([records.kinds, np.full(len(ending), Event.END, dtype=np.int8)])
    order = [np.concatenate([ranks, nothing]) for ranks in records.order[1:]]
    ends = (kinds == Event.END).astype(np.int64)
    by = sorted_by([codes, moments, ends, *order, kinds.astype(np.int64)])
    places = np.arange(len(by))
    kinds = kinds[by]
    return _Sorted(
        records=np.concatenate([np.arange(len(records.codes)), np.full(len(ending), NO_ROW)])[by],
        codes=codes[by],
        moments=moments[by],
        kinds=kinds,
        until=np.concatenate([records.until, nothing])[by],
        table=np.maximum.accumulate(np.where(kinds == Event.TABLE, places, NO_ROW)),
    )


def _decisive(found: _Sorted, groups: Numbers) -> Numbers:
    """The place of what decides each moment of each key; a record is over nothing, and NO_ROW, where no row of the table covers it."""
    places = np.arange(len(found.codes))
    told = np.isin(found.kinds, (Event.TABLE, *_DELETES))
    known = np.logical_or.reduceat(told, groups)
    ended = np.maximum.reduceat(np.where(found.kinds == Event.END, places, NO_ROW), groups)
    last = np.maximum.reduceat(np.where(found.kinds == Event.END, NO_ROW, places), groups)
    over = found.table[last]
    covers = (over != NO_ROW) & (found.codes[over] == found.codes[last])
    covers &= found.until[over] > found.moments[last]
    lost = (found.kinds[last] == Event.MEMORY) & ~covers
    # What ended a row is told better by who is there, or remembered; otherwise nobody knows its order, and what is there stays. A record
    # of which no row is there tells nothing: that may be in a file that was passed by, as it ended before the batch.
    stays = (ended != NO_ROW) & ((last == NO_ROW) | ~known | lost)
    decisive = np.where(stays, ended, last)
    remembered = found.kinds[decisive] == Event.MEMORY
    found.table[decisive[remembered & ~covers]] = NO_ROW
    # One of the very moment at which the row over it begins is that row.
    begun = remembered & covers & (found.moments[over] == found.moments[last])
    result: Numbers = np.where(begun, over, decisive)
    return result


def _repeats(found: _Sorted, like: Numbers, after: Numbers, same: Same) -> Mask:
    """Which of what decides says the same as what was before it; `after` are those that come right after another of their key."""
    repeats = np.zeros(len(like), dtype=bool)
    before, now = like[after - 1], like[after]
    repeats[after[before == now]] = True
    # Rows of the table that are beside each other differ, or were not told apart when they came.
    known = (found.kinds[before] == Event.TABLE) & (found.kinds[now] == Event.TABLE)
    asked = np.flatnonzero(~known)
    if len(asked):
        repeats[after[asked]] = same(found.records[before[asked]], found.records[now[asked]])
    return repeats


def _ends(codes: Codes, moments: Ranks, breaks: Mask) -> Ranks:
    """For each the moment of the next of its key that begins or ends something."""
    count = len(codes)
    places = np.where(breaks, np.arange(count), count)
    following = np.append(np.minimum.accumulate(places[::-1])[::-1], count)[1:]
    there = following < count
    there[there] = codes[following[there]] == codes[there]
    found = np.full(count, FOR_EVER, dtype=np.int64)
    found[there] = moments[following[there]]
    return found


def _counts(
    found: _Sorted, groups: Numbers, decisive: Numbers, kept: tuple[Numbers, Mask, Mask]
) -> MergeCounts:
    places, begins, follows = kept
    staged = np.isin(found.kinds, (Event.STAGED, Event.STAGED_DELETE))
    mine, kinds = staged[places], found.kinds[places]
    wins = staged[decisive]
    each = np.add.reduceat(staged.astype(np.int64), groups)
    return MergeCounts(
        inserted=int((mine & begins & ~follows).sum()),
        updated=int((mine & begins & follows).sum()),
        unchanged=int((mine & ~begins & (kinds == Event.STAGED)).sum()),
        deleted=int((mine & (kinds == Event.STAGED_DELETE)).sum()),
        older=int(each[~wins].sum()),
        duplicate=int((each[wins] - 1).sum()),
    )
