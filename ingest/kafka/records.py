"""What workers read of Kafka's records, columns and headers: chosen on the driver, given its final form in the worker."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from distributary.codecs.wire.record_headers import VALUE_HEADER, last_header_sql
from distributary.ingest.bronze.rows import HEADERS
from distributary.ingest.reshaping.rule import NOTHING_BESIDE, Beside
from distributary.ingest.settings.groups import Route, Source

# Of the frame that workers read, in this order; see `ingest/kafka/records.py`.
RAW = (
    "topic",
    "partition",
    "offset",
    "ts",
    "key",
    "value",
    "header_id",
    "route",
    "headers",
    "ts_type",
    "every_header",
)

TIMESTAMP = pa.timestamp("us", tz="UTC")

_TYPES = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "ts": TIMESTAMP,
    "key": pa.binary(),
    "value": pa.binary(),
    "header_id": pa.binary(),
    "route": pa.binary(),
    # Called as files and Spark call what is in a list.
    "headers": pa.list_(pa.field("element", pa.binary())),
    "ts_type": pa.int32(),
    "every_header": HEADERS,
}

RAW_SCHEMA = pa.schema([pa.field(name, _TYPES[name]) for name in RAW])


def record_headers(source: Source, route: Route) -> dict[str, str]:
    """The record headers that workers read, by the columns they are read into."""
    wanted = {"header_id": VALUE_HEADER} if source.headers else {}
    return wanted if route.header is None else {**wanted, "route": route.header}


def worker_columns(
    records: DataFrame, topics: int, headers: Mapping[str, str], beside: Beside = NOTHING_BESIDE
) -> DataFrame:
    """What workers need of Spark's Kafka source, and no column more: each costs a hop to Python.

    `headers` are those of `record_headers`. Of several headers of one name the last counts, as in Kafka's clients.
    `beside` is what rules of tables make columns of.
    """
    columns = ["`partition`", "`offset`", "`timestamp` AS ts", "`key`", "`value`"]
    if topics > 1:
        columns.append("`topic`")
    columns += [f"{last_header_sql('headers', name)} AS `{column}`" for column, name in headers.items()]
    if beside.headers:
        wanted = ", ".join(last_header_sql("headers", name) for name in beside.headers)
        columns.append(f"array({wanted}) AS headers")
    if beside.every_header:
        columns.append(none_as_empty("headers", "every_header"))
    if beside.timestamp_type:
        columns.append("`timestampType` AS ts_type")
    # As texts, for each batch: the JVM would be asked for the parts of each one by one.
    return records.selectExpr(*columns)


def none_as_empty(lists: str, called: str | None = None) -> str:
    """A column of lists on its way to workers, as SQL; called otherwise there where that is said.

    Where Spark adds up bytes after each row, a list that is null has it go through all rows before.
    """
    return f"coalesce(`{lists}`, array()) AS `{called or lists}`"


def raw_records(batch: pa.RecordBatch, topics: tuple[str, ...]) -> pa.RecordBatch:
    """A batch of `worker_columns`, or of rows set aside, with all the columns of RAW; a record without headers has none of them."""
    raw = batch if batch.schema.equals(RAW_SCHEMA) else _whole(batch, topics)
    headers, at = raw["every_header"], RAW.index("every_header")
    if headers.null_count == len(headers):
        return raw
    none = pc.equal(pc.list_value_length(headers), 0)
    kept = pc.if_else(none, pa.scalar(None, headers.type), headers)
    return raw.set_column(at, RAW_SCHEMA.field(at), kept)


def _whole(batch: pa.RecordBatch, topics: tuple[str, ...]) -> pa.RecordBatch:
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


# The columns put beside RAW's: the key's text, and the same where it is one value, to route by.
TEXT, ENTITY = "key_text", "key_entity"
