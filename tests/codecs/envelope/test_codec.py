"""Debezium's records, in the shapes that its documentation shows, in each format: what becomes of them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.debezium import BEGAN, SOURCES, Change, Database, Row
from tests.debezium_formats import COLUMNS, FORMATS, Format

from distributary.codecs import reasons
from distributary.codecs.base import Codec, Decoded, Enveloped, load_codec, surveying
from distributary.codecs.envelope.said import POSITION, RESERVED
from distributary.errors import BadSchema
from distributary.registry.base import Schema

NOTHING = Schema(1, "STRUCT", '{"type":"struct","fields":[]}')
KEEP = ("op", "before", "source_ts", "source_db", "source_schema", "source_table", "source_snapshot")


def codec_of(format_: str, *keep: str, **more: Any) -> Codec:
    return load_codec(Enveloped(format_, "debezium", keep, **more))


def binary(*payloads: bytes) -> pa.BinaryArray:
    return pa.array(payloads, pa.binary())


def as_json(*values: Any) -> pa.BinaryArray:
    return binary(*(json.dumps(value).encode() for value in values))


def decoded_json(payloads: pa.BinaryArray, *keep: str, **more: Any) -> Decoded:
    """By the schema that these payloads make."""
    codec = codec_of("json", *keep, **more)
    growing = codec.capabilities.growing
    assert growing is not None
    return codec.reader(growing.reader(NOTHING).grown(payloads), ()).decode(payloads)


def changes(connector: str) -> list[Change]:
    """A row that is read, updated, moved to another key and deleted."""
    database = Database(connector)
    database.tables["customers"] = {7: {"id": 7, "name": "Anne", "score": 10}}
    database.at = 1
    return [
        *database.snapshot("customers"),
        *database.put("customers", 7, name="Anna", score=None),
        *database.move("customers", 7, 8),
        *database.delete("customers", 8),
    ]


def said(connector: str, at: int) -> Row:
    source = SOURCES[connector](at, "customers")
    when = datetime.fromtimestamp(BEGAN / 1000, timezone.utc)
    return {
        "__source_ts": when + timedelta(milliseconds=source["ts_ms"] - BEGAN),
        "__source_db": "shop",
        "__source_schema": source.get("schema"),
        "__source_table": "customers",
    }


def golden(connector: str) -> list[Row]:
    """What the rows are."""
    # MongoDB's deletes tell nothing but their key.
    gone = None if connector == "mongodb" else 7
    anna = {"name": "Anna", "score": None}
    nothing = {"name": None, "score": None}
    return [
        {"id": 7, "name": "Anne", "score": 10, "__op": "r", "__source_snapshot": "true"} | said(connector, 2),
        {"id": 7, **anna, "__op": "u", "__source_snapshot": "false"} | said(connector, 2),
        {"id": gone, **nothing, "__op": "d", "__source_snapshot": "false"} | said(connector, 3),
        {"id": 8, **anna, "__op": "c", "__source_snapshot": "false"} | said(connector, 3),
        {"id": gone and 8, **nothing, "__op": "d", "__source_snapshot": "false"} | said(connector, 4),
    ]


def without(rows: list[Row], *names: str) -> list[Row]:
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


def assert_positions(decoded: Decoded) -> None:
    found = decoded.rows.column(POSITION).to_pylist()
    # The read and the update are at one position here, and so are both halves of a change of the key.
    assert found[0] == found[1] < found[2] == found[3] < found[4]


@pytest.mark.parametrize("connector", SOURCES)
@pytest.mark.parametrize("block", [False, True])
def test_golden_records_as_json_with_and_without_the_block_of_their_schema(
    connector: str, block: bool
) -> None:
    values = [change.value for change in changes(connector) if change.value is not None]
    told = [{"schema": {"type": "struct", "optional": False}, "payload": one} for one in values]
    decoded = decoded_json(as_json(*(told if block else values)), *KEEP)
    assert without(decoded.rows.to_pylist(), POSITION, "__before") == golden(connector)
    assert decoded.source.tolist() == [0, 1, 2, 3, 4]
    assert not decoded.failures
    assert_positions(decoded)
    before = [text and json.loads(text) for text in decoded.rows.column("__before").to_pylist()]
    assert before == [value["before"] for value in values]


@pytest.mark.parametrize("connector", [name for name in SOURCES if name != "mongodb"])
@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("name", ["own", "auto"])
def test_golden_records_whose_schema_is_registered(connector: str, format_: str, name: str) -> None:
    form = FORMATS[format_]
    schema = form.schema(connector)
    values = [change.value for change in changes(connector) if change.value is not None]
    codec = codec_of(format_ if name == "own" else "auto", *KEEP).knowing({1: form.type})
    decoded = codec.reader(schema, form.path).decode(binary(*(form.body(schema.text, one) for one in values)))
    assert without(decoded.rows.to_pylist(), POSITION, "__before") == golden(connector)
    assert not decoded.failures
    assert_positions(decoded)
    before = decoded.rows.column("__before").to_pylist()
    assert before == [value["before"] for value in values]


def envelope(op: str, **more: Any) -> Row:
    return {
        "op": op,
        "source": SOURCES["postgresql"](1, "customers"),
        "ts_ms": BEGAN,
        "before": None,
        "after": None,
        **more,
    }


NO_ROWS: list[tuple[Any, str]] = [
    ({"ts_ms": 1}, "heartbeat"),
    ({"ts_ms": 1, "ts_us": 1000, "ts_ns": 1000000}, "heartbeat"),
    (
        {"status": "END", "id": "571", "ts_ms": 1, "event_count": 2, "data_collections": []},
        "transaction",
    ),
    (
        {"source": {}, "databaseName": "shop", "ddl": "DROP TABLE customers", "tableChanges": []},
        "schema_record",
    ),
    (envelope("m", message={"prefix": "a", "content": "Yg=="}), "message"),
]

REFUSED: list[tuple[bytes, str]] = [
    (json.dumps(envelope("t")).encode(), reasons.TRUNCATE),
    (json.dumps(envelope("u")).encode(), reasons.NO_ROW),
    (json.dumps(envelope("c", before={"id": 1})).encode(), reasons.NO_ROW),
    (json.dumps(envelope("x", after={"id": 1})).encode(), reasons.NO_ENVELOPE),
    (json.dumps(envelope("c", after=[1])).encode(), reasons.NO_ENVELOPE),
    (json.dumps(envelope("c", after={"id": 1, "__op": "d"})).encode(), reasons.NO_ENVELOPE),
    (json.dumps(envelope("c", after={"id": 1, "__OP": "d"})).encode(), reasons.NO_ENVELOPE),
    (json.dumps(envelope("u", before={"__Before": 1}, after={"id": 1})).encode(), reasons.NO_ENVELOPE),
    (json.dumps({**envelope("c", after={}), "op": None}).encode(), reasons.NO_ENVELOPE),
    (json.dumps({**envelope("c", after={}), "source": "here"}).encode(), reasons.NO_ENVELOPE),
    (b'{"op":"d","id":1}', reasons.NO_ENVELOPE),
    (b"{}", reasons.NO_ENVELOPE),
    (b'{"schema":null,"payload":null}', reasons.NO_ENVELOPE),
    (b"[]", reasons.MALFORMED),
    (b"", reasons.MALFORMED),
    (b'{"op":"c"', reasons.MALFORMED),
    (b'{"op":"c",}', reasons.MALFORMED),
    (b'{"op":"c"} more', reasons.MALFORMED),
    (b'{1:"c"}', reasons.MALFORMED),
    (b'{"op":"\xff"}', reasons.INVALID_UTF8),
    (json.dumps(envelope("\ud800")).encode(), reasons.INVALID_UTF8),
    (json.dumps(envelope("c", after='{"name":"\ud800"}')).encode(), reasons.INVALID_UTF8),
    (b'{"a":' + b"[" * 200_000, reasons.TOO_DEEP),
]


def test_what_is_no_row_is_left_out_by_its_reason() -> None:
    decoded = decoded_json(as_json(*(value for value, _ in NO_ROWS), envelope("c", after={"id": 1})))
    assert decoded.around is not None
    found = {reason: rows.tolist() for reason, rows in decoded.around.left_out.items()}
    expected: dict[str, list[int]] = {}
    for place, (_, reason) in enumerate(NO_ROWS):
        expected.setdefault(reason, []).append(place)
    assert found == expected
    assert decoded.source.tolist() == [len(NO_ROWS)]
    assert not decoded.failures


def test_what_cannot_be_a_row_is_refused_by_its_reason() -> None:
    payloads = binary(
        *(payload for payload, _ in REFUSED), json.dumps(envelope("c", after={"id": 1})).encode()
    )
    decoded = decoded_json(payloads)
    assert [(one.row, one.reason) for one in decoded.failures] == [
        (place, reason) for place, (_, reason) in enumerate(REFUSED)
    ]
    assert all(one.detail == reasons.SENTENCES[one.reason] for one in decoded.failures)
    assert decoded.rows.num_rows == 1


def test_a_table_that_was_emptied_is_left_out_where_it_is_to_be_ignored() -> None:
    decoded = decoded_json(as_json(envelope("t"), envelope("c", after={"id": 1})), truncate="ignore")
    assert decoded.around is not None
    assert {reason: rows.tolist() for reason, rows in decoded.around.left_out.items()} == {"truncate": [0]}
    assert not decoded.failures


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
ENVELOPES = st.fixed_dictionaries(
    {},
    optional={
        "op": st.sampled_from(["c", "u", "d", "r", "t", "m", "x"]) | JUNK,
        "source": st.sampled_from([make(3, "customers") for make in SOURCES.values()]) | JUNK,
        "before": st.dictionaries(st.sampled_from(["id", "name", "__op"]), JUNK) | JUNK,
        "after": st.dictionaries(st.sampled_from(["id", "name", "__op"]), JUNK) | JUNK,
        "ts_ms": JUNK,
        "payload": JUNK,
        "ddl": JUNK,
    },
)


@given(st.lists(ENVELOPES.map(lambda one: json.dumps(one).encode()) | st.binary(max_size=20), max_size=6))
def test_each_payload_ends_in_one_place_whatever_it_holds(given_payloads: list[bytes]) -> None:
    decoded = decoded_json(binary(*given_payloads), *KEEP)
    assert decoded.around is not None
    left_out = [row for rows in decoded.around.left_out.values() for row in rows.tolist()]
    placed = [*decoded.source.tolist(), *(one.row for one in decoded.failures), *left_out]
    assert sorted(placed) == list(range(len(given_payloads)))
    assert decoded.rows.num_rows == len(decoded.source) == decoded.around.beside.num_rows
    decoded.rows.validate(full=True)
    decoded.around.beside.validate(full=True)


def test_numbers_and_texts_of_rows_stay_as_they_are_written() -> None:
    text = b'{"op":"c","source":{"connector":"mysql"},"after":{"id": 12345678901234567890123, "a":0.10, "b":"\\u00e4"}}'
    decoded = decoded_json(binary(text))
    (row,) = decoded.rows.to_pylist()
    assert str(row["id"]) == "12345678901234567890123"
    assert row["b"] == "ä"
    assert row[POSITION] is None


@pytest.mark.parametrize("format_", FORMATS)
def test_records_by_a_schema_that_are_no_rows(format_: str) -> None:
    form = FORMATS[format_]
    schema = form.schema("postgresql")
    values = [
        envelope("t"),
        envelope("m"),
        envelope("u"),
        envelope("c", after={"id": 1, "name": None, "score": 2}),
    ]
    payloads = binary(*(form.body(schema.text, one) for one in values), b"\xff")
    decoded = codec_of(format_).reader(schema, form.path).decode(payloads)
    assert [(one.row, one.reason) for one in decoded.failures][:2] == [
        (0, reasons.TRUNCATE),
        (2, reasons.NO_ROW),
    ]
    assert [one.row for one in decoded.failures] == [0, 2, 4]
    assert decoded.source.tolist() == [3]
    assert decoded.around is not None
    assert {reason: rows.tolist() for reason, rows in decoded.around.left_out.items()} == {"message": [1]}


@pytest.mark.parametrize("keep", [(), ("before",)])
def test_what_no_column_takes_of_a_row_is_told_by_the_names_of_its_fields(keep: tuple[str, ...]) -> None:
    """As where the row's own schema was inferred: rules of tables go by these names."""
    form = FORMATS["jsonschema"]
    schema = form.schema("postgresql")
    odd = {"id": 1, "name": None, "score": "a lot", "new.one": [1.0, {"x": "ä"}]}
    values = [
        envelope("c", after={"id": 1, "name": "Ann", "score": 2}),
        envelope("u", before={"id": 1, "score": "less"}, after=odd, more=1),
        envelope("d", before=odd, after=None),
    ]
    values[1]["source"]["more"] = "of the source"
    payloads = binary(*(form.body(schema.text, one) for one in values))
    decoded = codec_of("jsonschema", *keep).reader(schema, form.path).decode(payloads)
    assert not decoded.failures
    assert decoded.rescued is not None
    rescued = '"score":"a lot","`new.one`":[1.0, {"x": "\\u00e4"}]'
    was = '"__before.score":"less",' if keep else ""
    assert decoded.rescued.to_pylist() == [None, f"{{{was}{rescued}}}", f"{{{rescued}}}"]


