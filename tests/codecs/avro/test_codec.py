"""Both native ways to decode Avro against each other and against fastavro, type by type and at random."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.codecs.avro_samples import (
    by_fastavro,
    day,
    expected,
    long,
    moment,
    record,
    schema,
    schemas_with_values,
    untagged,
    write,
)

from distributary.codecs.avro.codec import AvroCodec, AvroReader
from distributary.errors import BadSchema

slow = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def reader_of(spec: Any, **imports: str) -> AvroReader:
    return AvroCodec().reader(schema(spec, imports), ())


def binary(payloads: Sequence[bytes]) -> pa.BinaryArray:
    return pa.array(payloads, pa.binary())


def comparable(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows with maps as dicts, as `expected` has them."""
    rows.validate(full=True)
    return [
        {field.name: _comparable(field.type, row[field.name]) for field in rows.schema}
        for row in rows.to_pylist()
    ]


def _comparable(kind: pa.DataType, value: Any) -> Any:
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: _comparable(kind.item_type, one) for key, one in value}
    if pa.types.is_list(kind):
        return [_comparable(kind.value_type, one) for one in value]
    if pa.types.is_struct(kind):
        return {field.name: _comparable(field.type, value[field.name]) for field in kind}
    return value


def rows_of(reader: AvroReader, payloads: Sequence[bytes]) -> list[dict[str, Any]]:
    """What both ways give, which must be the same."""
    decoded = reader.decode(binary(payloads))
    assert not decoded.failures
    assert decoded.rows.schema == reader.schema
    found = comparable(decoded.rows)
    assert comparable(reader._exact.batch(binary(payloads))) == found
    if reader._fast is not None:
        assert comparable(reader._fast.batch(binary(payloads))) == found
    return found


@slow
@given(schemas_with_values(), st.integers(0, 2))
def test_both_ways_give_what_was_written(sample: tuple[Any, list[Any]], blocks: int) -> None:
    spec, values = sample
    payloads = [write(spec, value, blocks) for value in values]
    parsed = fastavro.parse_schema(spec)
    for payload, value in zip(payloads, values, strict=True):
        stream = io.BytesIO(payload)
        assert fastavro.schemaless_reader(stream, parsed, None) == untagged(spec, value)
        assert not stream.read()
    assert rows_of(reader_of(spec), payloads) == [expected(spec, value) for value in values]


@slow
@given(schemas_with_values(), st.data())
def test_what_becomes_of_a_record_depends_on_nothing_but_itself(
    sample: tuple[Any, list[Any]], data: st.DataObject
) -> None:
    spec, values = sample
    reader = reader_of(spec)
    payloads = [write(spec, value) for value in values] * 2
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(payloads) - 1))
        payloads[at] = data.draw(spoilt(payloads[at]))
    decoded = reader.decode(binary(payloads))
    source = decoded.source.tolist()
    assert sorted([*source, *(failure.row for failure in decoded.failures)]) == list(range(len(payloads)))
    rows = dict(zip(source, comparable(decoded.rows), strict=True))
    for place, payload in enumerate(payloads):
        try:
            alone = comparable(reader._exact.one(payload))
        except Exception:  # noqa: BLE001
            alone = []
        assert alone == ([rows[place]] if place in rows else []) or "nan" in str(alone)


def spoilt(payload: bytes) -> st.SearchStrategy[bytes]:
    cut = st.integers(0, len(payload))
    return st.one_of(
        st.binary(max_size=6).map(lambda junk: payload + junk),
        cut.map(lambda n: payload[:n]),
        st.tuples(cut, st.binary(min_size=1, max_size=3)).map(
            lambda t: payload[: t[0]] + t[1] + payload[t[0] + 1 :]
        ),
        st.binary(max_size=12),
    )


LONGEST_UNION = ["null", *({"type": "fixed", "name": f"F{n}", "size": 1} for n in range(130))]
DECIMAL = {"logicalType": "decimal", "precision": 9, "scale": 2}

