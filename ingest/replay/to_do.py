"""Which records of a portion are to be decoded: those that are chosen and that no table has, each once however often bronze has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from distributary.errors import PipelineError
from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.kafka.offsets import Offsets, Stretches
from distributary.ingest.merge.rule import memory_folder
from distributary.ingest.quarantine.chosen import LOOKED_AT
from distributary.ingest.quarantine.resolved import IDENTITY
from distributary.ingest.quarantine.rows import identities, of_pipeline, resolved_identities, rows_of
from distributary.ingest.replay.leaving import require_records_of_rows
from distributary.ingest.replay.places import (
    Places,
    between,
    count,
    joined,
    of_rows,
    passed_by,
    split,
    within,
    without,
)
from distributary.ingest.replay.portions import Portion
from distributary.ingest.replay.raw_records import PLACE, PLACE_AND_TIME, RawRecords, may_have
from distributary.ingest.replay.staging import ROWS_SCHEMA, Tables
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.ledger import QUARANTINE_SCHEMA


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


def to_do(raw: RawRecords, tables: Tables, pipeline: str, portion: Portion) -> ToDo:
    """Raises PipelineError where a table cannot be read, or bronze has two records of one place in Kafka."""
    mine = raw.within(portion.offsets)
    waiting = open_in(tables.root, pipeline, portion.offsets)
    found = _kept_in(mine, portion)
    chosen = found.chosen
    if found.again:
        _require_one_record(found.records)
    if portion.chosen.reasons:
        rows = waiting.rows
        chosen = within(chosen, of_rows(rows.filter(portion.chosen.of(rows)), PLACE))
    there = in_tables(tables, portion.offsets) if chosen else {}
    there = {folder: those for folder, places in there.items() if (those := within(places, chosen))}
    replaces = portion.replaces is not None
    if replaces and there:
        require_records_of_rows(tables, there, found.records, portion.offsets)
    wanted = chosen if replaces else without(chosen, joined(there.values()))
    # Those that are marked as gone are read as well.
    once = sum(count(within(part, wanted)) for part in found.every) > count(wanted)
    passed = passed_by(joined(found.every), wanted)
    return ToDo(mine, wanted, count(chosen) - count(wanted), passed, waiting, once, there)


def in_tables(tables: Tables, offsets: Offsets) -> dict[str, Places]:
    """Where the records of a range are from that a table has, or what remembers its deletes, by the folders of these."""
    names = (tables.columns.kafka_topic, tables.columns.kafka_partition, tables.columns.kafka_offset)
    columns = pa.schema(
        [(name, QUARANTINE_SCHEMA.field(own).type) for name, own in zip(names, PLACE, strict=True)]
    )
    folders = [name for folder in tables.folders for name in (folder, memory_folder(folder))]
    told = partial(may_have, names=names, offsets=offsets)
    return {
        folder: joined(
            between(of_rows(rows, names), offsets)
            for rows in rows_of(tables.root.below(folder), columns, told)
        )
        for folder in folders
    }


def open_in(root: Files, pipeline: str, offsets: Offsets) -> Waiting:
    """What waits in a pipeline's quarantine of a range. Raises PipelineError where that cannot be read."""
    names = dict.fromkeys([*IDENTITY, *LOOKED_AT, "pipeline"])
    columns = pa.schema([QUARANTINE_SCHEMA.field(name) for name in names])
    found = [columns.empty_table()]
    # First, as upkeep lets go what tells of them behind them.
    resolved = resolved_identities(root, pipeline)
    for rows in rows_of(
        root.below(QUARANTINE_TABLE), columns, partial(may_have, names=PLACE, offsets=offsets)
    ):
        mine = of_pipeline(rows, pipeline)
        found.append(mine.filter(_lie_in(mine, offsets)))
    whole = pa.concat_tables(found)
    if whole.num_rows:
        whole = whole.filter(pc.invert(pc.is_in(identities(whole), resolved)))
    return Waiting(whole)


def _lie_in(rows: pa.Table, offsets: Offsets) -> pa.Array:
    found = pa.repeat(pa.scalar(False), rows.num_rows)
    topics, numbers, places = (rows[name] for name in PLACE)
    for topic, ranges in offsets.items():
        of_topic = pc.equal(topics, topic)
        for number, (first, end) in ranges.items():
            here = pc.and_(pc.greater_equal(places, first), pc.less(places, end))
            found = pc.or_(found, pc.and_(pc.and_(of_topic, pc.equal(numbers, number)), here))
    return pc.fill_null(found, False)


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
                mine = rows.filter(pc.and_(wanted, _lie_in(rows, portion.offsets)))
                chosen.append(of_rows(mine, PLACE))
            else:
                mine = rows
                chosen.append(places)
            records.append(mine)
    whole = pa.concat_tables(records) if records else PLACE_AND_TIME.empty_table()
    return _Kept(every, joined(chosen), whole)


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
