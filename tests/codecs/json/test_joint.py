"""Records of several schemas decoded at once: with the result that each schema's own reader gives."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.types as kinds
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.codecs.json_samples import payloads, schemas
from tests.examples import examples

from distributary.codecs.base import Decoded, load_codec
from distributary.codecs.json.codec import JsonReader
from distributary.codecs.json.fast import NativeReader
from distributary.codecs.json.joint import MOST_COLUMNS, JointReader
from distributary.codecs.types.spark_struct import list_of, struct_json
from distributary.registry.base import Schema

LONG, TEXT = pa.int64(), pa.string()


def reader(*fields: tuple[str, pa.DataType]) -> JsonReader:
    return JsonReader(Schema(0, "STRUCT", struct_json(pa.schema(list(fields)))))


def told(decoded: Decoded) -> Any:
    """All that a result says, comparable; NaN equals NaN."""
    assert decoded.rescued is not None
    failures = [(failure.row, failure.reason, failure.detail) for failure in decoded.failures]
    said = (decoded.rows.to_pylist(), decoded.source.tolist(), failures, decoded.rescued.to_pylist())
    return str((*said, decoded.beyond.tolist())), decoded.rows.schema


def joint(*readers: JsonReader) -> JointReader:
    found = JointReader()
    assert all(found.add(one) for one in readers)
    return found


def same(readers: list[JsonReader], texts: list[list[bytes]]) -> list[Decoded]:
    """What they give together, which is what each gives by itself."""
    parts = [pa.array(one, pa.binary()) for one in texts]
    together = joint(*readers).decode(list(enumerate(parts)))
    alone = [one.decode(part) for one, part in zip(readers, parts, strict=True)]
    assert [told(one) for one in together] == [told(one) for one in alone]
    for one in together:
        one.rows.validate(full=True)
    return together


def some_of(data: st.DataObject, of: pa.StructType) -> list[pa.Field]:
    """Some of a struct's fields, and of structs among them some of theirs."""
    chosen = data.draw(st.lists(st.sampled_from(list(of)), min_size=1, unique=True))
    return [
        one.with_type(pa.struct(some_of(data, one.type))) if kinds.is_struct(one.type) else one
        for one in chosen
    ]


@settings(max_examples=examples(40), suppress_health_check=list(HealthCheck))
@given(st.data())
def test_each_schema_makes_of_its_records_what_it_makes_alone(data: st.DataObject) -> None:
    whole = data.draw(schemas())
    parts = [pa.schema(some_of(data, pa.struct(list(whole)))) for _ in range(data.draw(st.integers(2, 4)))]
    # Records of another one's schema, and the fields of all, come too.
    texts = [
        data.draw(st.lists(payloads(one) | payloads(whole), max_size=5))
        + [b'{"a":null}'] * data.draw(st.integers(0, 6))
        for one in parts
    ]
    same([reader(*one) for one in parts], texts)


GO = reader(("game", TEXT), ("score", LONG), ("board", pa.struct([("size", LONG)])))
CHESS = reader(("clock", pa.float64()), ("board", pa.struct([("black", TEXT)])), ("game", TEXT))
GOOD = [
    [b'{"game":"go","score":1,"board":{"size":9}}', b'{"score":2,"game":null,"board":null}', b"{}"] * 4,
    [b'{"game":"chess","clock":1.5,"board":{"black":"x"}}', b'{"board":{}}', b'{"clock":1}'] * 4,
]


def test_good_records_need_no_reader_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = same([GO, CHESS], GOOD)
    monkeypatch.setattr(JsonReader, "decode", lambda *_: pytest.fail("a schema was decoded alone"))
    parts = [pa.array(one, pa.binary()) for one in GOOD]
    found = joint(GO, CHESS).decode(list(enumerate(parts)))
    assert [told(one) for one in found] == [told(one) for one in wanted]
    assert found[1].rows.slice(0, 2).to_pylist() == [
        {"clock": 1.5, "board": {"black": "x"}, "game": "chess"},
        {"clock": None, "board": {"black": None}, "game": None},
    ]


