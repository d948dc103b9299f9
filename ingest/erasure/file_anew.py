"""A data file written anew with some of its rows, and what puts it in the other's place in its table's log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from distributary.ingest.columns.layout import Layout
from distributary.ingest.merge.columns import DataColumns, at_places
from distributary.ingest.merge.found import partition_of
from distributary.ingest.parquet.statistics import Fractions, Indexed, statistics
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.known import named_columns
from distributary.ingest.tables.state import TableState

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Made:
    """A file that is not in the table yet."""

    name: str
    bytes: int
    statistics: str


def written_anew(  # noqa: PLR0913, PLR0917 - a file, which of its rows, and where to
    place: Files, name: str, opened_file: DataColumns, stays: Mask, add: Mapping[str, Any], state: TableState
) -> Made:
    """A file with those rows of another one that stay, some of a row group at a time; `add` is what the log says of the other."""
    # All columns of the table but those that all rows of the file have one value in.
    columns = pa.schema([one for one in state.layout if one.name not in partition_of(add)])
    layout = Layout(columns)
    indexed = Indexed.told(state.properties, named_columns(state))
    fractions = Fractions(layout)
    # What has a fraction is read twice: the writer wants to know of NaN before it has the first row.
    if looked_at := {path[0] for path in fractions.without_nan}:
        some = pa.schema([one for one in columns if one.name in looked_at])
        for number, _, _ in opened_file.groups():
            for rows in opened_file.parts(number, some):
                fractions.take(fractions.with_nan(rows))
    with place.writer(name, named_later=True) as stream:
        with pq.ParquetWriter(
            stream.sink, columns, compression="zstd", store_schema=False, write_statistics=fractions.told
        ) as writer:
            for number, first, count in opened_file.groups():
                if not stays[first : first + count].any():
                    continue
                at = first
                for rows in opened_file.parts(number, columns):
                    kept = np.flatnonzero(stays[at : at + rows.num_rows])
                    if len(kept):
                        writer.write_table(at_places(rows, kept))
                    at += rows.num_rows
        size = stream.tell()
    return Made(name, size, statistics(writer.writer.metadata, layout, indexed, fractions.without_nan))


def addition(add: Mapping[str, Any], made: Made, now: int) -> dict[str, Any]:
    """What puts a file into the table in the place of one that an entry added."""
    return {
        "path": quote(made.name),
        "partitionValues": dict(add.get("partitionValues") or {}),
        "size": made.bytes,
        "modificationTime": now,
        "dataChange": True,
        "stats": made.statistics,
        # Rows that stay are in the order that they were in.
        **{name: add[name] for name in ("tags", "clusteringProvider") if name in add},
    }
