"""A writer's records read as a reader's schema has them, held to fastavro's own resolution."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from tests.codecs.avro.test_codec import CHAIN, comparable, spoilt
from tests.codecs.avro_pairs import in_json, pairs_with_values, shaped
from tests.codecs.avro_samples import Branch, day, kind_of, long, moment, record, schema, write
from tests.codecs.avro_samples import by_fastavro as written_by_fastavro
from tests.examples import examples

from distributary.codecs.avro.resolution.reader import ResolvingReader, resolving_reader
from distributary.errors import BadSchema, DecoderUnavailable

slow = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    max_examples=examples(50),
    phases=[Phase.generate],
)


def reader_of(writer: Any, reader: Any) -> ResolvingReader:
    return resolving_reader(schema(writer), schema(reader))


def decoded(reader: ResolvingReader, payloads: Sequence[bytes]) -> list[Any]:
    """What both ways give, which must be the same: a row, or the reason why there is none."""
    found = reader.decode(pa.array(payloads, pa.binary()))
    assert found.rows.schema == reader.schema
    rows: list[Any] = [None] * len(payloads)
    for place, row in zip(found.source.tolist(), comparable(found.rows), strict=True):
        rows[place] = row
        assert comparable(reader._alone(payloads[place])) == [row]
    for failure in found.failures:
        rows[failure.row] = failure.reason
    return rows


def by_fastavro(writer: Any, reader: Any, payload: bytes) -> Any:
    try:
        return shaped(reader, fastavro.schemaless_reader(io.BytesIO(payload), writer, reader))
    except (fastavro.read.SchemaResolutionError, UnicodeDecodeError):
        return None


@slow
@given(pairs_with_values())
def test_records_are_resolved_as_fastavro_does(sample: tuple[Any, Any, list[Any]]) -> None:
    writer, reader, values = sample
    payloads = [write(writer, value) for value in values]
    wanted = [by_fastavro(writer, reader, payload) for payload in payloads]
    try:
        found = decoded(reader_of(writer, reader), payloads)
    except BadSchema:
        event("no record can be read")
        assert wanted == [None] * len(values)
        return
    assert [None if isinstance(row, str) else row for row in found] == [
        {} if row is True else row for row in wanted
    ]


@settings(slow, max_examples=examples(30))
@given(pairs_with_values(), st.data())
def test_what_becomes_of_a_record_depends_on_nothing_but_itself(
    sample: tuple[Any, Any, list[Any]], data: st.DataObject
) -> None:
    writer, reader, values = sample
    payloads = [write(writer, value) for value in values] * 2
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(payloads) - 1))
        payloads[at] = data.draw(spoilt(payloads[at]))
    try:
        found = reader_of(writer, reader)
    except BadSchema:
        return
    together = decoded(found, payloads)
    assert "nan" in str(together) or together == [decoded(found, [payload])[0] for payload in payloads]


@settings(slow, max_examples=examples(50))
@given(pairs_with_values())
def test_what_contains_itself_is_resolved_within_its_json_text(sample: tuple[Any, Any, list[Any]]) -> None:
    plain, plain_reader, values = sample
    writer, reader = (
        {**spec, "fields": [*spec["fields"], {"name": "again", "type": ["null", spec["name"]]}]}
        for spec in (plain, plain_reader)
    )
    payload = write(plain, values[0]) + long(1) + write(plain, values[-1]) + long(0)
    try:
        read: Any = fastavro.schemaless_reader(io.BytesIO(payload), writer, reader)
    except (fastavro.read.SchemaResolutionError, UnicodeDecodeError):
        read = None
    try:
        (row,) = decoded(reader_of(writer, reader), [payload])
    except BadSchema:
        row = ""
    if read is None or isinstance(row, str):
        assert (read, type(row)) == (None, str)
        return
    again = json.loads(row.pop("again"))
    assert again.pop("again") is None
    assert row == shaped(plain_reader, read)
    assert again == in_json(plain_reader, read["again"])


@pytest.mark.parametrize("number", [2**60 + 2**36 + 1, -(2**60 + 2**36 + 1), 2**24 + 1, 2**63 - 1, -(2**63)])
def test_a_long_read_as_a_float_is_rounded_once_within_json_text_too(number: int) -> None:
    writer, reader = (
        fields({"name": "v", "type": of}, {"name": "again", "type": ["null", "R"]})
        for of in ("long", "float")
    )
    (row,) = decoded(reader_of(writer, reader), [long(number) + long(1) + long(number) + long(0)])
    assert row["v"] == float(np.int64(number).astype(np.float32))
    assert json.loads(row["again"])["v"] == row["v"]


def fields(*each: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(each)}


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}
DATE = {"type": "int", "logicalType": "date"}
FIXED = {"type": "fixed", "name": "F", "size": 2}


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


E1 = {"type": "enum", "name": "E", "symbols": ["A", "B"]}

# The writer's type, a value as it is written, the reader's type, what its column holds.
READ: list[tuple[Any, Any, Any, Any]] = [
    (MILLIS, 5, MICROS, moment(0, 5_000)),
    (MICROS, 5_999, MILLIS, moment(0, 5_999)),
    (MILLIS, 5, "long", 5),
    ("long", 5, MILLIS, moment(0, 5_000)),
    (DATE, 3, "long", 3),
    (DATE, 3, "int", 3),
    ("int", 3, DATE, day(3)),
    (DATE, 3, "double", 3.0),
    ({"type": "int", "logicalType": "time-millis"}, 7, "long", 7),
    (decimal(4, 2), b"\x01\x00", decimal(6, 3), Decimal("2.560")),
    (decimal(4, 2), b"\x01\x00", "bytes", b"\x01\x00"),
    ("bytes", b"\x01\x00", decimal(4, 2), Decimal("2.56")),
    ("string", "ä", "bytes", "ä".encode()),
    ("bytes", b"\xc3\xa4", ["null", "string"], "ä"),
    ("long", 2**63 - 1, "float", 2.0**63),
    # The branch of the very type goes before the first that could take it.
    ("int", 5, ["double", "int"], {"member0": None, "member1": 5}),
    ("long", 2**60 + 1, ["null", "double", "long"], {"member0": None, "member1": 2**60 + 1}),
    (["int", "long"], Branch(1, 2**40), ["long", "string"], {"member0": 2**40, "member1": None}),
    (["int", "string"], Branch(0, 1), ["null", "long", "double"], {"member0": 1, "member1": None}),
    (["float", "double"], Branch(0, 0.5), "double", 0.5),
    ("null", None, ["null", "int"], None),
    (["null"], Branch(0, None), ["string", "null"], None),
    (record("int", name="Old"), {"c0": 1}, record(name="New"), True),
    (
        record(name="Old"),
        {},
        {**record(name="New"), "fields": [{"name": "x", "type": E1, "default": "B"}]},
        {"x": "B"},
    ),
    (E1, "B", {**E1, "symbols": ["A", "Z"], "default": "Z"}, "Z"),
    (
        ["null", record("int", name="a.P"), record("int", name="b.P")],
        Branch(2, {"c0": 3}),
        ["null", record("int", name="a.P"), record("long", name="b.P")],
        {"member0": None, "member1": {"c0": 3}},
    ),
]


@pytest.mark.parametrize(("written", "value", "read", "wanted"), READ, ids=lambda part: str(part)[:50])
def test_a_value_stays_what_it_stands_for(written: Any, value: Any, read: Any, wanted: Any) -> None:
    plain = kind_of(written) if kind_of(written) in ("int", "long", "bytes") else written
    before = fields({"name": "first", "type": "string"}, {"name": "v", "type": written})
    after = fields({"name": "v", "type": read})
    payload = write("string", "x") + write(plain, value)
    assert decoded(reader_of(before, after), [payload] * 2) == [{"v": wanted}] * 2
    if kind_of(written) != "record" and kind_of(read) != "record":
        assert decoded(reader_of(written, read), [write(plain, value)]) == [{"value": wanted}]


# What cannot be, and the place and reason that are named.
UNREADABLE: list[tuple[Any, Any, str]] = [
    ("long", "int", r"R\.v: long is no int"),
    ("string", "boolean", r"R\.v: string is no boolean"),
    ({"type": "array", "items": record("double", name="I")}, {"type": "array", "items": record("long", name="I")},
     r"R\.v\.element\.c0: double is no long"),
    ({"type": "map", "values": "int"}, {"type": "map", "values": "string"}, "map is no map"),
    ({"type": "map", "values": ["null", "int"]}, {"type": "map", "values": "string"}, r"R\.v\.value: no branch"),
    (FIXED, {**FIXED, "size": 3}, "fixed F is no fixed F"),
    (FIXED, {**FIXED, "name": "G"}, "fixed F is no fixed G"),
    (E1, {**E1, "symbols": ["Z"]}, "none of the writer's symbols"),
    ("string", ["null", "int"], "no branch of the reader's union takes string"),
    (["int", "string"], "boolean", r"no branch of the writer's union is boolean"),
    (MILLIS, LOCAL, r"long \(timestamp-millis\) does not stand for what long \(local-timestamp-micros\) does"),
    (DATE, MILLIS, r"int \(date\) does not stand"),
    (MILLIS, {"type": "long", "logicalType": "timestamp-nanos"}, "does not stand"),
    (decimal(4, 2), decimal(4, 3), "does not stand"),
    (decimal(4, 2), "string", "does not stand"),
    (record("int", name="I"), record("int", "string", name="I"), r"R\.v\.c1: the writer has no such field"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "read", "said"), UNREADABLE, ids=lambda part: str(part)[:50])
def test_what_cannot_be_read_is_said_with_its_place(written: Any, read: Any, said: str) -> None:
    pair = (fields({"name": "v", "type": kind}) for kind in (written, read))
    with pytest.raises(BadSchema, match=rf"cannot be read as the reader's: at .*{said}"):
        reader_of(*pair)


DEFAULTS: list[tuple[Any, Any, Any]] = [
    ("bytes", "\u00ff\u0000", b"\xff\0"),
    (FIXED, "ab", b"ab"),
    (decimal(4, 2), "\u0001\u0000", Decimal("2.56")),
    (DATE, 3, day(3)),
    (MILLIS, 3, moment(0, 3_000)),
    ("float", "-Infinity", float("-inf")),
    ("double", -1, -1.0),
    (["null", "string", "int"], 7, {"member0": None, "member1": 7}),
    (record("int", name="I"), {"c0": 4}, {"c0": 4}),
    ({"type": "array", "items": E1}, ["B", "A"], ["B", "A"]),
    (["null", CHAIN], {"v": None, "next": None, "all": {}}, '{"v":null,"next":null,"all":{}}'),
]


@pytest.mark.parametrize(("kind", "default", "wanted"), DEFAULTS, ids=lambda part: str(part)[:50])
def test_a_default_is_read_as_any_value_of_its_type(kind: Any, default: Any, wanted: Any) -> None:
    after = fields({"name": "new", "type": kind, "default": default}, {"name": "n", "type": "long"})
    reader = reader_of(fields({"name": "n", "type": "int"}), after)
    row = decoded(reader, [b"\x02"] * 2)[1]
    assert row == {"new": wanted, "n": 1}


@pytest.mark.parametrize(
    ("kind", "default"),
    [("int", "1"), ("int", 2**31), ("boolean", 0), ("bytes", "\u0100"), (FIXED, "a"), (E1, "Z"), (DATE, 2**31 - 1),
     (["null", "int"], "x"), (record("int", name="I"), {}), ({"type": "array", "items": "int"}, [1, "x"])],
    ids=str,
)  # fmt: skip
def test_a_default_that_is_no_value_is_said_when_it_is_needed(kind: Any, default: Any) -> None:
    after = fields({"name": "new", "type": kind, "default": default})
    with pytest.raises(BadSchema, match=r"R\.new: the default"):
        reader_of(fields({"name": "n", "type": "int"}), after)


def test_defaults_of_defaults_without_end_are_refused() -> None:
    # Each type can contain itself, so that none of them has columns that would be counted.
    last: Any = fields({"name": "back", "type": ["null", "T0"], "default": None}, name="T40")
    for n in reversed(range(40)):
        both = ({"name": "a", "type": last, "default": {}}, {"name": "b", "type": f"T{n + 1}", "default": {}})
        last = fields(*both, name=f"T{n}")
    after = fields({"name": "new", "type": last, "default": {}})
    with pytest.raises(BadSchema, match=r"R\.new: the default makes more than 100000 values"):
        reader_of(fields({"name": "n", "type": "int"}), after)


def test_only_records_that_cannot_be_the_readers_are_refused() -> None:
    before = fields(
        {"name": "e", "type": {"type": "array", "items": E1}},
        {"name": "u", "type": ["null", "long", "string"]},
    )
    after = fields(
        {"name": "e", "type": {"type": "array", "items": {**E1, "symbols": ["A"]}}},
        {"name": "u", "type": ["null", "long"]},
    )
    values = [
        {"e": e, "u": Branch(n, v)} for e in (["A"], ["A", "B"]) for n, v in ((0, None), (1, 7), (2, "x"))
    ]
    payloads = [*(write(before, value) for value in values), b"\x02", b""]
    bad = "not_the_readers"
    good = [{"e": ["A"], "u": None}, {"e": ["A"], "u": 7}]
    assert decoded(reader_of(before, after), payloads) == [
        *good,
        bad,
        bad,
        bad,
        bad,
        "malformed",
        "malformed",
    ]


def test_rows_without_a_column_are_still_rows() -> None:
    found = reader_of(record("int"), record()).decode(pa.array([b"\x02", b"", b"\x04"], pa.binary()))
    assert (found.rows.num_rows, found.source.tolist(), found.failures[0].row) == (2, [0, 2], 1)


def tree(*more: dict[str, Any]) -> dict[str, Any]:
    leaves: list[dict[str, Any]] = [
        {"name": "v", "type": "int"},
        {"name": "one", "type": ["null", "T"]},
        {"name": "all", "type": {"type": "array", "items": "T"}},
        {"name": "by", "type": {"type": "map", "values": ["null", "T"]}},
        {"name": "any", "type": ["string", "T", "null", "int"]},
    ]
    return fields(*leaves, *more, name="T")


@pytest.mark.parametrize(("deep", "names"), [(1, ["v", "any"]), (2, ["v", "one", "all", "by", "any"])])
def test_what_contains_itself_can_be_columns_so_deep(deep: int, names: list[str]) -> None:
    leaf: dict[str, Any] = {"v": 2, "one": None, "all": [], "by": {}, "any": 9}
    value = {"v": 1, "one": leaf, "all": [leaf], "by": {"k": leaf, "n": None}, "any": "x"}
    later = tree({"name": "new", "type": "int", "default": 5})
    reader = resolving_reader(schema(tree()), schema(later), deep)
    (row,) = decoded(reader, [written_by_fastavro(tree(), value)])
    assert list(row) == [*names, "new"]
    inner = {"v": 2, "any": {"member0": None, "member1": 9}, "new": 5}
    assert (row["v"], row["new"]) == (1, 5)
    if deep == 2:
        assert (row["one"], row["all"], row["by"]) == (inner, [inner], {"k": inner, "n": None})
        assert row["any"] == {"member0": "x", "member1": None, "member2": None}


def test_columns_that_would_be_too_many_are_refused() -> None:
    wide = fields(*({"name": f"n{n}", "type": ["null", "T"]} for n in range(9)), name="T")
    with pytest.raises(BadSchema, match="more than 5000 fields"):
        resolving_reader(schema(wide), schema(wide), 15)


def test_only_records_of_the_very_schema_are_for_sparks_own_function() -> None:
    before, after = record("int", name="N"), record("long", name="N")
    with pytest.raises(DecoderUnavailable, match="use the native decoder"):
        reader_of(before, after).column(None)  # type: ignore[arg-type]
