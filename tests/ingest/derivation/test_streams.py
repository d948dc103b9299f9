"""What settings may say of streams."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from distributary.ingest.derivation.given import Derived

WINDOWS = {"watermark": {"time": "at"}, "window": {"seconds": 60}, "columns": {"n": "count(*)"}}
JOIN = {"time": "seen", "within_seconds": "5 min", "on": "this.a = other.a"}


def rule(stream: dict[str, Any], **more: Any) -> Derived:
    return Derived.model_validate({"table": "gold", "inputs": ["t"], "stream": stream, **more})


def test_what_is_said_decides_what_a_table_has() -> None:
    assert rule(WINDOWS).text != rule({**WINDOWS, "where": "a > 1"}).text
    assert rule(WINDOWS).text != Derived(table="gold", inputs=("t",), sql="TABLE t").text
    # What was made before there were streams is not made again.
    assert "stream" not in Derived(table="gold", inputs=("t",), sql="TABLE t").text


@pytest.mark.parametrize(
    ("changed", "more", "why"),
    [
        ({"watermark": None}, {}, "which time have rows"),
        ({"window": None}, {}, "taken as they come, however late"),
        ({"join": JOIN}, {}, "write window or join"),
        ({"window": None, "join": JOIN}, {}, "this stream is of two tables"),
        ({}, {"inputs": ["t", "u"]}, "this stream is of one table"),
        ({"window": None, "watermark": None, "by": ["a"]}, {}, "rows are grouped within windows"),
        (
            {"window": None, "watermark": None, "output": "update"},
            {},
            "only rows of windows can change later",
        ),
        ({"window": {"seconds": 60, "slide_seconds": 90}}, {}, "would be in none"),
        ({"window": {"seconds": 60, "gap_seconds": 60}}, {}, "one of both"),
        ({"window": {}}, {}, "gap_seconds for sessions"),
        ({"window": {"gap_seconds": 60, "slide_seconds": 30}}, {}, "sessions begin with their first row"),
        ({"by": ["lower(city)"]}, {}, "give what is no column a name"),
        ({"columns": {"window_end": "count(*)"}}, {}, "another column is called so"),
        ({"by": ["N"]}, {}, "another column is called so"),
        ({"columns": {"2": "count(*)"}}, {}, "begins with a letter"),
        ({"where": "at > now()"}, {}, "now is another value each time"),
        ({"lookup": {"cities": ["city"]}}, {}, "no static table is called so"),
        ({}, {"static": {"cities": {"path": "/x.csv"}}}, "looks nothing up in it"),
        ({}, {"sql": "TABLE t"}, "write one of aggregate, sql, python and stream, not sql and stream"),
        ({}, {"sink": {"kafka": {"topic": "x"}}}, "the columns that tell its rows apart"),
    ],
)
def test_what_does_not_go_together_is_told(changed: dict[str, Any], more: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        rule({**WINDOWS, **changed}, **more)
