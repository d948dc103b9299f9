"""Records of tables in partitions, in a worker: by which columns, and which have no place there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as kinds

from distributary.ingest.bronze.rows import DAY
from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.partitions import (
    column_of,
    is_empty,
    partition_columns,
    unwritable,
    why_refused,
)
from distributary.ingest.columns.safe_names import MEMORY_SUFFIX, QUARANTINE_TABLE
from distributary.ingest.pins import PARTITION, Pins

Rejected = tuple[int, str, str]


@dataclass(frozen=True, slots=True)
class PartitionedBy:
    """What a table is partitioned by.

    fields   of its records, as its rule names them, or the day in Kafka by its column's name
    day      that column, if there is one
    there    the columns that it has been partitioned by, where it is there already
    needed   fields without which a record has no place in it, since they name rows or order them
    """

    fields: tuple[str, ...] = ()
    day: str | None = None
    there: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.fields or self.there)

    def columns(self, layout: Layout) -> tuple[str, ...]:
        """The columns, where these are those of the payload."""
        return self.there or partition_columns(self.fields, layout.columns, self.day)

    def with_fields(self, record: pa.Schema, places: tuple[int, ...]) -> tuple[int, ...]:
        """These places of a record's fields, and those of its fields."""
        own = {record.get_field_index(field) for field in self.fields} - {-1}
        return places if own.issubset(places) else tuple(sorted(own.union(places)))


_WHOLE = PartitionedBy()


def partitioned_by(pins: Pins, folder: str, entity: str | None) -> PartitionedBy:
    """What an entity's table is partitioned by; the quarantine, and what remembers deletes, are by nothing."""
    known, rules = pins.tables.known.get(folder), pins.rules
    remembers = rules.tables.remembers and folder.endswith(MEMORY_SUFFIX)
    if entity is None or folder == QUARANTINE_TABLE or remembers:
        return _WHOLE
    there = () if known is None else known.partitions
    fields = rules.tables.of(entity).partition_by if rules.tables.partitions else ()
    if not fields and not there:
        return _WHOLE
    upsert = rules.tables.upsert(entity)
    needed = () if upsert is None else (*upsert.keys, *upsert.sequence_by)
    return PartitionedBy(fields, rules.columns.kafka_date, there, needed)


def partitions_of(pins: Pins, folder: str, entity: str | None, layout: Layout) -> tuple[str, ...]:
    """The columns that the files in a folder are told apart by, where these are those of the payload."""
    if entity is None:
        return (DAY,) if folder in pins.rules.tables.kept.folders else ()
    by = partitioned_by(pins, folder, entity)
    return by.columns(layout) if by else ()


def in_no_partition(by: PartitionedBy, layout: Layout, rows: pa.RecordBatch) -> list[Rejected]:
    """(row, reason, detail) of those of a table's rows that belong to none of its partitions, each once, ascending.

    layout  the payload's columns of the table
    rows    with Kafka's columns, and those of the payload that their schema has
    """
    found: dict[int, Rejected] = {}
    for lacking, detail in _refused(by, layout, rows):
        for row in np.flatnonzero(lacking).tolist():
            found.setdefault(row, (row, PARTITION, detail))
    return [found[row] for row in sorted(found)]


def _refused(
    by: PartitionedBy, layout: Layout, rows: pa.RecordBatch
) -> Iterator[tuple[npt.NDArray[np.bool_], str]]:
    everyone = np.ones(rows.num_rows, np.bool_)
    columns = {field: column_of(field, layout.columns, by.day) for field in by.fields}
    for field, column in (columns or dict(zip(by.there, by.there, strict=True))).items():
        if column is None or column not in rows.schema.names:
            # One that is partitioned by another hand takes such records, as it would by Spark's writer.
            if columns:
                yield everyone, f"its schema has no field {field}, by which its table is partitioned"
        elif why := why_refused(rows.schema.field(column).type):
            yield everyone, f"field {field} {why}; take it from partition_by"
        else:
            why = f"field {field} has a value that no partition can have"
            yield unwritable(column, rows.column(column)), why
            if field in by.needed and kinds.is_string(rows.schema.field(column).type):
                why = f"field {field} is an empty text, which is none to a partition"
                yield is_empty(rows.column(column)), why


def with_others(rejected: Sequence[Rejected], others: Iterable[Rejected]) -> list[Rejected]:
    """Those that do not fit, and those that fit and have no place for another reason."""
    misfits = {row for row, _, _ in rejected}
    return sorted([*rejected, *(one for one in others if one[0] not in misfits)])
