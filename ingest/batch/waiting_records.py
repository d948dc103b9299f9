"""Records that tasks set aside until the driver had answered, as the next pass takes them up."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from distributary.ingest.checkpoint.folder import ASIDE
from distributary.ingest.kafka.records import RAW, RAW_SCHEMA, none_as_empty
from distributary.ingest.spark.tasks.parts import by_parts
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.state_by_spark import pattern_of, reader, spark_schema

_log = logging.getLogger(__name__)

# How many rows a worker reads at once; whoever takes them gets his own number.
_ROWS = 10_000


_LISTS = [field.name for field in RAW_SCHEMA if pa.types.is_list(field.type)]

# Beside the tables; an underscore is no table's.
_BESIDE_TABLES = "_aside"


def place_aside(checkpoint: Files, root: Files, generation: str) -> Files:
    """Where records of all batches wait: in the checkpoint, or where tables are if that is another machine.

    There workers get to in any case, so that they need no folder that they share with the driver.
    """
    return root.below(f"{_BESIDE_TABLES}/{generation}") if root.remote else checkpoint.below(ASIDE)


def forget_waiting(aside: Files) -> None:
    """Delete what runs before left there: nobody asks for it, for their batch is read anew."""
    _cleared(aside)


def emptied(batch: Files) -> None:
    """Delete all records of one batch that were set aside."""
    _cleared(batch)
    batch.remove_folder()


def _cleared(place: Files) -> None:
    left = place.clear()
    if left:
        _log.warning(
            "records that nobody waits for any more cannot be deleted (%s%s); delete them yourself, as they hold payloads",
            "; ".join(left[:3]),
            f"; and {len(left) - 3} more" if len(left) > 3 else "",
        )


def waiting_records(spark: SparkSession, aside: Files, names: Sequence[str]) -> DataFrame:
    """The records in these files, with at least the columns of RAW, which `raw_records` takes in the next pass.

    Spark reads them itself out of a folder. Elsewhere workers do, by the seam: Spark would need a connector of its own.
    """
    if aside.remote:
        found = by_parts(spark, names, lambda name: _read(aside, name), spark_schema(RAW_SCHEMA))
    else:
        found = reader(spark).parquet(*(f"{pattern_of(aside.url)}/{name}" for name in names))
    return found.selectExpr(
        *(none_as_empty(name) if name in _LISTS else f"`{name}`" for name in found.columns)
    )


def _read(aside: Files, name: str) -> Iterator[pa.RecordBatch]:
    data = pa.BufferReader(aside.read(name))
    yield from pq.ParquetFile(data).iter_batches(_ROWS, columns=list(RAW))