def test_what_no_column_takes_of_the_envelope_alone_is_told_by_nobody() -> None:
    form = FORMATS["jsonschema"]
    schema = form.schema("postgresql")
    value = envelope("c", after={"id": 1, "name": "Ann", "score": 2}, more={"after.id": 5})
    decoded = codec_of("jsonschema").reader(schema, form.path).decode(binary(form.body(schema.text, value)))
    assert decoded.rescued is None or decoded.rescued.to_pylist() == [None]


OTHERS = {
    "heartbeat": [{"name": "ts_ms", "type": "long"}],
    "transaction": [
        {"name": "status", "type": "string"},
        {"name": "id", "type": "string"},
        {"name": "event_count", "type": ["null", "long"]},
    ],
}


@pytest.mark.parametrize("kind", OTHERS)
def test_records_of_topics_beside_those_of_tables_have_no_columns(kind: str) -> None:
    text = json.dumps({"type": "record", "name": "Beside", "fields": OTHERS[kind]})
    schema = Schema(1, "AVRO", text)
    body = FORMATS["avro"].body(text, {"ts_ms": 1, "status": "END", "id": "5", "event_count": None})
    codec = codec_of("avro", "op")
    reader = codec.reader(schema, ())
    decoded = reader.decode(binary(body, body))
    assert reader.schema.names == []
    assert decoded.around is not None
    assert {reason: rows.tolist() for reason, rows in decoded.around.left_out.items()} == {kind: [0, 1]}
    assert codec.description(schema, ()).fields == ()


