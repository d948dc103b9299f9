"""Which records of a portion are to be decoded: those that are chosen and that no table has, each once however often bronze has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from distributary.errors import PipelineError
from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.commit_log.owners import Whose
from distributary.ingest.erasure.record import NO_TIME
from distributary.ingest.kafka.offsets import Offsets, Stretches
from distributary.ingest.merge.rule import memory_folder
from distributary.ingest.quarantine.chosen import LOOKED_AT, Chosen
from distributary.ingest.quarantine.resolved import IDENTITY
from distributary.ingest.quarantine.rows import identities, is_of, resolved_identities, rows_of
from distributary.ingest.replay.leaving import require_records_of_rows
from distributary.ingest.replay.places import (
    Numbers,
    Partition,
    Places,
    between,
    count,
    joined,
    of_rows,
    passed_by,
    split,
    split_with,
    within,
    without,
)
from distributary.ingest.replay.portions import Portion, Until, portions
from distributary.ingest.replay.raw_records import PLACE, PLACE_AND_TIME, RawRecords, lie_in, may_have
from distributary.ingest.replay.staging import ROWS_SCHEMA, Tables
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.ledger import QUARANTINE_SCHEMA

# Most of what a table takes is the wait for its log and its files.
_THREADS = 8


@dataclass(frozen=True, slots=True)
class Waiting:
    """The open rows of a quarantine that stand in a range.

    rows  with the columns by which they are told apart and chosen
    """

    rows: pa.Table

    @property
    def places(self) -> Places:
        """Where their records are from."""
        return of_rows(self.rows, PLACE)

    def to_resolve(self) -> pa.Table:
        """As rows that a replay is of."""
        kept = self.rows.select(list(IDENTITY))
        return kept.append_column("already", pa.nulls(self.rows.num_rows, pa.string())).cast(ROWS_SCHEMA)


@dataclass(frozen=True, slots=True)
class ToDo:
    """What is to be decoded of a portion.

    raw      the files that it is in
    wanted   where those records stand
    there    how many of the chosen ones a table has, and are not among these for that
    passed   the stretches of its other records
    waiting  what is in quarantine of all of it
    once     whether bronze has any of them more than once
    rows     where the chosen records that have a row have it, by the tables' folders
    """

    raw: RawRecords
    wanted: Places
    there: int
    passed: Stretches
    waiting: Waiting
    once: bool
    rows: Mapping[str, Places] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many records are to be decoded."""
        return count(self.wanted)

    @property
    def with_rows(self) -> int:
        """How many of all chosen ones a table has."""
        return self.there + count(within(self.wanted, joined(self.rows.values())))


def to_do(raw: RawRecords, tables: Tables, whose: Whose, portion: Portion) -> ToDo:
    """Raises PipelineError where a table cannot be read, or bronze has two records of one place in Kafka."""
    mine = raw.within(portion.offsets)
    waiting = open_in(tables.root, whose, portion.offsets)
    found = _kept_in(mine, portion)
    chosen = found.chosen
    if found.again:
        _require_one_record(found.records)
    if portion.chosen.reasons:
        rows = waiting.rows
        chosen = within(chosen, of_rows(rows.filter(portion.chosen.of(rows)), PLACE))
    replaces = portion.replaces is not None
    # Where rows make room one of another record is refused by name, below.
    of = Records() if replaces else Records.of(found.records)
    there = in_tables(tables, portion.offsets, of) if chosen else {}
    there = {folder: those for folder, places in there.items() if (those := within(places, chosen))}
    if replaces and there:
        require_records_of_rows(tables, there, found.records, portion.offsets)
    wanted = chosen if replaces else without(chosen, joined(there.values()))
    # Those that are marked as gone are read as well.
    once = sum(count(within(part, wanted)) for part in found.every) > count(wanted)
    passed = passed_by(joined(found.every), wanted)
    return ToDo(mine, wanted, count(chosen) - count(wanted), passed, waiting, once, there)


def in_tables(tables: Tables, offsets: Offsets, of: Records) -> dict[str, Places]:
    """Where the records of a range are from that a table has, or what remembers its deletes, by the folders of these.

    A row of another time than the one of these records that stands in its place is that of another, as of a topic that was made anew.
    """
    by = tables.columns
    names = (by.kafka_topic, by.kafka_partition, by.kafka_offset)
    columns = pa.schema(
        [(name, one.type) for name, one in zip((*names, by.kafka_ts), PLACE_AND_TIME, strict=True)]
    )
    folders = [name for folder in tables.folders for name in (folder, memory_folder(folder))]
    told = partial(may_have, names=names, offsets=offsets)

    def places(folder: str) -> Places:
        rows = rows_of(tables.root.below(folder), columns, told)
        return joined(between(of.places(some, (*names, by.kafka_ts)), offsets) for some in rows)

    with ThreadPoolExecutor(_THREADS, "places") as pool:
        return dict(zip(folders, pool.map(places, folders), strict=True))


