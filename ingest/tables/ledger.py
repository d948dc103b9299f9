"""The tables that keep the record: every batch, every change of a table's columns, every record in quarantine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from distributary.codecs.changes.classify import ChangeClass
from distributary.ingest.bronze.rows import HEADERS
from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.safe_names import BATCHES_TABLE, CHANGES_TABLE, QUARANTINE_TABLE
from distributary.ingest.merge.counts import MergeCounts
from distributary.ingest.parquet.data_file import DataFile, file_name
from distributary.ingest.parquet.statistics import Fractions, statistics
from distributary.ingest.storage.opening import At, files_at

_INSTANT = pa.timestamp("us", "UTC")

BATCHES_SCHEMA = pa.schema(
    [
        ("pipeline", pa.string()),
        ("generation", pa.string()),
        ("batch_id", pa.int64()),
        ("started_at", _INSTANT),
        ("ended_at", _INSTANT),
        ("seconds", pa.float64()),
        ("attempts", pa.int32()),
        ("rows_read", pa.int64()),
        ("rows_tables", pa.int64()),
        ("rows_quarantined", pa.int64()),
        ("rows_dropped", pa.int64()),
        ("rows_already", pa.int64()),
        ("rows_by_reason", pa.string()),
        ("tables", pa.int64()),
        ("files", pa.int64()),
        ("bytes", pa.int64()),
        ("offsets", pa.string()),
        ("gaps", pa.string()),
        ("schema_ids", pa.string()),
        # Behind those of earlier versions, whose tables get them.
        ("unknown_fields", pa.string()),
        ("requests", pa.int64()),
        ("rows_inserted", pa.int64()),
        ("rows_updated", pa.int64()),
        ("rows_deleted", pa.int64()),
        ("rows_older", pa.int64()),
        ("rows_duplicate", pa.int64()),
        ("first_batch_id", pa.int64()),
        ("rows_purged", pa.int64()),
        ("rows_unchanged", pa.int64()),
        ("expectations", pa.string()),
        ("rows_kept", pa.int64()),
        ("rows_added", pa.int64()),
    ]
)

"""One row a batch, and of old ones one a day where `sink.keep` says so; `rows_by_reason`, `offsets`, `gaps`, `schema_ids`, `unknown_fields` and `expectations` are JSON text."""

CHANGES_SCHEMA = pa.schema(
    [
        ("pipeline", pa.string()),
        ("generation", pa.string()),
        ("batch_id", pa.int64()),
        ("at", _INSTANT),
        ("table", pa.string()),
        ("entity", pa.string()),
        ("schema_id", pa.int64()),
        ("kind", pa.string()),
        ("column", pa.string()),
        ("type", pa.string()),
        ("decision", pa.string()),
        ("detail", pa.string()),
        ("kafka_topic", pa.string()),
        ("kafka_partition", pa.int32()),
        ("kafka_offset", pa.int64()),
        # Behind those of earlier versions, whose tables get these columns.
        ("old_schema_id", pa.int64()),
        ("before", pa.string()),
        ("after", pa.string()),
    ]
)

"""One row a change that a schema meant for a table; the Kafka columns are the first record that brought it, where known."""

QUARANTINE_SCHEMA = pa.schema(
    [
        ("kafka_topic", pa.string()),
        ("kafka_partition", pa.int32()),
        ("kafka_offset", pa.int64()),
        ("kafka_ts", _INSTANT),
        ("kafka_key", pa.binary()),
        ("value", pa.binary()),
        ("header_schema_id", pa.binary()),
        ("schema_id", pa.int64()),
        ("schema_guid", pa.string()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("entity", pa.string()),
        ("batch_id", pa.int64()),
        ("generation", pa.string()),
        # Behind those of earlier versions, whose tables get these.
        ("pipeline", pa.string()),
        ("headers", HEADERS),
    ]
)

"""One row a record that has no place in an entity's table: its bytes as they came, and why."""

