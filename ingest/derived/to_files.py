"""A version of a derived table as Parquet files for others, one for each file of the version, so that a repeat finds what is there."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import SparkSession

from distributary.ingest.clustering.reading import rows_in
from distributary.ingest.derived.inputs import Snapshot
from distributary.ingest.merge import live_files
from distributary.ingest.merge.live_files import Action
from distributary.ingest.spark.tasks.parts import by_parts
from distributary.ingest.storage.contract import DRAFT_SECONDS, Files

# Tells a version from another one that has its number, since a table can be made anew.
_DIGITS = 8

# So many have a version's number sort as text does.
_VERSION_DIGITS = 20

_Copy = tuple[str, str, Action]


def put(spark: SparkSession, table: Snapshot, folder: Files) -> int:
    """How many files were missing, and are there now. What a writer of others began long ago, and was killed at, goes."""
    live = sorted(live_files.read(table.place, table.input.version), key=lambda one: one[0])
    names = [_name(table, number, max(len(live), 1)) for number in range(max(len(live), 1))]
    # Those of all versions of before are there, too.
    there = set(folder.names(after=f"{table.input.version:0{_VERSION_DIGITS}d}"))
    if not live:
        return 0 if names[0] in there else int(folder.put_new(names[0], _empty(table.columns)))
    copies = [
        (name, *file)
        for name, file in zip(names, ((n, a) for n, a in live), strict=True)
        if name not in there
    ]
    if not copies:
        return 0
    if folder.drafts:
        # Another's may be for him alone to delete.
        with suppress(OSError):
            folder.sweep("", DRAFT_SECONDS)
    place, columns = table.place, table.columns
    tasks = min(len(copies), spark.sparkContext.defaultParallelism)
    shares = [copies[number::tasks] for number in range(tasks)]
    by_parts(spark, shares, lambda share: _copied(place, folder, share, columns), "name string").collect()
    return len(copies)


def _name(table: Snapshot, number: int, count: int) -> str:
    version = f"{table.input.version:0{_VERSION_DIGITS}d}-{table.input.entry[:_DIGITS]}"
    return f"{version}-{number + 1}-of-{count}.parquet"


def _empty(columns: pa.Schema) -> bytes:
    return _parquet([columns.empty_table()], columns)


def _parquet(rows: Iterable[pa.Table], columns: pa.Schema) -> bytes:
    out = io.BytesIO()
    with pyarrow.parquet.ParquetWriter(out, columns) as writer:
        for part in rows:
            writer.write_table(part.cast(columns))
    return out.getvalue()


def _copied(
    place: Files, folder: Files, copies: Sequence[_Copy], columns: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for name, file, add in copies:
        # One that another attempt has put has the same rows.
        folder.put_new(name, _parquet(rows_in(place, [(file, add)], columns), columns))
        yield pa.RecordBatch.from_pydict({"name": [name]})
