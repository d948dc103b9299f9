from __future__ import annotations

import io
import json
from typing import Any
from uuid import UUID

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.containers.containers import (
    COMPRESSED,
    MARKER,
    block,
    container,
    encoded,
    header,
    named,
    number,
    read,
    sized,
)

from distributary.codecs.avro.decode.ends import MOST_EMPTY
from distributary.codecs.containers import compression
from distributary.codecs.containers.avro import AvroFiles
from distributary.codecs.containers.base import Damaged

EVENT: dict[str, Any] = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "who", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}


def event(n: int) -> dict[str, Any]:
    return {"n": n * 1_000, "who": None if n % 3 else f"player {n}", "tags": ["a"] * (n % 4)}


def events(*counts: int) -> list[list[dict[str, Any]]]:
    numbers = iter(range(sum(counts)))
    return [[event(next(numbers)) for _ in range(count)] for count in counts]


def expected(blocks: list[list[dict[str, Any]]], schema: Any = EVENT) -> dict[int, bytes]:
    """What is handed on of each row: its schema's GUID, and its own bytes."""
    prefix = b"\x01" + UUID(named(json.dumps(schema))).bytes
    rows = [record for records in blocks for record in records]
    return {row: prefix + encoded(schema, record) for row, record in enumerate(rows)}


@pytest.mark.parametrize("codec", COMPRESSED)
def test_records_are_handed_on_as_they_stand_whatever_compresses_them(codec: str) -> None:
    blocks = events(3, 0, 5_000, 1, 12_001)
    assert read("avro", container(EVENT, blocks, codec)) == (expected(blocks), [], "")


def test_what_another_writer_writes_is_read() -> None:
    file, records = io.BytesIO(), [event(n) for n in range(3_000)]
    fastavro.writer(file, EVENT, records, codec="deflate", sync_interval=1_000)
    assert read("avro", file.getvalue()) == (expected([records]), [], "")


def test_a_schema_has_one_guid_however_it_is_written() -> None:
    turned = {name: EVENT[name] for name in reversed(EVENT)}
    assert named(json.dumps(EVENT)) == named(json.dumps(turned, indent=3))
    assert named(json.dumps(EVENT)) != named(json.dumps({**EVENT, "name": "Other"}))


def test_the_schema_is_the_files_own() -> None:
    assert json.loads(AvroFiles().schema(io.BytesIO(container(EVENT, events(1))))) == EVENT
    with pytest.raises(Damaged, match="does not begin as an Avro container does"):
        AvroFiles().schema(io.BytesIO(b'{"a": 1}'))


def test_of_a_file_that_was_cut_off_the_rows_before_that_are_read() -> None:
    blocks = events(2, 2, 2)
    whole, two = container(EVENT, blocks), container(EVENT, blocks[:2])
    for end in (len(whole) - 1, len(whole) - 16, len(two) + 1):
        found, gaps, why = read("avro", whole[:end])
        assert (found, gaps) == (expected(blocks[:2]), [])
        assert "cut off" in why
    assert read("avro", whole[:30])[2].endswith("it was cut off, or is no Avro container")


@pytest.mark.parametrize(
    "codec", [pytest.param(codec, id=codec) for codec in ("deflate", "snappy", "zstandard", "bzip2", "xz")]
)
def test_of_a_block_that_cannot_be_decompressed_nothing_is_taken_and_all_around_it_is(codec: str) -> None:
    blocks = events(2, 300, 2)
    begin, behind = len(container(EVENT, blocks[:1], codec)), len(container(EVENT, blocks[:2], codec))
    whole = bytearray(container(EVENT, blocks, codec))
    middle = (begin + behind) // 2
    whole[middle : middle + 6] = b"\xff\x00\xff\x00\xff\x00"
    found, gaps, why = read("avro", bytes(whole))
    rows = expected(blocks)
    assert (gaps, why) == ([2], "")
    assert found == {row: rows[row] for row in (0, 1, 302, 303)}


