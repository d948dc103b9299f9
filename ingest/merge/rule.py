"""By which rule a batch's rows become part of a table that has one row a key."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from distributary.codecs.types.walk import children
from distributary.ingest.columns.safe_names import MEMORY_SUFFIX
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.settings.groups import Columns
from distributary.ingest.storage.contract import Files

PRESENT = b"distributary.present"
"""In the footer of a staged file for `update: present`: the columns that the records' own schema has, as a JSON list of dotted paths.

A path of a struct stands for all that is in it. A file without it has all its columns set.
"""

VECTORS = "delta.enableDeletionVectors"
"""The property of a table whose rows may be marked as deleted."""

IS_DELETE = "__is_delete"
"""The column of what remembers the records of a table that keeps what was: whether one took its key's row away."""

MEMORY_DAYS = 30
"""For how long a delete is remembered, by the newest record's timestamp."""

Update = Literal["all", "present"]

Moved = Literal["stop", "timestamp"]


@dataclass(frozen=True, slots=True)
class Position:
    """The columns that say where in Kafka a row came from.

    turn  how often its topic was made anew before it, in this lineage; None, and null in a row, is 0
    """

    topic: str
    partition: str
    offset: str
    timestamp: str
    turn: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Their names, the turn's among them if there is one."""
        found = (self.topic, self.partition, self.offset, self.timestamp)
        return found if self.turn is None else (*found, self.turn)


@dataclass(frozen=True, slots=True)
class Order:
    """Which of two rows of a key is the newer one.

    sequence  the columns, as dotted paths, of which the first that differs decides, then the position; none: the position alone does.
              A null is the lowest, NaN the highest
    moved     without a sequence, where a known key comes in another topic or partition: `stop` raises CommitImpossible with the remedy,
              by `timestamp` all rows are compared by the record's timestamp and then by their position
    """

    position: Position
    sequence: tuple[str, ...] = ()
    moved: Moved = "stop"


@dataclass(frozen=True, slots=True)
class Deletes:
    """What becomes of rows that are to go.

    memory  the table that remembers deletes, open. It has the columns of `memory_schema`
    files   the batch's deletes, staged there and committed to it BEFORE the table is: so none of them can be lost
    mark    the column that becomes true, where a row stays; None: it goes
    days    for how long a delete is remembered: one that is older than the batch's oldest record by more is not asked for
    again   whether the batch's records were read before. Of these one that is older than the newest record of all by so many days
            is taken only where its key is known: nobody knows any more whether a delete came after it
    """

    memory: Files
    files: Sequence[DataFile] = ()
    mark: str | None = None
    days: float = MEMORY_DAYS
    again: bool = False


@dataclass(frozen=True, slots=True)
class Validity:
    """The columns of a table that keeps what was: one row for all the time that the same was true of a key.

    since    the first moment at which it was: that of the record by which it came, in the type of the first column of the sequence
    until    the first moment at which it was no more; null where it is
    current  whether it is
    apart    columns, as dotted paths, that make no history: two records that differ in them alone say the same
    """

    since: str = "valid_from"
    until: str = "valid_to"
    current: str = "is_current"
    apart: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, str, str]:
        """Those that no record has."""
        return self.since, self.until, self.current


@dataclass(frozen=True, slots=True)
class MergeRule:
    """How a batch's rows become part of a table.

    keys     the columns that make a key, as dotted paths. None of them is null in a staged row, nor a list or a map
    order    which of two rows of a key is the newer one; no column of its sequence is null in a staged row
    update   whether a newer row sets all columns, or those that its own schema has (see `PRESENT`)
    deletes  what becomes of rows that are to go; None where there are none
    history  the columns that say when a row was true, where it stays beside those that came after it; None where it does not. The
             first column of the sequence is a time then, and what remembers deletes has all records
    """

    keys: tuple[str, ...]
    order: Order
    update: Update = "all"
    deletes: Deletes | None = None
    history: Validity | None = None

    @property
    def read(self) -> tuple[str, ...]:
        """The columns, as dotted paths, by which rows are told apart and compared, and those that each record has of its own."""
        apart = () if self.history is None else self.history.apart
        return tuple(dict.fromkeys((*self.keys, *self.order.sequence, *self.order.position.columns, *apart)))


def position_of(columns: Columns) -> Position:
    """The columns that say where in Kafka a row came from, by the settings' names."""
    return Position(columns.kafka_topic, columns.kafka_partition, columns.kafka_offset, columns.kafka_ts)


def memory_folder(table: str) -> str:
    """The folder of the table that remembers a table's deletes."""
    return f"{table}{MEMORY_SUFFIX}"


def with_memories(tables: Iterable[str]) -> frozenset[str]:
    """The folders of tables, and of what remembers their deletes, if that is there."""
    return frozenset(name for table in tables for name in (table, memory_folder(table)))


def memory_schema(rule: MergeRule, table: pa.Schema) -> pa.Schema:
    """The columns of the table that remembers deletes: of the table's own those by which rows are told apart and compared.

    By the same names and types, nested ones in their structs. Of a table that keeps what was it remembers all records.
    """
    wanted = [tuple(path.split(".")) for path in rule.read]
    told = [] if rule.history is None else [pa.field(IS_DELETE, pa.bool_())]
    return pa.schema([*_kept(table, wanted), *told])


def present_metadata(paths: Iterable[str]) -> dict[bytes, bytes]:
    """What the footer of a staged file says of the columns that its records' schema has."""
    return {PRESENT: json.dumps(list(paths), separators=(",", ":")).encode()}


def _kept(fields: Iterable[pa.Field], wanted: Sequence[tuple[str, ...]]) -> list[pa.Field]:
    found = []
    for field in fields:
        below = [path[1:] for path in wanted if path[0] == field.name]
        if () in below:
            found.append(field)
        elif below:
            found.append(field.with_type(pa.struct(_kept(children(field.type), below))))
    return found
