"""Conditions of deletes: read by Spark's parser without Spark, evaluated as SQL says, and kept as JSON."""

from __future__ import annotations

import gc
import json
import logging
from typing import Any

import pyarrow as pa
import pytest
from pyspark import SparkContext
from tests.codecs.avro_samples import by_fastavro, schema

from distributary.codecs.avro.resolution.reader import resolving_reader
from distributary.errors import ConfigError
from distributary.ingest.routing.conditions import ReadCondition, conditions_ahead

ROWS = pa.RecordBatch.from_pydict(
    {
        "op": pa.array(["d", "u", None, "D"]),
        "gone": pa.array([True, False, None, True]),
        "level": pa.array([1, 2, None, 4], pa.int32()),
        "meta": pa.array([{"state": "x"}, {"state": None}, None, {"state": "y"}]),
    }
)

CONDITIONS = {
    "op = 'd'": [True, False, False, False],
    "lower(op) = 'd'": [True, False, False, True],
    "not (op = 'd')": [False, True, False, True],
    "op <> 'd'": [False, True, False, True],
    "gone": [True, False, False, True],
    "gone and level > 1": [False, False, False, True],
    "gone or level = 2": [True, True, False, True],
    "op is null or op in ('u', 'x')": [False, True, True, False],
    "level between 2 and 4": [False, True, False, True],
    "meta.state is not null": [True, False, False, True],
    "coalesce(gone, true)": [True, False, True, True],
    "op like 'd%'": [True, False, False, False],
    "level < 1.5": [True, False, False, False],
    # What these records' schema does not have is null.
    "deleted = true": [False] * 4,
    "absent is null": [True] * 4,
}

REFUSED = {
    "op =": "this is no Spark SQL expression",
    "op ilike 'd%'": "it uses ILike",
    "level + 1 = 2": "it uses Add, which has no value for some numbers",
    "op rlike '(d{100}){100}'": "rlike has a pattern that is too large",
    "rand() > 0.5": "it uses the function rand",
    "op": None,
    "'d'": "the condition is given text where it takes a boolean",
    "op = 'd' and 1": "and is given a whole number",
    "level = interval 1 day": "literal INTERVAL '1' DAY",
}


def test_conditions_are_evaluated_as_sql_says_and_kept_as_json() -> None:
    read = conditions_ahead((f"tables[{number}].deletes", text) for number, text in enumerate(CONDITIONS))
    for text, expected in CONDITIONS.items():
        assert read[text].met(ROWS).to_pylist() == expected, text
        again = ReadCondition.from_json(json.loads(json.dumps(read[text].to_json())))
        assert again == read[text]
    assert conditions_ahead([]) == {}


def test_what_is_not_done_is_refused_by_its_setting() -> None:
    for text, why in REFUSED.items():
        if why is None:
            # Of what type a field is, records tell.
            (read,) = conditions_ahead([("tables[0].deletes", text)]).values()
            with pytest.raises(ConfigError, match=r"does not go with these records.*takes a boolean"):
                read.met(ROWS)
            continue
        with pytest.raises(ConfigError) as caught:
            conditions_ahead([("tables[0].deletes", text)])
        told = str(caught.value)
        assert told.startswith("tables[0].deletes: "), told
        assert why in told, told
        assert "route.expression" not in told


def test_what_was_read_ahead_asks_no_java_any_more_when_it_is_collected(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It did so amid anything, such as the reading of a schema, which then ended with an error of Python's own."""
    monkeypatch.setattr(SparkContext, "_gateway", None)
    gc.collect()
    gc.disable()
    try:
        conditions_ahead([("tables[0].deletes", "op = 'd'")])
    finally:
        gc.enable()
    with caplog.at_level(logging.INFO):
        gc.collect()
    assert [one.getMessage() for one in caplog.records if one.name.startswith("py4j")] == []


def test_json_of_no_condition_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown kind"):
        ReadCondition.from_json(["variable", 1])


def test_a_list_that_is_not_there_has_nothing_whatever_stands_in_its_place() -> None:
    """As a default that a reader's schema gives the list stands within a record that is null, too."""

    def written(*fields: dict[str, Any]) -> dict[str, Any]:
        inner = {"type": "record", "name": "Meta", "fields": list(fields)}
        return {"type": "record", "name": "R", "fields": [{"name": "meta", "type": ["null", inner]}]}

    tags = {"name": "tags", "type": {"type": "array", "items": "string"}, "default": ["a"]}
    first, later = written({"name": "n", "type": "int"}), written({"name": "n", "type": "int"}, tags)
    payloads = [by_fastavro(first, {"meta": value}) for value in ({"n": 1}, None, {"n": 2})]
    rows = resolving_reader(schema(first), schema(later)).decode(pa.array(payloads, pa.binary())).rows
    read = conditions_ahead([("it", "array_contains(meta.tags, 'a')"), ("it", "size(meta.tags) = 1")])
    assert [one.met(rows).to_pylist() for one in read.values()] == [[True, False, True]] * 2