@pytest.mark.parametrize(
    ("text", "rescued", "beyond"),
    [
        # The other schema has these fields: this one rescues them and asks for them all the same.
        (b'{"score":1,"clock":2.5}', '{"clock":2.5}', True),
        (b'{"board":{"size":9,"black":"x"}}', '{"board.black":"x"}', True),
        (b'{"clock":"long"}', '{"clock":"long"}', True),
        (b'{"clock":1,"clock":null}', '{"clock":1}', True),
        (b'{"clock":null,"clock":1}', '{"clock":1}', True),
        # A null says nothing of a field.
        (b'{"score":1,"clock":null,"board":{"black":null}}', None, False),
        # No schema has this one.
        (b'{"level":1}', '{"level":1}', True),
        (b'{"score":"12"}', '{"score":"12"}', False),
    ],
)
def test_a_field_of_anothers_schema_is_no_field_of_ones_own(
    text: bytes, rescued: str | None, beyond: bool
) -> None:
    found, other = same([GO, CHESS], [[*GOOD[0], text, *GOOD[0]], GOOD[1]])
    assert found.rescued is not None and found.rescued.to_pylist() == [None] * 12 + [rescued] + [None] * 12
    assert found.beyond.tolist() == [12] * beyond
    assert not len(other.beyond) and not other.failures


def test_a_broken_record_is_numbered_among_its_own() -> None:
    spoiled = [*GOOD[1][:5], b'{"clock":1}} null', *GOOD[1][5:], b"\xff", b""]
    go, chess = same([GO, CHESS], [GOOD[0], spoiled])
    assert not go.failures
    assert [failure.row for failure in chess.failures] == [5, 13, 14]
    assert chess.source.tolist() == [*range(5), *range(6, 13)]


def test_a_member_that_sends_nothing_but_bad_records_does_not_have_all_read_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spoiled = [b'{"clock":1,}'] * 60
    same([GO, CHESS], [GOOD[0], spoiled])
    reads: list[NativeReader] = []
    read = NativeReader._read

    def counted(self: NativeReader, payloads: pa.BinaryArray, unknown_fields: bool) -> Any:
        reads.append(self)
        return read(self, payloads, unknown_fields)

    monkeypatch.setattr(NativeReader, "_read", counted)
    together = joint(GO, CHESS)
    go, _ = together.decode([(0, pa.array(GOOD[0], pa.binary())), (1, pa.array(spoiled, pa.binary()))])
    assert go.rows.num_rows == len(GOOD[0])
    assert together._decoder is not None
    assert sum(one is together._decoder._native for one in reads) < 20


def test_members_come_in_any_order_and_not_all_of_them() -> None:
    together = joint(GO, CHESS, reader(("game", TEXT)))
    parts = [
        (2, pa.array([b'{"game":"ludo"}'] * 9, pa.binary())),
        (0, pa.array([b'{"score":3}'], pa.binary())),
    ]
    ludo, go = together.decode(parts)
    assert (ludo.rows.to_pylist(), go.rows["score"].to_pylist()) == ([{"game": "ludo"}] * 9, [3])
    # One that comes later is decoded along from then on.
    assert together.add(reader(("level", LONG)))
    assert (
        together.decode([(3, pa.array([b'{"level":1}'] * 9, pa.binary()))])[0].rows["level"].to_pylist()
        == [1] * 9
    )


@pytest.mark.parametrize(
    "fields",
    [
        [("score", TEXT)],
        [("score", pa.float64())],
        [("board", pa.struct([("size", TEXT)]))],
        [("board", TEXT)],
        [("list", list_of(pa.struct([("x", TEXT)])))],
        # The keys of all maps would be columns of everybody.
        [("map", pa.map_(TEXT, LONG))],
        [("inside", list_of(pa.struct([("map", pa.map_(TEXT, LONG))])))],
        [(f"c{number}", LONG) for number in range(MOST_COLUMNS)],
        [],
    ],
)
def test_a_schema_that_does_not_go_with_the_others_is_refused(fields: list[tuple[str, pa.DataType]]) -> None:
    together = joint(GO, reader(("list", list_of(pa.struct([("x", LONG)])))))
    assert not together.add(reader(*fields))
    (found,) = together.decode([(0, pa.array([b'{"score":1}'] * 9, pa.binary()))])
    assert found.rows["score"].to_pylist() == [1] * 9


@pytest.mark.parametrize("name", ["json", "auto"])
def test_codecs_that_have_inferred_schemas_decode_several_at_once(name: str) -> None:
    codec = load_codec(name)
    assert codec.capabilities.joint is not None and codec.capabilities.joint().add(GO)