@pytest.mark.parametrize(
    "fields",
    [
        [{"name": "id", "type": "long"}],
        [{"name": "op", "type": "string"}, {"name": "source", "type": "string"}],
    ],
)
def test_a_schema_of_something_else_is_refused(fields: list[Any]) -> None:
    schema = Schema(1, "AVRO", json.dumps({"type": "record", "name": "Other", "fields": fields}))
    with pytest.raises(BadSchema, match=r"leave `decode\.envelope` out"):
        codec_of("avro").reader(schema, ())


@pytest.mark.parametrize("name", ["__op", "__Source_Table"])
def test_a_row_with_a_field_called_as_one_of_ours_is_refused(name: str) -> None:
    """Also in another case: conditions and routes could not tell which is meant, of no row."""
    schema = FORMATS["avro"].schema("postgresql", {"id": "long", name: "string"})
    with pytest.raises(BadSchema, match=name):
        codec_of("avro").reader(schema, ())


@pytest.mark.parametrize("format_", FORMATS)
def test_a_schema_is_told_by_the_rows_in_its_envelopes(format_: str) -> None:
    form: Format = FORMATS[format_]
    codec = codec_of(format_, "op")
    schema = form.schema("postgresql")
    fields = codec.description(schema, form.path).fields
    assert [one.name for one in fields] == [*COLUMNS, "__op", POSITION]
    assert [one.name for one in fields] == codec.reader(schema, form.path).schema.names
    numbers = [one.number for one in fields]
    assert numbers == ([1, 2, 3, None, None] if format_ == "protobuf" else [None] * 5)


