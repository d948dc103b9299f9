"""One pass over the entities' tables: where each row came from, and what each group of rows adds up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.settings.groups import Columns
from distributary.producer_sim.events.routes import GAME
from distributary.producer_sim.truth.checksum import SOURCE_NAME, GroupSums, Hashes, Sum, row_hashes
from distributary.producer_sim.truth.rescued_text import RESCUED, with_canonical_rescued
from distributary.producer_sim.verify.commit_check import newest_of
from distributary.producer_sim.verify.coverage import Coverage, Partition
from distributary.producer_sim.verify.lake import READ_ERRORS, Lake, batches
from distributary.producer_sim.verify.one_row_a_key import KeysMet
from distributary.producer_sim.verify.verdict import Difference, TableCount

# Table, topic, game, schema id.
GroupKey = tuple[str, str, str | None, int | None]


@dataclass(slots=True)
class Survey:
    """What the entities' tables hold: offsets in `coverage`, rows and checksums by group.

    merged       the offsets in tables with one row a key, where a later record leaves none of an earlier one
    keyed        these tables

    generations  those whose newest batch is looked for in each table
    newest       what was found of them, by table and generation
    """

    generations: frozenset[str] = frozenset()
    newest: dict[str, dict[str, int]] = field(default_factory=dict)
    coverage: Coverage = field(default_factory=Coverage)
    merged: Coverage = field(default_factory=Coverage)
    keyed: set[str] = field(default_factory=set)
    groups: dict[GroupKey, Sum] = field(default_factory=dict)
    tables: list[TableCount] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)


def survey_table(lake: Lake, name: str, survey: Survey, *, checksums: bool = True) -> None:
    """Reads one table into the survey; one that cannot be read is a difference.

    Without `checksums` groups have none: to work them out takes a third of the time, and only a truth is held against them.
    """
    try:
        _read(lake, name, survey, checksums=checksums)
    except READ_ERRORS as error:
        survey.differences.append(Difference("table_unreadable", name, str(error)))


def holders(
    lake: Lake, names: Sequence[str], partition: Partition, offsets: npt.NDArray[np.int64]
) -> list[str]:
    """Which of these tables hold which of the offsets, as text, such as `silver_golf_events (offset 7, 2 times)`."""
    found = []
    for name in names:
        counts = Counter[int]()
        for batch in _coordinates(lake, name):
            topics, numbers, places = batch.columns
            # Of a table with marked rows they are views of texts, which Arrow compares with none.
            at = pc.and_(pc.equal(topics.cast(pa.string()), partition[0]), pc.equal(numbers, partition[1]))
            counts.update(places.filter(pc.and_(at, pc.is_in(places, pa.array(offsets)))).to_pylist())
        found += [f"{name} (offset {offset}, {count} times)" for offset, count in sorted(counts.items())]
    return found


def _coordinates(lake: Lake, name: str) -> Iterator[pa.RecordBatch]:
    table, columns = lake.open(name), lake.columns if name != QUARANTINE_TABLE else Columns()
    if table is not None:
        wanted = [columns.kafka_topic, columns.kafka_partition, columns.kafka_offset]
        yield from (batch.select(wanted) for batch in batches(table, wanted))


def _read(lake: Lake, name: str, survey: Survey, *, checksums: bool) -> None:
    table = lake.open(name)
    if table is None:
        return
    survey.newest[name] = newest_of(table, name, survey.generations)
    sums, rows, strays = GroupSums(), 0, 0
    keys = KeysMet.of(table, lake.root.below(name), lake.columns)
    coverage = survey.coverage if keys is None else survey.merged
    survey.keyed |= set() if keys is None else {name}
    for batch in batches(table):
        rows += batch.num_rows
        strays += _count_coordinates(lake, batch, coverage)
        if keys is not None:
            keys.add(batch)
        hashes = _hashes(lake, batch) if checksums else np.zeros(batch.num_rows, np.uint64)
        sums.add(_keys(lake, batch), hashes)
    for (topic, game, schema_id), total in sums.groups.items():
        survey.groups[name, topic, game, schema_id] = total
    if strays:
        detail = f"{strays:,} rows have no topic, partition or offset"
        survey.differences.append(Difference("record_without_coordinates", name, detail))
    if keys is not None and (again := keys.twice()):
        detail = f"{again:,} rows {keys.meaning}"
        survey.differences.append(Difference("key_twice", name, detail))
    survey.tables.append(_counted(name, table, rows, sums))


def _hashes(lake: Lake, batch: pa.RecordBatch) -> Hashes:
    """Of the payload's columns, and of what had no place in them."""
    names = lake.columns
    rows = with_canonical_rescued(batch, names.rescued)
    return row_hashes(rows, names.reserved() - {names.rescued, RESCUED})


def _counted(name: str, table: DeltaTable, rows: int, sums: GroupSums) -> TableCount:
    ids = {schema_id for (_, _, schema_id) in sums.groups if schema_id is not None}
    return TableCount(name, rows, len(table.schema().fields), tuple(sorted(ids)))


def count_offsets(topics: pa.Array, partitions: pa.Array, offsets: pa.Array, coverage: Coverage) -> int:
    """Counts these coordinates; how many of the rows lack them."""
    complete = pc.and_(pc.and_(topics.is_valid(), partitions.is_valid()), offsets.is_valid())
    strays = len(topics) - pc.sum(complete).as_py() if len(topics) else 0
    if strays:
        topics, partitions, offsets = (part.filter(complete) for part in (topics, partitions, offsets))
    numbers, places = partitions.to_numpy(), offsets.to_numpy()
    names = topics.dictionary_encode()
    codes = names.indices.to_numpy()
    for code, topic in enumerate(names.dictionary.to_pylist()):
        of_topic = codes == code
        for number in np.unique(numbers[of_topic]).tolist():
            coverage.add((topic, number), places[of_topic & (numbers == number)])
    return strays


def _count_coordinates(lake: Lake, batch: pa.RecordBatch, coverage: Coverage) -> int:
    names = lake.columns
    topics, partitions = batch.column(names.kafka_topic), batch.column(names.kafka_partition)
    return count_offsets(topics, partitions, batch.column(names.kafka_offset), coverage)


def _keys(lake: Lake, batch: pa.RecordBatch) -> list[pa.Array]:
    """Topic, game and schema id of each row."""
    names = lake.columns
    return [batch.column(names.kafka_topic), _games(batch), batch.column(names.schema_id)]


def _games(batch: pa.RecordBatch) -> pa.Array:
    """The games' names; null where the table lacks the field, or has something else there than a name."""
    place = _place(batch.schema, GAME)
    # What was simulated has a text there; anybody's own field may be called so.
    if place is None or not _is_text(batch.column(place).type):
        return pa.nulls(batch.num_rows, pa.string())
    return batch.column(place).cast(pa.string())


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _place(fields: pa.Schema, name: str) -> int | None:
    """Where the payload's field of this name is, whatever the table had to call it."""
    for place, about in enumerate(fields):
        if (about.metadata or {}).get(SOURCE_NAME, about.name.encode()) == name.encode():
            return place
    return None
