"""Counting the fields of JSON records, against the schema that is inferred from the same records."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.codecs.json_samples import ANYTHING, NAMES
from tests.examples import examples

from distributary.codecs.json.codec import JsonCodec
from distributary.codecs.json.survey import JsonSurvey
from distributary.codecs.types.fields import fields_in
from distributary.codecs.types.spark_struct import arrow_schema
from distributary.registry.base import Schema

NOTHING = pa.schema([])
EMPTY = Schema(0, "STRUCT", '{"type":"struct","fields":[]}')


def surveyed(*values: Any, known: pa.Schema = NOTHING) -> JsonSurvey:
    survey = JsonSurvey(known)
    for value in values:
        assert survey.take(json.dumps(value).encode()) is not None
    return survey


@settings(max_examples=examples(75), suppress_health_check=list(HealthCheck))
@given(st.lists(st.dictionaries(NAMES, ANYTHING, max_size=3), max_size=5))
def test_as_many_fields_are_counted_as_a_schema_of_the_records_has(values: list[dict[str, Any]]) -> None:
    payloads = pa.array([json.dumps(value).encode() for value in values], pa.binary())
    inferred = JsonCodec().reader(EMPTY, ()).grown(payloads)
    assert surveyed(*values).fields == fields_in(arrow_schema(inferred.text))


def test_values_that_only_a_text_takes_have_no_fields() -> None:
    assert surveyed({"a": {"x": 1, "y": [{"z": 1}]}}).fields == 4
    assert surveyed({"a": {"x": 1, "y": [{"z": 1}]}}, {"a": "text"}, {"a": {"w": 1}}).fields == 1
    assert surveyed({"a": [{"x": 1}]}, {"a": [{"x": [1]}]}, {"a": {"x": 1}}).fields == 1


@pytest.mark.parametrize(
    "payload",
    [b"", b"{", b"[]", b"1", b'{"a":NaN}', b"{} {}", b"\xff", b'{"a":' + b"[" * 200 + b"]" * 200 + b"}"],
)
def test_what_is_no_record_is_left_out(payload: bytes) -> None:
    survey = JsonSurvey(NOTHING)
    assert survey.take(payload) is None
    assert survey.fields == 0


def test_records_without_fields_of_settled_types_stay_as_they_are() -> None:
    known = pa.schema([("props", pa.map_(pa.string(), pa.string())), ("at", pa.struct([("x", pa.string())]))])
    text = ' {"a": 1.50, "b": 1e400, "at": {"y": 1}, "big": 12345678901234567890123} '
    survey = JsonSurvey(known)
    assert survey.take(text.encode()) == text
    assert survey.fields == 5


def test_what_lies_in_fields_of_settled_types_adds_none() -> None:
    known = pa.schema([("props", pa.map_(pa.string(), pa.string())), ("at", pa.struct([("x", pa.string())]))])
    value = {"props": {f"k{number}": 1 for number in range(9)}, "at": {"x": {"q": 1}, "y": 1.0}}
    survey = JsonSurvey(known)
    text = survey.take(json.dumps(value).encode())
    assert text == '{"props": 0, "at": {"x": 0, "y": 1.0}}'
    assert survey.fields == 4
    huge = survey.take(b'{"props": {}, "n": %s, "m": -7, "e": 1e999}' % (b"9" * 5000))
    assert huge == '{"props": 0, "n": Infinity, "m": -7, "e": Infinity}'


def test_names_that_no_column_may_have_are_kept_from_who_infers_a_schema() -> None:
    survey = JsonSurvey(NOTHING)
    text = survey.take(json.dumps({"a": 1, "n" * 256: {"b": 1}, "c": [{"m" * 300: 1, "d": None}]}).encode())
    assert text is not None
    assert json.loads(text) == {"a": 1, "c": [{"d": None}]}
    assert survey.fields == 1