def test_an_inferred_schema_is_that_of_the_rows_and_grows_with_them() -> None:
    codec = codec_of("json", "op")
    growing = codec.capabilities.growing
    assert growing is not None
    first = growing.reader(NOTHING).grown(as_json(envelope("c", after={"id": 1})))
    reader = growing.reader(first)
    assert reader.schema.names == ["id", "__op", POSITION]
    payloads = as_json(
        {"ts_ms": 1}, envelope("u", after={"id": 1}), envelope("u", after={"id": 1, "city": "Ulm"})
    )
    decoded = reader.decode(payloads)
    assert decoded.beyond.tolist() == [2]
    assert decoded.rescued is not None
    assert decoded.rescued.to_pylist() == [None, '{"city":"Ulm"}']
    grown = reader.grown(payloads)
    assert growing.reader(grown).schema.names[:2] == ["id", "city"]
    assert [one.name for one in codec.description(grown, ()).fields] == growing.reader(grown).schema.names
    assert growing.merged([first, grown]).text == grown.text


def test_an_inferred_schema_grows_to_no_more_fields_than_it_may_with_those_that_come_beside() -> None:
    """The driver counts them too: what was proposed beyond was refused whole, with fields that there was room for."""
    growing = codec_of("json", "op").capabilities.growing
    assert growing is not None
    payloads = as_json(*(envelope("c", after={"id": 1, name: 1}) for name in "abc"))
    for most in range(8):
        grown = growing.reader(NOTHING).grown(payloads, most)
        assert len(growing.reader(grown).schema) == (2 if most < 4 else min(most, 6))


