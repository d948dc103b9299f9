"""Which rows a new row of a key is made of, in the order in which they were taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from distributary.ingest.merge.folding import Chains, Mask
from distributary.ingest.merge.found import Numbers
from distributary.ingest.merge.outcome import Kind, Outcome, Rows
from distributary.ingest.merge.ranks import Ranks


@dataclass(frozen=True, slots=True)
class Taken:
    """What is known of rows, beside their order.

    of         for each row the number of its source
    places     for each row its number in its file
    partition  numbers that tell partitions apart, of which nobody knows which came first
    offset     numbers that compare as rows of a partition came: a later record is taken later
    empty      which rows are those of a key that is deleted, if only marked so: what was before is no part of what comes after
    partly     which rows do not set all columns
    """

    of: Numbers
    places: Numbers
    partition: Sequence[Ranks]
    offset: Ranks
    empty: Mask
    partly: Mask


def chains(rows: Rows, result: Outcome, taken: Taken, *, marks: bool) -> tuple[Chains, Numbers]:
    """The chains of which rows are made, and the staged rows that win and are parts of one: they are none by themselves.

    `marks` says whether rows of deleted keys stay.
    """
    removes = rows.kinds[result.winners] == Kind.STAGED_DELETE
    concerned = result.winners[np.where(removes, marks, taken.partly[result.winners])]
    group = np.full(int(rows.codes.max(initial=-1)) + 1, -1, dtype=np.int64)
    # Winners are in the order of their keys' numbers, and so is what is ranked.
    group[rows.codes[concerned]] = np.arange(len(concerned))
    chain = _taken(rows, result, taken, np.flatnonzero(group[rows.codes] >= 0), group)
    chain = _since_empty(chain, group[rows.codes[chain]], taken.empty)
    groups = group[rows.codes[chain]]
    filled = np.zeros(len(concerned), dtype=np.int64)
    np.add.at(filled, groups, rows.kinds[chain] != Kind.STAGED_DELETE)
    sizes = np.bincount(groups, minlength=len(concerned))
    # A row that nothing was before is a row by itself, and a delete of nothing is none.
    made = (filled > 0) & (sizes > 1)
    chain = chain[made[groups]]
    groups = groups[made[groups]]
    starts = np.flatnonzero(np.concatenate(([True], groups[1:] != groups[:-1]))) if len(groups) else groups
    return Chains(starts, taken.of[chain], taken.places[chain]), concerned[made]


def _taken(rows: Rows, result: Outcome, taken: Taken, mine: Numbers, group: Numbers) -> Numbers:
    """Those of these rows that were newer than all before them when they came, the table's first; partitions come beside each other, in order."""
    kinds = rows.kinds[mine]
    staged = (kinds == Kind.STAGED) | (kinds == Kind.STAGED_DELETE)
    arrival = [np.where(staged, ranks[mine], 0) for ranks in (*taken.partition, taken.offset)]
    by = np.lexsort((result.ranking[mine], *reversed(arrival), staged, group[rows.codes[mine]]))
    mine, staged = mine[by], staged[by]
    groups = group[rows.codes[mine]]
    begins = _differs([groups, staged, *(ranks[by] for ranks in arrival[:-1])])
    # Of one partition a row is held against those before it alone: rankings of the next one are moved behind all of this.
    mine = mine[_newest(result.ranking[mine] + np.cumsum(begins) * len(rows.codes))]
    kinds = rows.kinds[mine]
    based = (kinds == Kind.TABLE) | (kinds == Kind.MEMORY)
    by = np.lexsort((result.ranking[mine], ~based, group[rows.codes[mine]]))
    mine, based = mine[by], based[by]
    newest = _newest(result.ranking[mine])
    # Of what the table has, the last one is the row, if no delete came after it.
    groups = group[rows.codes[mine]]
    followed = np.append((groups[1:] == groups[:-1]) & based[1:], False)
    kept: Numbers = mine[newest & ~(based & followed) & (rows.kinds[mine] != Kind.MEMORY)]
    return kept


def _newest(ranking: Numbers) -> Mask:
    """Which are greater than all before them."""
    found: Mask = np.maximum.accumulate(ranking) == ranking if len(ranking) else np.zeros(0, dtype=bool)
    return found


def _differs(keys: Sequence[Ranks | Mask]) -> Mask:
    """Which rows have any of these otherwise than the one before them; the first has."""
    found = np.ones(len(keys[0]), dtype=bool)
    found[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return found


def _since_empty(chain: Numbers, groups: Numbers, empty: Mask) -> Numbers:
    """Without what was before a delete that a row came after."""
    if not len(chain):
        return chain
    anew = np.zeros(len(chain), dtype=bool)
    anew[1:] = empty[chain[:-1]] & ~empty[chain[1:]] & (groups[1:] == groups[:-1])
    starts = np.flatnonzero(np.concatenate(([True], groups[1:] != groups[:-1])))
    places = np.arange(len(chain))
    since = np.maximum.reduceat(np.where(anew, places, -1), starts)
    first = np.repeat(np.maximum(since, starts), np.diff(np.append(starts, len(chain))))
    kept: Numbers = chain[places >= first]
    return kept
