"""Which row of each key is its newest, and what becomes of all others: by their order alone, in arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from distributary.ingest.merge.counts import MergeCounts
from distributary.ingest.merge.key_index import Codes
from distributary.ingest.merge.ranks import Ranks

Mask = npt.NDArray[np.bool_]


class Kind(IntEnum):
    """Where a row comes from. Of rows of one order the first of these is the newest: what is there already stays.

    But for a delete that is remembered: it may be a staged one, in a file that somebody compacted by now.
    """

    TABLE = 0
    STAGED_DELETE = 1
    MEMORY = 2
    STAGED = 3


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of keys of which each has a staged one.

    codes   the number of each one's key
    order   numbers that compare as the rows do, the first that differs decides
    kinds   where each comes from (`Kind`)
    beyond  which would be older than what the memory of deletes goes back to; None where nothing is
    """

    codes: Codes
    order: Sequence[Ranks]
    kinds: npt.NDArray[np.int8]
    beyond: Mask | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of the rows.

    marked   those that are no rows of the table any more, or never become any
    counts   of the staged ones
    winners  the staged rows that win, in the order of their keys' numbers
    ranking  for each row its place among all, by key and then by order
    """

    marked: Mask
    counts: MergeCounts
    winners: npt.NDArray[np.int64]
    ranking: npt.NDArray[np.int64]


def outcome(rows: Rows) -> Outcome:
    """The newest row of each key wins."""
    by = _sorted(rows)
    codes, kinds = rows.codes[by], rows.kinds[by]
    count = len(by)
    if not count:
        nothing = np.empty(0, dtype=np.int64)
        return Outcome(np.zeros(0, dtype=bool), MergeCounts(), nothing, nothing)
    starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    last = np.append(starts[1:], count) - 1
    places = np.arange(count)
    in_table = _last(kinds == Kind.TABLE, places, starts)
    staged = (kinds == Kind.STAGED) | (kinds == Kind.STAGED_DELETE)
    wins = staged[last]
    removes = wins & (kinds[last] == Kind.STAGED_DELETE)
    if rows.beyond is not None:
        wins &= ~(rows.beyond[by][last] & (in_table < 0) & ~removes)
    known = in_table >= 0
    # All of a key that is won are marked but the winner, and that, too, if it removes.
    group = np.cumsum(np.concatenate(([False], codes[1:] != codes[:-1])))
    doomed = staged | wins[group]
    doomed[last[wins & ~removes]] = False
    marked = np.empty(count, dtype=bool)
    marked[by] = doomed & (kinds != Kind.MEMORY)
    counts = MergeCounts(
        inserted=int((wins & ~removes & ~known).sum()),
        updated=int((wins & ~removes & known).sum()),
        deleted=int(removes.sum()),
        older=int((~wins).sum()),
        duplicate=int(staged.sum()) - len(starts),
    )
    ranking = np.empty(count, dtype=np.int64)
    ranking[by] = places
    return Outcome(marked, counts, by[last[wins]], ranking)


def moved(rows: Rows, placed: Mask, topics: Ranks, partitions: Ranks, turns: Ranks) -> tuple[int, int] | None:
    """Two rows of a key whose positions do not compare, if there are any: of two topics, or partitions of one turn of a topic.

    placed  which have one: those that no record made are older than all of these
    """
    by = np.lexsort((partitions, turns, topics, rows.codes))
    by = by[placed[by]]
    same = rows.codes[by][1:] == rows.codes[by][:-1]
    other = topics[by][1:] != topics[by][:-1]
    other |= (turns[by][1:] == turns[by][:-1]) & (partitions[by][1:] != partitions[by][:-1])
    found = np.flatnonzero(same & other)
    return (int(by[found[0]]), int(by[found[0] + 1])) if len(found) else None


def _last(mask: Mask, places: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The last place of each group at which the mask is true; -1 for none."""
    return np.maximum.reduceat(np.where(mask, places, -1), starts)


def _sorted(rows: Rows) -> npt.NDArray[np.int64]:
    """By key, then by order; of what is equal the one last that is there already."""
    return sorted_by([rows.codes, *rows.order, (Kind.STAGED - rows.kinds).astype(np.int64)])


def sorted_by(keys: Sequence[Ranks]) -> npt.NDArray[np.int64]:
    """The order of rows by these of their numbers, the first that differs decides; what is equal stays as it came."""
    keys = [keys[0], *(ranks for ranks in keys[1:] if _differ(ranks))]
    if (one := _in_one(keys)) is not None:
        return np.argsort(one, kind="stable")
    return np.lexsort(keys[::-1])


def _differ(ranks: Ranks) -> bool:
    return bool(len(ranks)) and bool((ranks != ranks[0]).any())


def _in_one(keys: Sequence[Ranks]) -> Ranks | None:
    """One number a row for several, where it has room for them: sorting takes a third of the time."""
    found = np.zeros(len(keys[0]), dtype=np.int64)
    room = 1
    for ranks in keys:
        if not len(ranks):
            return found
        low = int(ranks.min())
        span = int(ranks.max()) - low + 1
        room *= span
        if room >= 2**63:
            return None
        found = found * span + (ranks - low)
    return found