def test_a_block_that_is_no_such_records_is_a_gap() -> None:
    good = b"".join(encoded(EVENT, event(n)) for n in range(2))
    for bad in (block(2, good[:-1]), block(2, good + b"\0"), block(2, b"\xff" * 40)):
        data = header(EVENT) + block(2, good) + bad + block(2, good)
        found, gaps, why = read("avro", data)
        assert (sorted(found), gaps, why) == ([0, 1, 4, 5], [2], "")


@pytest.mark.parametrize(
    "bad",
    [
        number(2) + number(10**9) + b"x" * 30 + MARKER,
        number(2) + number(3) + b"x" * 30 + MARKER,
        number(-2) + sized(b"xx") + MARKER,
        b"\xff" * 20 + MARKER,
    ],
)
def test_behind_a_block_that_ends_elsewhere_than_it_says_reading_goes_on(bad: bytes) -> None:
    good = block(2, b"".join(encoded(EVENT, event(n)) for n in range(2)))
    found, gaps, why = read("avro", header(EVENT) + good + bad + good)
    assert (sorted(found), gaps, why) == ([0, 1, 3, 4], [2], "")


def test_a_block_may_have_no_more_bytes_than_a_worker_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "LARGEST", 1_000)
    for codec in ("deflate", "snappy", "zstandard", "bzip2", "xz"):
        found, gaps, why = read("avro", header("string", codec) + block(1, sized(b"a" * 5_000), codec))
        assert (found, gaps, why) == ({}, [0], "")


def test_few_bytes_do_not_ask_for_any_number_of_rows() -> None:
    nothing = {"type": "record", "name": "Nothing", "fields": []}
    found, gaps, why = read("avro", header(nothing) + block(3, b"") + block(2**40, b"") + block(2, b""))
    assert (sorted(found), gaps, why) == ([0, 1, 2, 4, 5], [3], "")
    assert MOST_EMPTY < 2**40


def test_records_that_contain_themselves_are_told_apart() -> None:
    chain = {
        "type": "record",
        "name": "Node",
        "fields": [
            {"name": "next", "type": ["null", "Node"]},
            {"name": "n", "type": {"type": "array", "items": "null"}},
        ],
    }
    records: list[Any] = [{"next": {"next": None, "n": []}, "n": [None] * 9}, {"next": None, "n": []}]
    data = container(chain, [records])
    assert read("avro", data) == (expected([records], chain), [], "")
    deep = header(chain) + block(1, b"\x02" * 100_000 + b"\x00" * 100_001)
    assert read("avro", deep) == ({}, [0], "")


@pytest.mark.parametrize(
    ("schema", "codec", "told"),
    [
        (
            {"type": "record", "name": "A", "fields": [{"name": "a", "type": "Nobody"}]},
            "null",
            "cannot be used",
        ),
        ("long", "lz77", "compressed with another codec than null, deflate"),
    ],
)
def test_what_cannot_be_read_at_all_is_told_once(schema: Any, codec: str, told: str) -> None:
    found, gaps, why = read("avro", header(schema, codec) + block(1, b"\2"))
    assert (found, gaps) == ({}, [])
    assert told in why


def test_a_file_made_of_damage_is_told_in_bounds() -> None:
    found, gaps, why = read("avro", header("long") + (b"\1\1" + MARKER) * 5_000)
    assert (len(found), len(gaps)) == (0, 1_000)
    assert "more than 1000 blocks" in why


LEAVES: list[Any] = [
    "null",
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "bytes",
    "string",
    {"type": "enum", "name": "E", "symbols": ["a", "b"]},
    {"type": "fixed", "name": "F", "size": 3},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
]


def _named_apart(of: Any, name: str) -> Any:
    return {**of, "name": f"{of['name']}{name}"} if isinstance(of, dict) and "name" in of else of