# The type in the schema, a value as fastavro writes it, the column's type, the column's value.
TYPES: list[tuple[Any, Any, pa.DataType, Any]] = [
    ("boolean", True, pa.bool_(), True),
    ("int", -(2**31), pa.int32(), -(2**31)),
    ("long", 2**63 - 1, pa.int64(), 2**63 - 1),
    ("float", 1.5, pa.float32(), 1.5),
    ("double", 0.1, pa.float64(), 0.1),
    ("bytes", b"\xff\x00", pa.binary(), b"\xff\x00"),
    ("string", "ä", pa.string(), "ä"),
    ({"type": "fixed", "name": "F", "size": 3}, b"abc", pa.binary(), b"abc"),
    ({"type": "fixed", "name": "F", "size": 0}, b"", pa.binary(), b""),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", pa.string(), "B"),
    ({"type": "int", "logicalType": "date"}, day(-1), pa.date32(), day(-1)),
    ({"type": "int", "logicalType": "time-millis"}, 86_399_999, pa.int32(), 86_399_999),
    ({"type": "long", "logicalType": "time-micros"}, 86_399_999_999, pa.int64(), 86_399_999_999),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        moment(-3, 5_000),
        pa.timestamp("us", "UTC"),
        moment(-3, 5_000),
    ),
    (
        {"type": "long", "logicalType": "timestamp-micros"},
        moment(1, 7),
        pa.timestamp("us", "UTC"),
        moment(1, 7),
    ),
    ({"type": "long", "logicalType": "timestamp-nanos"}, 1_234_567_891, pa.int64(), 1_234_567_891),
    (
        {"type": "long", "logicalType": "local-timestamp-millis"},
        datetime(2020, 1, 2, 3, 4, 5, 6_000),
        pa.timestamp("us"),
        datetime(2020, 1, 2, 3, 4, 5, 6_000),
    ),
    (
        {"type": "long", "logicalType": "local-timestamp-micros"},
        datetime(9999, 12, 31, 23, 59, 59, 999_999),
        pa.timestamp("us"),
        datetime(9999, 12, 31, 23, 59, 59, 999_999),
    ),
    (
        {"type": "string", "logicalType": "uuid"},
        UUID(int=7),
        pa.string(),
        "00000000-0000-0000-0000-000000000007",
    ),
    (
        {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"},
        b"\x01\0\0\0\x02\0\0\0\x03\0\0\0",
        pa.binary(),
        b"\x01\0\0\0\x02\0\0\0\x03\0\0\0",
    ),
    ({"type": "bytes", **DECIMAL}, Decimal("-1234567.89"), pa.decimal128(9, 2), Decimal("-1234567.89")),
    (
        {"type": "fixed", "name": "D", "size": 5, **DECIMAL},
        Decimal("0.01"),
        pa.decimal128(9, 2),
        Decimal("0.01"),
    ),
    # Without a precision that 128 bits hold it is bytes.
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 1},
        Decimal("25.6"),
        pa.binary(),
        b"\x01\x00",
    ),
    ({"type": "bytes", "logicalType": "decimal"}, b"ab", pa.binary(), b"ab"),
    (
        {"type": "array", "items": ["null", "long"]},
        [1, None],
        pa.list_(pa.field("element", pa.int64())),
        [1, None],
    ),
    ({"type": "map", "values": "bytes"}, {"k": b"v"}, pa.map_(pa.string(), pa.binary()), {"k": b"v"}),
    (
        {"type": "array", "items": "null"},
        [None, None],
        pa.list_(pa.field("element", pa.bool_())),
        [None, None],
    ),
    (record("long", ["null", "string"], name="N"), {"c0": 1, "c1": None}, None, {"c0": 1, "c1": None}),
    (record(name="Nothing"), {}, pa.bool_(), True),
    (record("null", name="Nothing"), {"c0": None}, pa.bool_(), True),
    (["null", record(name="Nothing")], {}, pa.bool_(), True),
    (["null", record(name="Nothing")], None, pa.bool_(), None),
    ({"type": "array", "items": record(name="Nothing")}, [{}, {}], None, [True, True]),
    (["null", "string"], None, pa.string(), None),
    (["string", "null"], "a", pa.string(), "a"),
    (["string"], "a", pa.string(), "a"),
    (["null"], None, pa.bool_(), None),
    (["int", "null", "long"], 2**40, pa.int64(), 2**40),
    (["long", "int"], 5, pa.int64(), 5),
    (["float", "double"], 0.1, pa.float64(), 0.1),
    (
        ["null", "string", "long"],
        7,
        pa.struct([("member0", pa.string()), ("member1", pa.int64())]),
        {"member0": None, "member1": 7},
    ),
    (["null", "string", "long"], None, pa.struct([("member0", pa.string()), ("member1", pa.int64())]), None),
]


