"""A table with one row a key, without a pipeline around it: staged, merged and read back."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import Schema as DeltaSchema

from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.partitions import partition_value
from distributary.ingest.log_paths import entry_path
from distributary.ingest.merge import live_files, vectors
from distributary.ingest.merge.counts import MergeCounts
from distributary.ingest.merge.rule import (
    VECTORS,
    Deletes,
    MergeRule,
    Order,
    Position,
    memory_folder,
    memory_schema,
    present_metadata,
)
from distributary.ingest.parquet.data_file import DataFile, file_name
from distributary.ingest.parquet.split import split
from distributary.ingest.parquet.statistics import statistics
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import At, files_at
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log import put_entry
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.transaction import TableCommit, Transaction

GENERATION = "0123abcd" * 4
POSITION = Position("topic", "partition", "offset", "ts")
PLACE = [
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("ts", pa.timestamp("us", "UTC")),
]

Row = Mapping[str, Any]

# In a row that a test stages: the columns that its schema has.
PRESENT = "(present)"


def make(
    table: At, schema: pa.Schema, properties: Mapping[str, str] | None = None, partitions: Sequence[str] = ()
) -> None:
    """A table that keeps deletion vectors."""
    metadata = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": DeltaSchema.from_arrow(schema).to_json(),
        "partitionColumns": list(partitions),
        "configuration": {VECTORS: "true", **(properties or {})},
        "createdTime": 0,
    }
    features = ["deletionVectors", *(["timestampNtz"] if _has_local_times(schema) else [])]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": features,
    }
    files_at(table).make_folder("_delta_log")
    assert put_entry(table, 0, [{"protocol": protocol}, {"metaData": metadata}])


def _has_local_times(schema: pa.Schema) -> bool:
    return any(pa.types.is_timestamp(one.type) and one.type.tz is None for one in schema)


@dataclass
class Upserted:
    """A table under a root, and what remembers its deletes if there are any."""

    root: Files
    schema: pa.Schema
    rule: MergeRule
    folder: str = "players"
    partitions: Sequence[str] = ()
    commits: NativeCommits = field(default_factory=NativeCommits)
    batch: int = -1

    @classmethod
    def made(
        cls,
        root: At,
        columns: Sequence[Any],
        rule: MergeRule,
        *,
        deletes: bool = False,
        properties: Mapping[str, str] | None = None,
        partitions: Sequence[str] = (),
    ) -> Upserted:
        """A new one, whose columns follow those of the position."""
        files, schema = files_at(root), pa.schema([*PLACE, *columns])
        found = cls(files, schema, rule, partitions=partitions)
        make(files.below(found.folder), schema, properties, partitions)
        if deletes:
            memory = memory_folder(found.folder)
            make(files.below(memory), memory_schema(rule, schema))
            found.rule = replace(rule, deletes=rule.deletes or Deletes(files.below(memory)))
        return found

    @property
    def place(self) -> Files:
        """The table's folder, open."""
        return self.root.below(self.folder)

    def merge(self, rows: Sequence[Row], deletes: Sequence[Row] = (), files: int = 1) -> MergeCounts:
        """Merge the next batch."""
        return self.commit(self.part(rows, deletes, files))

    def commit(self, part: TableCommit) -> MergeCounts:
        """Commit a part, which was not in yet."""
        assert self.commits.commit(part)
        found = self.commits.merged(part)
        assert found is not None
        return found

    def part(self, rows: Sequence[Row], deletes: Sequence[Row] = (), files: int = 1) -> TableCommit:
        """The next batch, staged; its deletes are remembered."""
        *before, part = self.parts(rows, deletes, files)
        for one in before:
            self.commits.commit(one)
        return part

    def parts(self, rows: Sequence[Row], deletes: Sequence[Row] = (), files: int = 1) -> list[TableCommit]:
        """The next batch, staged: what remembers its deletes, if there are any, and then the table."""
        return list(self.decided(rows, deletes, files).parts)

    def decided(self, rows: Sequence[Row], deletes: Sequence[Row] = (), files: int = 1) -> TableCommit:
        """The next batch, staged, as a manifest has it."""
        self.batch += 1
        rule = self.rule
        if (known := rule.deletes) is not None:
            staged = [self.staged(deletes, memory=True)] if deletes else list[DataFile]()
            rule = replace(rule, deletes=replace(known, files=staged))
        parts: dict[Any, list[Row]] = {}
        for number, row in enumerate(rows):
            parts.setdefault((number % files, row.get(PRESENT)), []).append(row)
        found = [file for (_, present), part in parts.items() for file in self._staged(part, present)]
        told = Transaction(f"{GENERATION}/events", self.batch)
        return TableCommit(self.folder, self.place, found, self.schema, told, native=True, merge=rule)

    def staged(
        self, rows: Sequence[Row], *, memory: bool = False, present: Iterable[str] | None = None
    ) -> DataFile:
        """A file of these rows, whose schema has the columns that are present."""
        folder = memory_folder(self.folder) if memory else self.folder
        schema = memory_schema(self.rule, self.schema) if memory else self.schema
        table = pa.Table.from_pylist(list(rows), schema).replace_schema_metadata(_said(present))
        return written(self.root, folder, table, self.batch)

    def _staged(self, rows: Sequence[Row], present: Iterable[str] | None) -> Iterator[DataFile]:
        """Files of these rows, one for each of their partitions."""
        if not self.partitions:
            yield self.staged(rows, present=present)
            return
        batch = pa.RecordBatch.from_pylist(list(rows), self.schema)
        for values, piece in split(batch, self.partitions):
            table = pa.Table.from_batches([piece]).replace_schema_metadata(_said(present))
            yield replace(written(self.root, self.folder, table, self.batch), partition=values)

    def rows(self) -> list[dict[str, Any]]:
        """What the table has, by its log, Parquet and vectors."""
        found: list[dict[str, Any]] = read_back(self.place, self.schema).to_pylist()
        return found

    def by_key(self) -> dict[Any, dict[str, Any]]:
        """The same by the first column of the key, each of which is there once."""
        found = self.rows()
        keyed = {row[self.rule.keys[0]]: row for row in found}
        assert len(keyed) == len(found)
        return keyed