def test_rows_stay_beside_what_is_said_of_them_when_some_are_taken_away() -> None:
    payloads = as_json(*(envelope(op, after={"id": n}) for n, op in enumerate("cur")))
    decoded = decoded_json(payloads).without(np.array([1]))
    assert decoded.beside is not None
    assert decoded.beside.column("__op").to_pylist() == ["c", "r"]
    assert decoded.rows.column("id").to_pylist() == [0, 2]
    assert set(decoded.beside.schema.names) < RESERVED


def test_fields_of_rows_and_of_their_envelope_are_found_without_a_schema() -> None:
    growing = codec_of("json").capabilities.growing
    assert growing is not None
    assert growing.picked is not None
    payloads = as_json(
        envelope("c", after={"id": 5, "at": {"city": "Ulm"}}), {"ts_ms": 1}, envelope("d", before={"id": 6})
    )
    assert growing.picked(payloads, ["__source_table"]).to_pylist() == ["customers", None, "customers"]
    assert growing.picked(payloads, ["id"]).to_pylist() == ["5", None, "6"]
    assert growing.picked(payloads, ["at", "city"]).to_pylist() == ["Ulm", None, None]


def test_a_look_before_a_schema_is_inferred_is_at_the_rows() -> None:
    survey = surveying(codec_of("json"))(NOTHING)
    assert survey.take(json.dumps(envelope("c", after={"id": 5, "b": 1})).encode()) == '{"id": 5, "b": 1}'
    assert survey.take(b'{"ts_ms":1}') is None
    assert survey.fields == 2


def test_a_document_of_mongodb_whose_schema_is_registered_is_one_text() -> None:
    form = FORMATS["avro"]
    source = SOURCES["mongodb"](1, "customers")
    text = form.text(source, {"id": "long"})
    whole = json.loads(text)
    for field in whole["fields"][:2]:
        field["type"] = ["null", "string"]
    schema = Schema(1, "AVRO", json.dumps(whole))
    values = [
        {**envelope("c", after='{"_id":1}'), "source": source},
        {**envelope("d"), "source": source},
    ]
    reader = codec_of("avro", "op").reader(schema, ())
    decoded = reader.decode(binary(*(form.body(schema.text, one) for one in values)))
    assert reader.schema.names == ["after", "__op", POSITION]
    assert decoded.rows.column("after").to_pylist() == ['{"_id":1}', None]


def test_records_are_held_to_all_of_their_schema_where_that_is_asked_for() -> None:
    validating = codec_of("jsonschema").capabilities.validating
    assert validating is not None
    form = FORMATS["jsonschema"]
    schema = form.schema("postgresql")
    wrong = {**envelope("c", after={"id": 1, "name": "a", "score": 1}), "transaction": 7}
    assert validating().reader(schema, ()).decode(as_json(wrong)).failures[0].reason == reasons.INVALID
    assert codec_of("avro").capabilities.validating is None
    assert codec_of("json").capabilities.as_spark is None
