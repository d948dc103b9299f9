"""`decode.engine: spark` on the driver: the columns by which Spark decodes records, and routes them by any expression."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import lru_cache

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema

from distributary.codecs.base import Codec, RecordReader
from distributary.ingest.kafka.records import RAW
from distributary.ingest.pins import PinnedRecord, Pins
from distributary.ingest.routing.parser import attributes, parsed
from distributary.ingest.routing.read_ahead import has_field
from distributary.ingest.spark.java_objects import tried
from distributary.ingest.worker.spark_rows import (
    BODY,
    DEADLY,
    RECORD,
    UNKNOWN,
    decoded,
    framed_schema,
    framing,
    natively,
    of_columns,
    whole,
)
from distributary.ingest.worker.task import codec_of

_log = logging.getLogger(__name__)


def check_decoders(codec: Codec, records: Iterable[PinnedRecord]) -> None:
    """Raises DecoderUnavailable for a record type that Spark cannot decode here."""
    for pinned in records:
        codec.reader(pinned.schema, pinned.key[1]).column(sql.lit(b""))


def spark_decoded(records: DataFrame, pins: Pins, sent: Pins | None = None) -> DataFrame:
    """Records with a struct for each pinned record type that has columns, and the value of the route's expression, if any.

    `sent` are the pins as workers are to be given them. Raises DecoderUnavailable.
    """
    codec = codec_of(pins)
    readers = [codec.reader(pinned.schema, pinned.key[1]) for pinned in pins.schemas.records]
    schema = from_arrow_schema(framed_schema(readers), prefer_timestamp_ntz=True)
    frame = records.mapInArrow(framing(sent or pins), schema)
    frame = frame.select(*RAW, RECORD, DEADLY, UNKNOWN, *_structs(readers))
    wanted = pins.rules.route.expression
    if wanted is not None:
        frame = frame.withColumn("route", _routed(frame, wanted, readers))
    return frame.drop(RECORD)


def _structs(readers: list[RecordReader]) -> list[Column]:
    columns = []
    for number, reader in of_columns(readers):
        # Another package's codec may make a struct of nothing, too: that is no record which Spark has decoded.
        given = (sql.col(RECORD) == number) & sql.col(BODY).isNotNull()
        # Lenient: what the native decoder takes and Spark does not stays the former's.
        own = sql.when(given, reader.column(sql.col(BODY), "PERMISSIVE"))
        columns += [
            sql.coalesce(own, sql.col(natively(number))).alias(decoded(number)),
            own.isNotNull().alias(whole(number)),
        ]
    return columns


def _routed(frame: DataFrame, text: str, readers: list[RecordReader]) -> Column:
    """The expression's value; NULL where it fails, and of records whose types it does not go with."""
    values = []
    for number, reader in enumerate(readers):
        value = sql.expr(_of_struct(frame.sparkSession, text, decoded(number), reader.schema))
        try:
            frame.select(value.cast("string"))
        except AnalysisException as error:
            _warn(reader.name, str(error).strip().splitlines()[0])
            continue
        values.append(sql.when(sql.col(RECORD) == number, tried(value.cast("string"))))
    none = sql.lit(None).cast("string")
    return sql.coalesce(*values, none).cast("binary")


@lru_cache(maxsize=100)
def _warn(record: str, why: str) -> None:
    """Once for all passes of a process."""
    _log.warning(
        "route.expression does not go with records of %s: %s. They have no entity: policies.no_entity says what becomes of them",
        *(record, why),
    )


def _of_struct(spark: SparkSession, text: str, struct: str, schema: pa.Schema) -> str:
    """The expression over a struct's fields instead of a frame's columns; a field that it lacks is null."""
    found = sorted(attributes(parsed(spark, text)), key=lambda one: one.start, reverse=True)
    for attribute in found:
        there = has_field(schema, attribute.path)
        quoted = ".".join(f"`{part.replace('`', '``')}`" for part in (struct, *attribute.path))
        text = text[: attribute.start] + (quoted if there else "(NULL)") + text[attribute.stop :]
    return text