OWN_TABLES: Mapping[str, pa.Schema] = {
    QUARANTINE_TABLE: QUARANTINE_SCHEMA,
    BATCHES_TABLE: BATCHES_SCHEMA,
    CHANGES_TABLE: CHANGES_SCHEMA,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """A batch as `ledger_batches` keeps it.

    attempts        how often the batch was begun until it was decided
    rows_already    records left out because an earlier generation had committed them
    rows_by_reason  records quarantined or dropped, by reason
    offsets         topic -> partition -> (start, end), end exclusive
    gaps            topic -> partition -> offsets without a record
    schema_ids      ids of the schemas that records were decoded with
    unknown_fields  schema id -> path of a field that it lacks -> records of a sample that have it
    requests        to the object store that the tables are in: its workers', and the driver's since the row before; None elsewhere
    rows_inserted, rows_updated, rows_deleted, rows_older, rows_duplicate, rows_unchanged  what became of the rows of tables with one row a key; None where
                    no rule asks for them, or a commit that would say so is not in its table, or not in its log any more
    first_batch_id, rows_purged  what upkeep writes of old batches: the first of those that the row stands for, and how many rows in quarantine
                    were deleted as too old
    expectations    table's folder -> expectation -> (records that met it, records that did not); None where no table with records expects anything
    rows_kept       records that were kept as they came; None where that was not wanted
    rows_added      of rows_tables those for tables to which each is added; None where no rule asks for others
    """

    pipeline: str
    generation: str
    batch_id: int
    started_at: datetime
    ended_at: datetime
    seconds: float
    attempts: int
    rows_read: int
    rows_tables: int
    rows_quarantined: int
    rows_dropped: int
    rows_already: int
    rows_by_reason: Mapping[str, int]
    tables: int
    files: int
    bytes: int
    offsets: Mapping[str, Mapping[int, Sequence[int]]]
    gaps: Mapping[str, Mapping[int, int]]
    schema_ids: Sequence[int]
    unknown_fields: Mapping[int, Mapping[str, int]]
    requests: int | None = None
    rows_inserted: int | None = None
    rows_updated: int | None = None
    rows_deleted: int | None = None
    rows_older: int | None = None
    rows_duplicate: int | None = None
    first_batch_id: int | None = None
    rows_purged: int | None = None
    rows_unchanged: int | None = None
    expectations: Mapping[str, Mapping[str, Sequence[int]]] | None = None
    rows_kept: int | None = None
    rows_added: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """What a schema changed for a table, as `ledger_changes` keeps it.

    schema_id      the schema that brought it; `old_schema_id` the one that the table's records came with before
    kind           the change's class (`codecs/changes/classify.py`); "created" of a column that its table was made with; "property" of
                   what the settings have the table say of itself
    column         the table's column; where it has none, the field; of a property its name, or "comment"
    type           the column's type; empty where the table has none
    before, after  what changed in the schema: a type, a name, a symbol
    decision       what was done about it (`ingest/evolution/verdicts.py`), such as "add" or "rescue"; "set" of a property
    detail         more in words
    """

    pipeline: str
    generation: str
    batch_id: int
    at: datetime
    table: str
    entity: str | None
    schema_id: int | None
    kind: ChangeClass | Literal["created", "property"]
    column: str
    type: str
    decision: str
    detail: str = ""
    kafka_topic: str | None = None
    kafka_partition: int | None = None
    kafka_offset: int | None = None
    old_schema_id: int | None = None
    before: str | None = None
    after: str | None = None


MERGED_ROWS = tuple(f"rows_{one.name}" for one in fields(MergeCounts))
"""The columns that say what became of the rows of tables with one row a key."""


def batch_file(root: At, row: BatchRow) -> DataFile:
    """The batch's row as a file in `ledger_batches`, not yet committed."""
    name = file_name(row.generation, row.batch_id)
    return _write(root, BATCHES_TABLE, name, [_plain(row)], BATCHES_SCHEMA)


def later(row: BatchRow) -> tuple[DataFile, dict[str, Any]]:
    """The file in `ledger_batches` that `late_file` will write, as far as that can be told, and the row as JSON values."""
    name = file_name(row.generation, row.batch_id)
    values = {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in _plain(row).items()
    }
    return DataFile(BATCHES_TABLE, name, 1, 0, ""), values


def late_file(
    root: At,
    name: str,
    row: Mapping[str, Any],
    counts: Mapping[str, int | None],
    schema: pa.Schema = BATCHES_SCHEMA,
) -> DataFile:
    """A row that `later` gave as a file of this name; with these columns, which it could not have then.

    `schema` has the table's as of then: an earlier version may have decided it.

    One that is there already, whole, stays as it is: the table may have it by now, of another run or version, and whoever stood still
    meanwhile would put others in the place of its bytes, with another size than the table's log says.
    """
    instants = {one.name: datetime.fromisoformat(row[one.name]) for one in schema if one.type == _INSTANT}
    data, _ = _encoded([{**row, **instants, **counts}], schema)
    files, path = files_at(root), f"{BATCHES_TABLE}/{name}"
    files.make_folder(BATCHES_TABLE)
    mine = (files.remote or files.info(path) is None) and files.put_new(path, data, durable=files.remote)
    if not mine:
        found = pa.py_buffer(files.read(path))
        data = found if files.remote or _is_whole(found, row) else data
        if not files.remote:
            # As it is, if it was whole: a disk that did not take it says so once. In a store it is there whole or not at all.
            files.put(path, data)
    text = _statistics(pq.read_metadata(pa.BufferReader(data)), schema)
    return DataFile(BATCHES_TABLE, name, 1, data.size, text)


def _is_whole(data: pa.Buffer, row: Mapping[str, Any]) -> bool:
    """Whether a file is this row's of the ledger from its first bytes to its last, as it is not where the power failed."""
    try:
        (found,) = pq.read_table(pa.BufferReader(data)).to_pylist()
    except (ValueError, OSError):
        return False
    return all(found.get(name) == row[name] for name in ("generation", "batch_id"))


def _plain(row: BatchRow) -> dict[str, Any]:
    return {name: _as_text(value) for name, value in asdict(row).items()}


def changes_file(root: At, rows: Sequence[ChangeRow], name: str | None = None) -> DataFile:
    """One batch's changes (at least one) as a file in `ledger_changes`, not yet committed; called as files of that batch are, unless told."""
    # Not `asdict`: its deep copies take a millisecond a table, and nothing here is nested.
    names = [one.name for one in fields(ChangeRow)]
    plain = [{one: getattr(row, one) for one in names} for row in rows]
    name = name or file_name(rows[0].generation, rows[0].batch_id)
    return _write(root, CHANGES_TABLE, name, plain, CHANGES_SCHEMA)


def _as_text(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, Mapping | list | tuple) else value


def _write(root: At, table: str, name: str, rows: list[dict[str, Any]], schema: pa.Schema) -> DataFile:
    data, text = _encoded(rows, schema)
    files_at(root).put(f"{table}/{name}", data, named_later=True)
    return DataFile(table, name, len(rows), data.size, text)


def _encoded(rows: list[dict[str, Any]], schema: pa.Schema) -> tuple[pa.Buffer, str]:
    """Rows as a file's bytes, and its statistics."""
    memory = pa.BufferOutputStream()
    with pq.ParquetWriter(memory, schema, compression="zstd") as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema))
    return memory.getvalue(), _statistics(writer.writer.metadata, schema)


def _statistics(metadata: pq.FileMetaData, schema: pa.Schema) -> str:
    """Nothing in the ledger is no number."""
    layout = Layout(schema)
    return statistics(metadata, layout, without_nan=Fractions(layout).without_nan)


def batches_of(last: int, first: int | None) -> range:
    """The numbers of the batches that a row of the ledger stands for, by its `batch_id` and its `first_batch_id`."""
    return range(last if first is None else first, last + 1)
