from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ingest.kafka_records import Sent, batch

from distributary.errors import ConfigError
from distributary.ingest.routing.routes import Records, entities
from distributary.ingest.routing.tree import Call, Field
from distributary.ingest.settings.groups import Route


def by_field(rows: pa.RecordBatch, field: str) -> pa.DictionaryArray:
    everything = np.arange(rows.num_rows)
    return entities(Route(field=field), Records(rows, batch([]), everything, "games.Event"))


def routed(values: list[object], kind: pa.DataType) -> list[str | None]:
    rows = pa.RecordBatch.from_arrays([pa.array(values, kind)], ["game"])
    found = by_field(rows, "game")
    assert found.null_count == sum(value is None for value in found.to_pylist())
    return list(found.to_pylist())


@given(st.lists(st.none() | st.text(max_size=3)))
@settings(deadline=None)
def test_text_is_the_entity_and_an_empty_one_is_none(values: list[str | None]) -> None:
    assert routed([*values], pa.string()) == [value or None for value in values]


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([7, None, -1], pa.int32(), ["7", None, "-1"]),
        ([True, False], pa.bool_(), ["true", "false"]),
        ([b"golf", b"", None], pa.binary(), ["golf", None, None]),
        ([[1]], pa.list_(pa.int32()), [None]),
    ],
)
def test_other_values_are_taken_as_text(
    values: list[object], kind: pa.DataType, expected: list[str | None]
) -> None:
    assert routed(values, kind) == expected


@given(st.lists(st.none() | st.binary(max_size=3)))
@settings(deadline=None)
def test_bytes_that_are_no_text_are_no_entity_and_hurt_no_other_row(values: list[bytes | None]) -> None:
    def text(value: bytes | None) -> str | None:
        return (value or b"").decode(errors="ignore") or None if value == _valid(value) else None

    assert routed([*values], pa.binary()) == [text(value) for value in values]


def _valid(value: bytes | None) -> bytes | None:
    return None if value is None else value.decode(errors="ignore").encode()


def test_a_field_inside_a_struct_is_found_by_its_path() -> None:
    inner = pa.struct([("name", pa.string())])
    rows = pa.RecordBatch.from_pylist(
        [{"header": {"game": {"name": "golf"}}}, {"header": {"game": None}}, {"header": None}],
        pa.schema([("header", pa.struct([("game", inner)]))]),
    )
    assert by_field(rows, "header.game.name").to_pylist() == ["golf", None, None]
    assert by_field(rows.slice(1), "header.game.name").to_pylist() == [None, None]


@pytest.mark.parametrize("field", ["other", "header.other", "header.game.name", "header"])
def test_a_schema_without_the_field_has_no_entities(field: str) -> None:
    rows = pa.RecordBatch.from_pylist([{"header": {"game": "golf"}}])
    assert by_field(rows, field).to_pylist() == [None]


def test_an_expression_takes_the_payload_s_fields_and_an_empty_value_is_none() -> None:
    rows = pa.RecordBatch.from_pylist(
        [{"game": "Go", "at": None}, {"game": "", "at": None}, {"game": None, "at": None}]
    )
    route = Route(by="expression", expression="lower(game)")
    records = Records(rows, batch([]), np.arange(3), "games.Event")
    assert entities(route, records, Call("lower", (Field(("game",)),))).to_pylist() == ["go", None, None]


def test_a_field_called_the_same_in_other_letters_takes_no_record_s_entity_away() -> None:
    rows = pa.RecordBatch.from_pylist([{"GAME": "evil", "game": "Go", "at": {"X": None, "x": "y"}}])
    records = Records(rows, batch([]), np.arange(1), "json")
    route = Route(by="expression", expression="game")
    assert entities(route, records, Field(("game",))).to_pylist() == ["Go"]
    assert entities(route, records, Field(("at", "x"))).to_pylist() == ["y"]
    with pytest.raises(ConfigError, match="could be any of GAME, game"):
        entities(route, records, Field(("Game",)))


RAW = batch([Sent(b"a", 0, topic="chess"), Sent(b"b", 1, topic="go"), Sent(b"c", 2, topic="go")])
LAST_TWO = Records(pa.RecordBatch.from_pylist([{"game": "x"}] * 2), RAW, np.array([1, 2]), "games.v1.Event")


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        (Route(by="topic"), ["go", "go"]),
        (Route(by="key"), ["gamer", "gamer"]),
        (Route(by="record"), ["games.v1.Event", "games.v1.Event"]),
        (Route(by="header", header="game"), [None, "tennis"]),
    ],
)
def test_what_kafka_and_the_schema_say_can_name_the_entity(route: Route, expected: list[str | None]) -> None:
    headers = RAW.set_column(
        RAW.schema.get_field_index("route"), "route", pa.array([None, b"\xff", b"tennis"], pa.binary())
    )
    assert entities(route, replace(LAST_TWO, raw=headers)).to_pylist() == expected