@pytest.mark.parametrize(("spec", "value", "kind", "wanted"), TYPES, ids=lambda part: str(part)[:60])
def test_each_type_has_its_column(spec: Any, value: Any, kind: pa.DataType | None, wanted: Any) -> None:
    whole = record("string", spec, "long")
    reader = reader_of(whole)
    payload = by_fastavro(whole, {"c0": "a", "c1": value, "c2": -7})
    if kind is not None:
        assert reader.schema == pa.schema([("c0", pa.string()), ("c1", kind), ("c2", pa.int64())])
    for count in (1, 3):
        assert rows_of(reader, [payload] * count) == [{"c0": "a", "c1": wanted, "c2": -7}] * count


@pytest.mark.parametrize(("spec", "value", "kind", "wanted"), TYPES, ids=lambda part: str(part)[:60])
def test_a_schema_that_is_no_record_is_one_column(
    spec: Any, value: Any, kind: pa.DataType, wanted: Any
) -> None:
    if isinstance(spec, dict) and spec["type"] == "record":
        return
    reader = reader_of(spec)
    assert reader.schema.names == ["value"]
    assert rows_of(reader, [by_fastavro(spec, value)]) == [{"value": wanted}]


def test_a_field_that_is_always_null_is_no_column() -> None:
    spec = record("null", "long", {"type": "map", "values": "null"})
    reader = reader_of(spec)
    assert reader.schema == pa.schema([("c1", pa.int64()), ("c2", pa.map_(pa.string(), pa.bool_()))])
    payload = by_fastavro(spec, {"c0": None, "c1": 4, "c2": {"k": None}})
    assert rows_of(reader, [payload]) == [{"c1": 4, "c2": {"k": None}}]


@pytest.mark.parametrize("fields", [(), ("null",)])
def test_a_record_of_nothing_is_a_row_of_nothing(fields: tuple[str, ...]) -> None:
    decoded = reader_of(record(*fields)).decode(binary([b"", b"\0", b""]))
    assert (decoded.rows.num_rows, decoded.rows.num_columns) == (2, 0)
    assert decoded.source.tolist() == [0, 2]


def test_names_are_those_of_the_schema_however_odd() -> None:
    spec = {
        "type": "record",
        "name": "R",
        "fields": [{"name": n, "type": "long"} for n in ("a", "A", "f0", "nonce", "a.b c", "ä")],
    }
    assert rows_of(reader_of(spec), [bytes(range(0, 12, 2))]) == [
        {"a": 0, "A": 1, "f0": 2, "nonce": 3, "a.b c": 4, "ä": 5}
    ]


def test_a_union_of_more_branches_than_arrow_numbers_is_read_exactly() -> None:
    reader = reader_of(record(LONGEST_UNION))
    assert reader._fast is None
    assert rows_of(reader, [long(130) + b"z"])[0]["c0"]["member129"] == b"z"


CHAIN: dict[str, Any] = {
    "type": "record",
    "name": "Chain",
    "namespace": "n",
    "fields": [
        {"name": "v", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "next", "type": ["null", "Chain"]},
        {"name": "all", "type": {"type": "map", "values": "n.Chain"}},
    ],
}
LINK: dict[str, Any] = {"v": moment(0, 5), "next": None, "all": {}}