@st.composite
def schemas(draw: st.DrawFn, name: str = "R", depth: int = 2) -> Any:
    kind = draw(st.sampled_from(["leaf", "array", "map", "union", "record"] if depth else ["leaf"]))
    inner = schemas(f"{name}x", depth - 1)
    if kind == "array":
        return {"type": "array", "items": draw(inner)}
    if kind == "map":
        return {"type": "map", "values": draw(inner)}
    if kind == "union":
        other = draw(st.sampled_from(LEAVES[1:]))
        return ["null", _named_apart(other, name)]
    if kind == "record":
        fields = [
            {"name": f"f{n}", "type": draw(schemas(f"{name}{n}", depth - 1))}
            for n in range(draw(st.integers(0, 3)))
        ]
        return {"type": "record", "name": f"R{name}", "fields": fields}
    return _named_apart(draw(st.sampled_from(LEAVES)), name)


def values(of: Any) -> st.SearchStrategy[bytes]:
    """Bytes that some writer may write for a value of this type, not always in the shortest way."""
    if isinstance(of, list):
        return st.one_of(
            *(st.tuples(st.just(number(n)), values(one)).map(b"".join) for n, one in enumerate(of))
        )
    if isinstance(of, dict) and of["type"] == "record":
        return st.tuples(*(values(one["type"]) for one in of["fields"])).map(b"".join)
    if isinstance(of, dict) and of["type"] in ("array", "map"):
        item = (
            values(of["items"])
            if of["type"] == "array"
            else st.tuples(_TEXT, values(of["values"])).map(b"".join)
        )
        return st.tuples(st.lists(item, max_size=3), st.booleans()).map(lambda told: _listed(*told))
    kind = of["type"] if isinstance(of, dict) else of
    if kind == "fixed":
        return st.binary(min_size=3, max_size=3)
    return _BYTES[kind]


def _listed(items: list[bytes], told: bool) -> bytes:
    if not items:
        return b"\0"
    whole = b"".join(items)
    return (number(-len(items)) + sized(whole) if told else number(len(items)) + whole) + b"\0"


_NUMBERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-200, 200)).map(number)
_TEXT = st.text(max_size=70).map(lambda text: sized(text.encode()))
_BYTES = {
    "null": st.just(b""),
    "boolean": st.sampled_from([b"\0", b"\1", b"\7"]),
    "int": st.one_of(st.integers(-(2**31), 2**31 - 1).map(number), st.just(b"\x80\x00")),
    "long": _NUMBERS,
    "float": st.binary(min_size=4, max_size=4),
    "double": st.binary(min_size=8, max_size=8),
    "bytes": st.binary(max_size=70).map(sized),
    "string": st.one_of(_TEXT, st.just(sized(b"\xff\xfe"))),
    "enum": st.sampled_from([b"\0", b"\2"]),
}


@given(st.data(), schemas())
def test_whatever_a_record_is_it_ends_where_the_next_one_begins(data: st.DataObject, of: Any) -> None:
    schema = {
        "type": "record",
        "name": "Top",
        "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": of}],
    }
    each = st.tuples(_BYTES["int"], values(of)).map(b"".join)
    blocks = data.draw(st.lists(st.lists(each, max_size=4), max_size=3))
    file = header(schema) + b"".join(block(len(records), b"".join(records)) for records in blocks)
    found, gaps, why = read("avro", file)
    assert [value[17:] for _, value in sorted(found.items())] == [
        one for records in blocks for one in records
    ]
    assert (gaps, why) == ([], "")


@given(st.data())
def test_whatever_becomes_of_a_files_bytes_rows_are_read_or_told(data: st.DataObject) -> None:
    codec = data.draw(st.sampled_from(["null", "deflate", "snappy"]))
    blocks = events(3, 4, 5)
    whole = bytearray(container(EVENT, blocks, codec))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    found, gaps, why = read("avro", bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    assert not set(gaps) & set(found)
    assert len(found) == 12 or gaps or why or len(found) in (0, 3, 7)
