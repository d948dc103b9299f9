"""Inferring the schema of JSON records from a topic: one batch over what is there, by Spark's own JSON reader."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from distributary.codecs.base import load_codec
from distributary.codecs.wire.record_headers import VALUE_HEADER, last_header
from distributary.ingest.inference.bound import Looked, bounded, check_bound
from distributary.ingest.kafka.offsets import Offsets
from distributary.ingest.schemas.hints import hinted, hints_of
from distributary.ingest.schemas.inferred_per_entity import growing_of
from distributary.ingest.settings.groups import Decode
from distributary.ingest.source.contract import Channels, Records
from distributary.registry.base import Schema

# Spark's JSON reader otherwise makes a column of strings from a field that was null in every record it saw.
_OPTIONS = {"dropFieldIfAllNull": "true", "mode": "DROPMALFORMED"}

T = TypeVar("T")


def infer(topics: Records, decode: Decode, channels: Channels, sample: int | None = None) -> Schema:
    """The schema of the topics' records, from the earliest to the latest offset or of `sample` records of them.

    Of records that have a key only the latest is looked at; nulls, what is no JSON, and records that name a registered
    schema are left out. Fields come in the order of their names. Empty where there is nothing to look at. Raises ConfigError where
    there are more fields than decode.max_fields.
    """
    spark = topics.spark
    hints, cut_short = hints_of(decode.schema_hints), spark.sparkContext.accumulator(0)

    def look(records: DataFrame) -> StructType:
        return _schema_of(spark, _texts(decode, _latest(records), hints, cut_short))

    found = hinted(look_at_records(topics, decode, channels, look, sample), hints)
    schema = Schema(0, "STRUCT", found.json())
    check_bound([Looked(schema, cut_short.value > 0)], decode.max_fields)
    return schema


def look_at_records(
    topics: Records,
    decode: Decode,
    channels: Channels,
    look: Callable[[DataFrame], T],
    sample: int | None = None,
) -> T:
    """What `look` finds in the topics' records that name no schema and are no nulls, all of them or about `sample` of the newest.

    Where one has a time that Spark cannot read, it is in what comes before that: what comes then lets the schema grow.
    """

    def found(offsets: Offsets) -> T:
        records = _without_registered(topics, decode, topics.range(offsets))
        # One without a time is in no table: it tells of a file, or has a time that no table holds.
        return look(records.where("value IS NOT NULL AND timestamp IS NOT NULL"))

    offsets = _sampled(_everything(channels), sample)
    try:
        return found(offsets)
    except Exception as error:
        if not topics.is_unreadable(error):
            raise
    return found(topics.readable(offsets))


def _everything(channels: Channels) -> Offsets:
    first, last = channels.earliest_offsets(), channels.end_offsets()
    return {
        # A partition may have been added between the two questions.
        topic: {number: (first[topic].get(number, 0), end) for number, end in partitions.items()}
        for topic, partitions in last.items()
    }


def _sampled(offsets: Offsets, sample: int | None) -> Offsets:
    """The newest records, as many from each partition: they show what is sent now."""
    if sample is None:
        return offsets
    each = -(-sample // max(sum(map(len, offsets.values())), 1))
    return {
        topic: {number: (max(begin, end - each), end) for number, (begin, end) in partitions.items()}
        for topic, partitions in offsets.items()
    }


def _without_registered(topics: Records, decode: Decode, records: DataFrame) -> DataFrame:
    growing = growing_of(decode)
    if not load_codec(decode.codec).registered:
        return records
    inferred = growing.names_no_schema(F.col("value"))
    if topics.source.headers:
        inferred &= last_header(F.col("headers"), VALUE_HEADER).isNull()
    return records.where(inferred)


def _latest(values: DataFrame) -> DataFrame:
    keyed = values.where("key IS NOT NULL").groupBy("topic", "key")
    newest = keyed.agg(F.max_by("value", F.struct("timestamp", "offset")).alias("value")).select("value")
    return newest.unionByName(values.where("key IS NULL").select("value"))


def _texts(decode: Decode, values: DataFrame, hints: StructType, cut_short: Accumulator[int]) -> DataFrame:
    """The values as texts for Spark's reader, not many more than show that there are too many fields."""
    if growing_of(decode).survey is None:
        return values.select(F.col("value").cast("string"))
    known = Schema(0, "STRUCT", hints.json())
    run = bounded(decode.codec, known, decode.max_fields, cut_short)
    return values.mapInArrow(run, "value string")


def _schema_of(spark: SparkSession, texts: DataFrame) -> StructType:
    # Only the JVM's reader takes a dataset of strings; PySpark's would carry every record through Python.
    jvm: Any = spark.sparkContext._jvm
    reader: Any = spark._jsparkSession.read()
    for name, value in _OPTIONS.items():
        reader = reader.option(name, value)
    strings = getattr(texts._jdf, "as")(jvm.org.apache.spark.sql.Encoders.STRING())
    return StructType.fromJson(json.loads(reader.json(strings).schema().json()))