def _said(present: Iterable[str] | None) -> Mapping[bytes, bytes] | None:
    return None if present is None else present_metadata(present)


def written(root: Files, folder: str, rows: pa.Table, batch: int, **given: Any) -> DataFile:
    """A file of a table, written as workers do."""
    name = file_name(GENERATION, batch)
    into = pa.BufferOutputStream()
    with pq.ParquetWriter(into, rows.schema, store_schema=False) as writer:
        writer.write_table(rows, **given)
        if rows.schema.metadata:
            # What Arrow keeps of a schema by itself is left out of our files.
            writer.add_key_value_metadata(rows.schema.metadata)
    data = into.getvalue()
    root.put(f"{folder}/{name}", data, named_later=True)
    text = statistics(pq.read_metadata(pa.BufferReader(data)), Layout(rows.schema))
    return DataFile(folder, name, rows.num_rows, data.size, text)


class Placed(Protocol):
    """A table, by its folder."""

    @property
    def place(self) -> Files:
        """The folder, open."""


def cleaned_up(table: Placed) -> None:
    """The table's log keeps nothing from before its newest checkpoint."""
    handle = opened(table.place)
    handle.create_checkpoint()
    table.place.delete(entry_path(version) for version in range(handle.version()))


def read_back(place: Files, schema: pa.Schema | None = None) -> pa.Table:
    """A table's rows, as its log says now; `schema` has the types of the columns that it is in partitions by."""
    versions = [
        int(name[:20]) for name in place.names("_delta_log") if name.endswith(".json") and name[:20].isdigit()
    ]
    live = live_files.read(place, max(versions))
    parts = []
    for name, add in live:
        rows = as_told(pq.read_table(pa.BufferReader(place.read(name)), coerce_int96_timestamp_unit="us"))
        vector = add.get("deletionVector")
        if vector is not None:
            gone = set(vectors.read(place, vector).tolist())
            assert json.loads(add["stats"])["numRecords"] == rows.num_rows
            rows = rows.take([at for at in range(rows.num_rows) if at not in gone])
        for column, text in add["partitionValues"].items():
            assert schema is not None
            assert column not in rows.column_names
            value = partition_value(text, schema.field(column).type)
            rows = rows.append_column(column, pa.repeat(value, rows.num_rows))
        if add["partitionValues"] and schema is not None:
            rows = rows.select(schema.names)
        parts.append(rows)
    return pa.concat_tables(parts, promote_options="default") if parts else pa.table({})


def as_told(rows: pa.Table) -> pa.Table:
    """Times as the table has them, and not as Spark writes them."""
    fields = [
        pa.field(one.name, pa.timestamp("us", "UTC"))
        if one.type == pa.timestamp("us") and one.name == "ts"
        else one
        for one in rows.schema
    ]
    return rows.cast(pa.schema(fields))


def ordered_by(*sequence: str, moved: Any = "stop") -> Order:
    """An order by these columns, or the position."""
    return Order(POSITION, sequence, moved)


def of_at_most(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Have Arrow bring together no more than so many bytes, as it does no 2 GiB of text."""
    together = pa.concat_arrays

    def limited(arrays: Iterable[pa.Array]) -> pa.Array:
        whole = together(list(arrays))
        if whole.nbytes > size:
            raise pa.ArrowInvalid("offset overflow while concatenating arrays")
        return whole

    monkeypatch.setattr(pa, "concat_arrays", limited)
