"""Payloads that are no binary column are refused in a sentence, by every function that asks a registry."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.functions.test_avro_evolution import V1

from distributary import functions
from distributary.producer_sim.stack.local import LocalStack
from distributary.registry.confluent.options import RegistryOptions
from distributary.registry.confluent.registry import ConfluentRegistry

pytestmark = [pytest.mark.spark, pytest.mark.stack]

SCHEMAS: dict[str, tuple[Any, str]] = {
    "from_avro": ("AVRO", json.dumps(V1)),
    "from_json": ("JSON", '{"type":"object","properties":{"a":{"type":"integer"}}}'),
    "from_protobuf": ("PROTOBUF", 'syntax = "proto3"; message Event { int32 n = 1; }'),
}


# Spark's own from_protobuf is in a jar that may not be there; `auto` takes it where it is.
WAYS = [*((name, "auto") for name in SCHEMAS), ("from_avro", "spark"), ("from_json", "spark")]


@pytest.mark.parametrize(("function", "engine"), WAYS)
def test_payloads_that_are_text_are_refused(
    spark: SparkSession, stack: LocalStack, function: str, engine: str
) -> None:
    kind, text = SCHEMAS[function]
    subject = f"games-{uuid.uuid4().hex[:8]}-value"
    with ConfluentRegistry(RegistryOptions(url=stack.registry_url)) as registry:
        registry.register(subject, text, kind)
    options = {
        "schema.registry.subject": subject,
        "schema.registry.address": stack.registry_url,
        "distributary.engine": engine,
    }
    column = getattr(functions, function)("value", options=options)
    frame = spark.createDataFrame([("text",), (None,)], "value string").coalesce(1)
    with pytest.raises(PySparkException, match=f"{function}: the column is string; payloads are binary"):
        frame.select(column.alias("event")).collect()