def test_what_contains_itself_is_json_text() -> None:
    reader = reader_of(CHAIN)
    assert reader.schema == pa.schema(
        [("v", pa.timestamp("us", "UTC")), ("next", pa.string()), ("all", pa.map_(pa.string(), pa.string()))]
    )
    payload = by_fastavro(CHAIN, {"v": None, "next": {**LINK, "next": LINK}, "all": {"k": LINK}})
    link = '{"v":"1970-01-01T00:00:00.000005Z","next":null,"all":{}}'
    both = link.replace("null", link)
    assert rows_of(reader, [payload, payload]) == [{"v": None, "next": both, "all": {"k": link}}] * 2


def test_json_text_holds_each_type() -> None:
    leaves = record(
        "double",
        "bytes",
        {"type": "bytes", **DECIMAL},
        {"type": "int", "logicalType": "date"},
        {"type": "long", "logicalType": "local-timestamp-millis"},
        {"type": "enum", "name": "E", "symbols": ["A"]},
        ["null", "string", "long"],
        {"type": "array", "items": ["null", "float"]},
        "null",
        name="Leaves",
    )
    leaves["fields"].append({"name": "again", "type": ["null", "Leaves"]})
    value = {
        "c0": float("nan"),
        "c1": b"\xff",
        "c2": Decimal("-0.10"),
        "c3": day(1),
        "c4": datetime(2020, 1, 1),
        "c5": "A",
        "c6": 9,
        "c7": [None, float("inf")],
        "c8": None,
        "again": None,
    }
    payload = by_fastavro(leaves, {**value, "c0": 0.5, "again": value})
    assert json.loads(rows_of(reader_of(leaves), [payload])[0]["again"]) == {
        "c0": "NaN",
        "c1": "/w==",
        "c2": "-0.10",
        "c3": "1970-01-02",
        "c4": "2020-01-01T00:00:00",
        "c5": "A",
        "c6": {"member1": 9},
        "c7": [None, "Infinity"],
        "again": None,
    }


def test_of_equal_keys_in_a_map_the_last_one_counts() -> None:
    twice = long(2) + b"\x02k" + long(1) + b"\x02k" + long(2) + long(0)
    decoded = reader_of(record({"type": "map", "values": "int"})).decode(binary([twice]))
    assert comparable(decoded.rows) == [{"c0": {"k": 2}}]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_batch_may_have_any_length(count: int) -> None:
    reader = reader_of(record("long", ["null", "string"]))
    decoded = reader.decode(binary([b"\x02\0"] * count))
    assert decoded.rows.num_rows == count
    assert decoded.rows.schema == reader.schema


def test_a_sliced_batch_is_decoded_as_what_it_is_a_slice_of() -> None:
    payloads = binary([long(1), long(2), b"\xff", long(4), long(5)]).slice(1, 3)
    decoded = reader_of(record("int")).decode(payloads)
    assert decoded.rows.to_pylist() == [{"c0": 2}, {"c0": 4}]
    assert decoded.source.tolist() == [0, 2]
    assert [failure.row for failure in decoded.failures] == [1]


def test_what_confluents_serializer_writes_is_decoded() -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415
    from confluent_kafka.schema_registry.avro import AvroSerializer  # noqa: PLC0415
    from confluent_kafka.serialization import MessageField, SerializationContext  # noqa: PLC0415

    spec = record("string", ["null", {"type": "long", "logicalType": "timestamp-millis"}])
    client = SchemaRegistryClient.new_client({"url": "mock://avro"})
    serializer = AvroSerializer(client, json.dumps(spec))
    context = SerializationContext("topic", MessageField.VALUE)
    values = [serializer({"c0": "a", "c1": at}, context) for at in (None, moment(2))]
    codec = AvroCodec()
    frames = codec.split(binary(values), None)
    assert frames.kind.tolist() == [0, 0]
    assert frames.kinds[0][1] == ()
    bodies = [value[start:] for value, start in zip(values, frames.start.tolist(), strict=True)]
    assert rows_of(reader_of(spec), bodies) == [{"c0": "a", "c1": None}, {"c0": "a", "c1": moment(2)}]


def test_a_path_into_an_avro_schema_is_refused() -> None:
    with pytest.raises(BadSchema, match="one record type"):
        AvroCodec().reader(schema("long"), (0,))
