"""The columns of Kafka's records that workers read: chosen on the driver, given their final form in the worker."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from distributary.ingest.kafka_columns import RAW, TIMESTAMP

# https://docs.confluent.io: the record header in which newer serialisers put the schema's GUID.
SCHEMA_HEADER = "__value_schema_id"

_TYPES = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "ts": TIMESTAMP,
    "key": pa.binary(),
    "value": pa.binary(),
    "header_id": pa.binary(),
}
RAW_SCHEMA = pa.schema([pa.field(name, _TYPES[name]) for name in RAW])


def worker_columns(records: DataFrame, topics: int, headers: bool) -> DataFrame:
    """What workers need of Spark's Kafka source, and no column more: each costs a hop to Python."""
    columns = [
        sql.col("partition"),
        sql.col("offset"),
        sql.col("timestamp").alias("ts"),
        sql.col("key"),
        sql.col("value"),
    ]
    if topics > 1:
        columns.append(sql.col("topic"))
    if headers:
        found = sql.expr(f"filter(headers, h -> h.key = '{SCHEMA_HEADER}')[0].value")
        columns.append(found.alias("header_id"))
    return records.select(*columns)


def raw_records(batch: pa.RecordBatch, topics: tuple[str, ...]) -> pa.RecordBatch:
    """A batch of `worker_columns`, or of rows set aside, with all the columns of RAW."""
    if batch.schema.equals(RAW_SCHEMA):
        return batch
    names = batch.schema.names
    arrays = [
        batch.column(names.index(name)).cast(_TYPES[name]) if name in names else _absent(name, batch, topics)
        for name in RAW
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=RAW_SCHEMA)


def _absent(name: str, batch: pa.RecordBatch, topics: tuple[str, ...]) -> pa.Array:
    """A single topic is not sent along with every record; header ids are not, where they are not wanted."""
    return (
        pa.repeat(pa.scalar(topics[0]), batch.num_rows)
        if name == "topic"
        else pa.nulls(batch.num_rows, _TYPES[name])
    )
