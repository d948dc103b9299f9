"""How many of the records that were sent are nowhere, and how many in several places."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from distributary.producer_sim.truth.sent import Truth
from distributary.producer_sim.verify.coverage import Coverage, Offsets
from distributary.producer_sim.verify.lake import Lake
from distributary.producer_sim.verify.quarantine_survey import survey_quarantine
from distributary.producer_sim.verify.table_survey import Survey, survey_table


@dataclass(frozen=True, slots=True)
class Misplaced:
    """Records that are not where they belong, which is one place; of those that are dropped, such as tombstones, none."""

    lost: int
    twice: int


def misplaced(lake: Lake, truth: Truth) -> Misplaced:
    """What is lost and what is there more often than once, of the records of a truth that drops none but tombstones."""
    tables = Survey()
    for name in lake.entity_tables():
        survey_table(lake, name, tables, checksums=False)
    quarantine = survey_quarantine(lake, None)
    partitions = [(truth.topic, number) for number in truth.offsets]
    lost = sum(len(_nowhere(truth, number, tables.coverage, quarantine.coverage)) for number in truth.offsets)
    twice = sum(len(tables.coverage.more_than_once(one, quarantine.coverage)) for one in partitions)
    return Misplaced(lost, twice)


def _nowhere(truth: Truth, number: int, tables: Coverage, quarantine: Coverage) -> Offsets:
    partition, found = (truth.topic, number), [np.zeros(0, np.int64)]
    dropped: dict[int, list[int]] = defaultdict(list)
    for place in truth.tombstones:
        dropped[place.partition].append(place.offset)
    for start, end in truth.offsets[number]:
        found.append(
            np.intersect1d(tables.missing(partition, start, end), quarantine.missing(partition, start, end))
        )
    return np.setdiff1d(np.concatenate(found), np.array(dropped[number], np.int64))
