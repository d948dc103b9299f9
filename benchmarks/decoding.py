"""The rows that the other ways write: the same decoder, the same columns, by Spark's own writer."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from distributary.codecs.base import INFERRED, load_codec
from distributary.codecs.wire.header import bodies
from distributary.ingest.columns.layout import Layout
from distributary.ingest.kafka.columns import table_schema
from distributary.ingest.kafka.connection import connect
from distributary.ingest.kafka.records import raw_records, record_headers, worker_columns
from distributary.ingest.kafka.source import TopicReader
from distributary.ingest.settings.model import Settings
from distributary.passed_on_options import ClientOptions
from distributary.registry.base import Schema

Batches = Iterable[pa.RecordBatch]


# How Kafka's client reads where nobody tells it otherwise, which is what somebody writing these ways by hand gets.
# https://kafka.apache.org/documentation/#consumerconfigs
CLIENT_DEFAULTS = {"max.poll.records": "500", "fetch.max.wait.ms": "500"}


def source(spark: SparkSession, settings: Settings, tuned: bool = False) -> DataFrame:
    """The records of the topic, with exactly the columns that our workers are given; `tuned`: by our client options."""
    if not tuned:
        kafka = ClientOptions({**settings.source.kafka, **CLIENT_DEFAULTS})
        settings = settings.model_copy(update={"source": settings.source.model_copy(update={"kafka": kafka})})
    topics = TopicReader.of(spark, settings.name, settings.source, settings.route)
    with connect(settings.source, spark) as cluster:
        records = topics.stream(settings.limits.batch_rows, cluster.earliest_offsets())
    return worker_columns(
        records, len(settings.source.topics), record_headers(settings.source, settings.route)
    )


def decoded(spark: SparkSession, settings: Settings, schema: Schema) -> DataFrame:
    """The rows of the topic, with exactly the columns that our tables have."""
    codec = load_codec(settings.decode.format)
    columns = table_schema(settings.sink.columns, Layout(codec.reader(schema, codec.default_path).schema))
    decode = decoder(settings.decode.format, schema, settings.source.topics, columns.names)
    return source(spark, settings).mapInArrow(decode, from_arrow_schema(columns))


def decoder(
    codec_name: str, schema: Schema, topics: tuple[str, ...], names: list[str]
) -> Callable[[Batches], Batches]:
    """The function that Spark's `mapInArrow` runs; every record must be of this schema and in order."""

    # Spark sends a function defined here by its code, so that workers need not find this folder.
    def decode(batches: Batches) -> Batches:
        codec = load_codec(codec_name)
        reader = codec.reader(schema, codec.default_path)
        for batch in batches:
            raw = raw_records(batch, topics)
            frames = codec.split(raw["value"], raw["header_id"])
            rows = reader.decode(bodies(raw["value"], frames))
            named = schema.id if codec.registered else INFERRED
            if list(frames.kinds) != [(named, codec.default_path)] or frames.errors or rows.failures:
                raise ValueError(f"the topic holds records that are not of schema {schema.id}")
            own = raw.select(["topic", "partition", "offset", "ts", "key"]).columns
            schema_ids = pa.repeat(pa.scalar(schema.id, pa.int64()), raw.num_rows)
            yield pa.RecordBatch.from_arrays([*own, schema_ids, *rows.rows.columns], names=names)

    return decode