@dataclass(frozen=True, slots=True)
class Records:
    """The records that are looked for in tables.

    times  of each partition their offsets, in order, and when each came, in microseconds
    """

    times: Mapping[Partition, tuple[Numbers, Numbers]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: pa.Table) -> Records:
        """Those of rows of places and times; one without a time is told by its place alone."""
        found = {}
        for partition, (offsets, times) in _with_times(rows, PLACE_AND_TIME.names).items():
            # Nearly in order as they are, that takes one pass.
            order = np.argsort(offsets, kind="stable")
            found[partition] = offsets[order], times[order]
        return cls(found)

    def places(self, rows: pa.Table, names: Sequence[str]) -> Places:
        """Where a table's rows are from that are of these records, or of none of their places; `names` are the columns of place and time."""
        told = _with_times(rows, names)
        return joined(
            [
                {partition: offsets[~self._are_others(partition, offsets, at)]}
                for partition, (offsets, at) in told.items()
            ]
        )

    def _are_others(self, partition: Partition, offsets: Numbers, at: Numbers) -> npt.NDArray[np.bool_]:
        mine, times = self.times.get(partition, (_NOTHING, _NOTHING))
        if not len(mine):
            return np.zeros(len(offsets), bool)
        where = np.searchsorted(mine, offsets).clip(max=len(mine) - 1)
        told = (mine[where] == offsets) & (times[where] != NO_TIME) & (at != NO_TIME)
        others: npt.NDArray[np.bool_] = told & (times[where] != at)
        return others


_NOTHING = np.empty(0, np.int64)


def _with_times(rows: pa.Table, names: Sequence[str]) -> dict[Partition, tuple[Numbers, Numbers]]:
    topics, partitions, offsets, at = (rows[name] for name in names)
    told = pc.fill_null(at.cast(pa.timestamp("us", "UTC")).cast(pa.int64()), NO_TIME)
    return split_with(topics, partitions, offsets, told)


def open_in(root: Files, whose: Whose, offsets: Offsets) -> Waiting:
    """What waits in a pipeline's quarantine of a range. Raises PipelineError where that cannot be read."""
    names = dict.fromkeys([*IDENTITY, *LOOKED_AT, "pipeline"])
    columns = pa.schema([QUARANTINE_SCHEMA.field(name) for name in names])
    found = [columns.empty_table()]
    # First, as upkeep lets go what tells of them behind them.
    resolved = resolved_identities(root, whose)
    for rows in rows_of(
        root.below(QUARANTINE_TABLE), columns, partial(may_have, names=PLACE, offsets=offsets)
    ):
        mine = rows.filter(is_of(rows, whose))
        found.append(mine.filter(lie_in(mine, offsets)))
    whole = pa.concat_tables(found)
    if whole.num_rows:
        whole = whole.filter(pc.invert(pc.is_in(identities(whole), resolved)))
    return Waiting(whole)


@dataclass(slots=True)
class _Kept:
    """What is kept of a portion.

    every    where all records of its files stand, file by file, those marked as gone among them
    chosen   where the chosen ones stand
    records  these, place and time
    """

    every: list[Places]
    chosen: Places
    records: pa.Table

    @property
    def again(self) -> bool:
        """Whether any of the chosen ones is there more than once."""
        return bool(self.records.num_rows > count(self.chosen))


def _kept_in(raw: RawRecords, portion: Portion) -> _Kept:
    every, chosen, records = list[Places](), list[Places](), list[pa.Table]()
    for file in raw.files:
        for rows, alive in file.rows():
            places = between(split(*(rows[name] for name in PLACE)), portion.offsets)
            every.append(places)
            wanted = pc.and_(alive, portion.chosen.standing(rows))
            # Most files are of one portion, whole.
            if count(places) < rows.num_rows or not pc.all(wanted).as_py():
                mine = rows.filter(pc.and_(wanted, lie_in(rows, portion.offsets)))
                chosen.append(of_rows(mine, PLACE))
            else:
                mine = rows
                chosen.append(places)
            records.append(mine)
    whole = pa.concat_tables(records) if records else PLACE_AND_TIME.empty_table()
    return _Kept(every, joined(chosen), whole)


def require_one_record_each(raw: RawRecords, most: int) -> None:
    """Raises PipelineError where two records of bronze have one place, which is looked at about so many records at a time."""
    if not _has_any_again(raw):
        return
    for offsets in portions(raw, Chosen(), Until(), most):
        _require_one_record(_kept_in(raw.within(offsets), Portion(offsets)).records)


def _has_any_again(raw: RawRecords) -> bool:
    """Whether any place is there more than once, as after a topic was read again."""
    seen: dict[Partition, BitMap64] = {}
    for file in raw.files:
        for rows, alive in file.rows():
            for partition, offsets in split(*(rows.filter(alive)[name] for name in PLACE)).items():
                known, mine = seen.setdefault(partition, BitMap64()), BitMap64(offsets.tolist())
                if len(mine) < len(offsets) or known.intersect(mine):
                    return True
                known |= mine
                seen[partition] = known
    return False


def _require_one_record(rows: pa.Table) -> None:
    """Raises PipelineError where two records have one place, as of a topic that was made anew."""
    told = rows.group_by(list(PLACE)).aggregate([("kafka_ts", "count_distinct")])
    two = told.filter(pc.greater(told["kafka_ts_count_distinct"], 1))
    if two.num_rows:
        topic, number, offset = (two[name][0].as_py() for name in PLACE)
        raise PipelineError(
            f"bronze has several records of {topic}/{number} offset {offset}, of different times, as of a topic that was made anew: which of them "
            "is meant nobody can tell. Choose by --from and --to, so that only one of them is"
        )
