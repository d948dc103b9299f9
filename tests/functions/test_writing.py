"""`to_avro` and `to_protobuf` as a notebook calls them: what is read again is what was written."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from distributary.errors import ConfigError, SchemaNotFound
from distributary.functions import from_avro, from_protobuf, to_avro, to_protobuf
from distributary.producer_sim.stack.local import LocalStack

pytestmark = [pytest.mark.spark, pytest.mark.stack]

Given = dict[str, str]

FUNCTIONS = [(to_avro, from_avro), (to_protobuf, from_protobuf)]


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.sql(
        "SELECT id, CASE WHEN id <> 3 THEN struct(id AS number, 'ü' AS text, double(id) / 3 AS ratio, "
        "timestamp_micros(id * 1234567890123) AS at, array(id, 2) AS list, "
        "map('a', struct(id AS n)) AS by_name, binary('bytes') AS bytes) END AS event FROM range(6)"
    )


def given(stack: LocalStack, subject: str) -> Given:
    return {"schema.registry.subject": subject, "schema.registry.address": stack.registry_url}


def subject_of(name: Callable[..., Any], test: str) -> str:
    return f"{test}-{name.__name__}-value"


@pytest.mark.parametrize(("write", "read"), FUNCTIONS)
def test_what_is_read_again_is_what_was_written(
    stack: LocalStack, rows: DataFrame, write: Any, read: Any
) -> None:
    options = given(stack, subject_of(write, "inverse"))
    kind = rows.schema["event"].dataType
    written = rows.select("id", "event", write("event", options=options, columnType=kind).alias("value"))
    again = written.select("id", "event", "value", read("value", options=options).alias("again")).collect()
    assert [(one.value is None, one.again == one.event) for one in again] == [
        (one.id == 3, True) for one in again
    ]
    # By the subject's newest schema it is the same, and registered a second time nothing is new.
    by_subject = rows.select(write(F.col("event"), options=options).alias("value")).collect()
    assert [one.value for one in by_subject] == [one.value for one in again]


@pytest.mark.parametrize(("write", "_read"), FUNCTIONS)
def test_what_would_be_lost_fails_the_query_by_its_field(
    stack: LocalStack, rows: DataFrame, write: Any, _read: Any
) -> None:
    options = given(stack, subject_of(write, "lost"))
    write("event", options=options, columnType=rows.schema["event"].dataType)
    more = rows.where("id = 1").select(F.struct("event.*", F.lit("a secret").alias("more")).alias("event"))
    with pytest.raises(PySparkException, match="the schema has no field more") as told:
        more.select(write("event", options=options)).collect()
    assert not re.search(r"a secret", str(told.value).partition("JVM stacktrace")[0])


# Who asks the registry is the same for both.
@pytest.mark.parametrize("write", [to_avro, pytest.param(to_protobuf, marks=pytest.mark.heavy)])
def test_a_subject_that_is_not_there_is_told_at_the_call(stack: LocalStack, write: Any) -> None:
    with pytest.raises(SchemaNotFound):
        write("event", options=given(stack, "nobodys-value"))
    with pytest.raises(ConfigError, match="not known here"):
        write("event", options={**given(stack, "nobodys-value"), "enums.as.ints": "true"})


def test_a_schema_that_is_said_is_registered(stack: LocalStack, rows: DataFrame) -> None:
    text = '{"type": "record", "name": "N", "fields": [{"name": "number", "type": "long"}]}'
    part = rows.where("id < 3").select(F.struct("event.number").alias("event"))
    column = to_avro("event", "said-value", stack.registry_url, jsonFormatSchema=text)
    again = from_avro(column, subject="said-value", schemaRegistryAddress=stack.registry_url)
    assert [one.again.number for one in part.select(again.alias("again")).collect()] == [0, 1, 2]
    with pytest.raises(ConfigError, match="one of both"):
        to_avro("event", "said-value", stack.registry_url, text, columnType=part.schema["event"].dataType)
