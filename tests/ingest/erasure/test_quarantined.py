"""Records in quarantine are known by what their bytes say, where they are JSON, and by their keys."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from distributary.ingest.commit_log.owners import Whose
from distributary.ingest.erasure.quarantined import Quarantined
from distributary.ingest.erasure.record import NO_TIME, Gone
from distributary.ingest.routing.conditions import ReadCondition
from distributary.ingest.routing.tree import Call, Field, Literal

ANN = ReadCondition(Call("=", (Field(("who", "name")), Literal("ann"))))

SAYS = {"who": {"name": "ann"}, "n": 1}


def met(
    *records: tuple[bytes | None, bytes | None, str | None], keys: tuple[bytes, ...] = ()
) -> tuple[list[bool], int]:
    which = Quarantined(ANN, Whose.of("games"), frozenset(keys))
    key, value, pipeline = zip(*records, strict=True)
    arrays = [pa.array(key, pa.binary()), pa.array(value, pa.binary()), pa.array(pipeline, pa.string())]
    rows = pa.RecordBatch.from_arrays(arrays, names=["kafka_key", "value", "pipeline"])
    return which.rows().met(rows).tolist(), which.unread


@pytest.mark.parametrize(
    "said",
    [
        SAYS,
        {"before": None, "after": SAYS, "op": "u"},
        {"before": SAYS, "after": None, "op": "d"},
        {"schema": {}, "payload": {"before": None, "after": SAYS}},
    ],
)
@pytest.mark.parametrize("header", [b"", b"\0\0\0\0\7"])
def test_bytes_that_say_so(said: dict[str, Any], header: bytes) -> None:
    value = header + json.dumps(said).encode()
    assert met((None, value, "games"), (None, value, None), (None, value, "other")) == (
        [True, True, False],
        0,
    )


SAID = json.dumps(SAYS)
OTHER = json.dumps({"who": {"name": "x"}, "n": 1})


@pytest.mark.parametrize(
    "value",
    [
        f"[{OTHER}, {SAID}]",
        json.dumps(SAID),
        json.dumps(json.dumps(SAID)),
        json.dumps([OTHER, SAID]),
        json.dumps({"after": SAID, "op": "u"}),
        json.dumps({"schema": {}, "payload": json.dumps({"before": SAID, "after": None})}),
        json.dumps({"payload": [{"n": 1}, {"after": SAYS}]}),
        '{"who": {"name": "ann"}, "who": {"name": "x"}}',
        '{"who": {"name": "x"}, "who": {"name": "ann"}}',
        '{"who": 1, "who": {"name": "ann"}, "who": {"name": "x"}}',
        '{"who": {"name": "x", "name": "ann", "name": "y"}}',
        '{"after": {"who": {"name": "ann"}}, "after": null}',
    ],
)
@pytest.mark.parametrize("header", [b"", b"\0\0\0\0\7", b"\3\0" + bytes(range(16))])
def test_lists_texts_and_names_that_are_there_twice_are_looked_into(value: str, header: bytes) -> None:
    assert met((None, header + value.encode(), "games"))[0] == [True]
    assert met((None, header + value.replace("ann", "eve").encode(), "games"))[0] == [False]


def test_what_is_there_too_often_or_too_deep_is_told() -> None:
    often = "{" + ", ".join(f'"n": {n}' for n in range(1000)) + "}"
    deep = "[" * 100_000 + "]" * 100_000
    assert met(*((None, one.encode(), "games") for one in (often, deep))) == ([False, False], 2)


def test_bytes_that_do_not_or_that_nobody_can_read() -> None:
    others = [
        b"{",
        b"\0\0\0\0\1\2abc",
        json.dumps({"who": "ann"}).encode(),
        json.dumps({"who": {"name": "x"}}).encode(),
        b"[1]",
    ]
    assert met(*((None, value, "games") for value in others), (None, None, "games")) == ([False] * 6, 4)


@pytest.mark.parametrize("more", [2**70, [1, "x"], [{"a": 1}, {"a": "x"}], "\ud800"])
def test_what_else_a_record_says_does_not_matter(more: Any) -> None:
    for said in ({**SAYS, "n": more}, {"who": {"name": "ann", "n": more}}, {"after": {**SAYS, "n": more}}):
        assert met((None, json.dumps(said).encode(), "games")) == ([True], 0)
    other = json.dumps({"who": {"name": "x"}, "n": more}).encode()
    assert met((None, other, "games")) == ([False], 0)
    # Each record that nobody can look into is told once.
    odd = {"who": {"name": more}}
    found = met((None, json.dumps({"before": odd, "after": odd}).encode(), "games"))
    assert found == ([False], 1)


def test_a_table_of_before_records_said_whose_they_are() -> None:
    rows = pa.RecordBatch.from_pydict({"kafka_key": [b"a"], "value": [json.dumps(SAYS).encode()]})
    assert Quarantined(ANN, Whose.of("games")).rows().met(rows).tolist() == [True]


def test_records_of_whoever_has_a_name_of_before_stay() -> None:
    whose = Whose("matches", frozenset({"matches", "games"}), frozenset({"mine"}), frozenset({"theirs"}))
    told = {
        ("games", "mine"): True,
        ("games", "new"): False,
        ("matches", "new"): True,
        ("matches", "theirs"): False,
        (None, "new"): True,
    }
    pipelines, generations = zip(*told, strict=True)
    columns = {"pipeline": pipelines, "generation": generations, "kafka_key": [b"a"] * 5, "value": [None] * 5}
    rows = pa.RecordBatch.from_pydict({name: list(values) for name, values in columns.items()})
    found = Quarantined(ANN, whose, frozenset({b"a"})).rows().met(rows)
    assert found.tolist() == list(told.values())


def test_a_key_is_enough() -> None:
    assert met((b"a", b"{", "games"), (b"b", b"{", "games"), (None, b"{", "games"), keys=(b"a",)) == (
        [True, False, False],
        2,
    )


def test_where_records_came_from_survives_its_text() -> None:
    rows = pa.table(
        {
            "topic": ["t", "t", "u"],
            "partition": pa.array([0, 1, 0], pa.int32()),
            "offset": [5, 2**40, 7],
            "time": pa.array([1, None, 2**50], pa.timestamp("us", "UTC")),
            "generation": ["g", "g", "h"],
            "batch_id": [1, 1, 2],
        }
    )
    found = Gone.from_json(json.loads(json.dumps(Gone.of(rows).to_json())))
    told = {part: offsets.tolist() for part, offsets in found.parts.items()}
    assert told == {("g", 1, "t", 0): [5], ("g", 1, "t", 1): [2**40], ("h", 2, "u", 0): [7]}
    assert all(offsets.dtype == np.int64 for offsets in found.parts.values())
    times = {part: times.tolist() for part, times in found.times.items()}
    assert times == {("g", 1, "t", 0): [1], ("g", 1, "t", 1): [NO_TIME], ("h", 2, "u", 0): [2**50]}


def test_rows_that_no_record_made_came_from_nowhere() -> None:
    rows = pa.table(
        {
            "topic": ["t", None, "t"],
            "partition": pa.array([0, None, 0], pa.int32()),
            "offset": pa.array([5, None, None], pa.int64()),
            "time": pa.array([1, 1, 1], pa.timestamp("us", "UTC")),
        }
    )
    ((part, offsets),) = Gone.of(rows).parts.items()
    assert (part, offsets.tolist()) == ((None, None, "t", 0), [5])
    assert Gone.of(rows.slice(1)).parts == {}
