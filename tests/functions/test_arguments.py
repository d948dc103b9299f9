"""Arguments that are not what they may be are refused at the call, in a sentence; none is taken for another one."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.functions.test_avro_evolution import NEW, OLD, V1, V2, Subject
from tests.functions.test_functions import frame_of

from distributary import functions
from distributary.errors import ConfigError
from distributary.registry.memory import MemoryRegistry

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def subject() -> Subject:
    return Subject(MemoryRegistry(), "games-value")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"mode": "x"}, "mode is 'x'; it must be FAILFAST or PERMISSIVE"),
        ({"mode": None}, "mode is None; it must be FAILFAST or PERMISSIVE"),
        ({"version": 1}, "version is 1; it must be latest or all"),
        ({"version": "1"}, "version is '1'; it must be latest or all"),
        ({"evolution": "nope"}, "evolution is 'nope'; it must be restart or none"),
        ({"payload": "KEY"}, "payload is 'KEY'; it must be value or key"),
        ({"format": 5}, "format is 5; it must be text"),
        ({"message": ""}, "message is ''; it must be text that is not empty"),
        ({"into": ""}, "into is ''; it must be text that is not empty"),
        ({"headers": True}, "headers is True; it must be text"),
        ({"reader_schema": {"type": "int"}}, "reader_schema is {'type': 'int'}; it must be text"),
        ({"options": "enums.as.ints"}, "options is 'enums.as.ints'; it must be a dict"),
        ({"registry": None}, "registry is None; it must be an address, RegistryOptions or a registry"),
        ({"subject": None}, "subject is None; it must be text"),
        ({"column": 3}, "column is 3; it must be text"),
        ({"version": "all", "reader_schema": '"int"'}, "version is 'all' and there is a reader_schema"),
        ({"message": "Event"}, "'Event' is to be the message of a Protobuf schema, but .* of type AVRO"),
    ],
)
def test_decode_refuses_what_an_argument_cannot_be(
    spark: SparkSession, subject: Subject, wrong: dict[str, Any], message: str
) -> None:
    frame = frame_of(spark, subject.record(V1, OLD))
    given: dict[str, Any] = {"registry": subject.registry, "subject": subject.name, **wrong}
    with pytest.raises(ConfigError, match=message):
        functions.decode(frame, **given)


def test_decode_takes_its_mode_in_any_capitals(spark: SparkSession, subject: Subject) -> None:
    frame = frame_of(spark, subject.record(V2, NEW), b"junk")
    found = functions.decode(frame, registry=subject.registry, subject=subject.name, mode="permissive")  # type: ignore[arg-type]
    good, bad = found.orderBy("number").collect()
    assert (good["title"], good["_decode_error"]) == ("b", None)
    assert bad["_decode_error"] and bytes(bad["_corrupt_record"]) == b"junk"


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        ("from_avro", {"mode": 1}, "mode is 1; it must be FAILFAST or PERMISSIVE"),
        ("from_json", {"schema.registry.subject": 5}, r"schema\.registry\.subject is 5; it must be text"),
        ("from_protobuf", {"distributary.headers": True}, r"distributary\.headers is True; it must be text"),
        ("from_avro", {"avroSchema": {"type": "int"}}, "avroSchema is {'type': 'int'}; it must be text"),
        (
            "from_protobuf",
            {"distributary.payload": 1},
            r"distributary\.payload is 1; it must be value or key",
        ),
    ],
)
def test_options_of_another_kind_are_refused_by_name(
    function: str, options: dict[str, Any], message: str
) -> None:
    given = {"schema.registry.subject": "s", "schema.registry.address": "http://127.0.0.1:9", **options}
    with pytest.raises(ConfigError, match=message):
        getattr(functions, function)("value", options=given)


def test_a_schema_to_read_by_that_is_no_text_is_refused() -> None:
    schema: Any = {"type": "int"}
    with pytest.raises(ConfigError, match=r"jsonFormatSchema is {'type': 'int'}; it must be text"):
        functions.from_avro("value", schema, subject="s", schemaRegistryAddress="http://127.0.0.1:9")
