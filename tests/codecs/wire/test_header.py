"""The vectorised header reader against a reader that takes one record at a time, and against confluent-kafka's own."""

from __future__ import annotations

import uuid
from io import BytesIO

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry.serde import SchemaId
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.codecs import reasons
from distributary.codecs.wire.header import NO_USABLE_HEADER, TOMBSTONE, Frames, bodies, split
from distributary.codecs.wire.message_index import MAX_DEPTH

Header = tuple[int | str, tuple[int, ...], int]


class Broken(Exception):
    """A header that cannot be read; the argument is the reason code."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for turn in range(5):
        if at >= len(data):
            raise Broken(reasons.TRUNCATED_HEADER)
        value |= (data[at] & 0x7F) << 7 * turn
        at += 1
        if data[at - 1] < 0x80:
            value = (value >> 1) ^ -(value & 1) if value < 2**32 else -1
            if value < 0:
                raise Broken(reasons.BAD_MESSAGE_INDEX)
            return value, at
    raise Broken(reasons.BAD_MESSAGE_INDEX)


def read(data: bytes, message_index: bool) -> Header:
    if not data:
        raise Broken(reasons.NO_HEADER)
    if data[0] > 1:
        raise Broken(reasons.GLUE_HEADER if data[0] == 3 else reasons.BAD_MAGIC)
    at = 17 if data[0] else 5
    if len(data) < at:
        raise Broken(reasons.TRUNCATED_HEADER)
    ref = str(uuid.UUID(bytes=data[1:17])) if data[0] else int.from_bytes(data[1:5], "big")
    if not message_index:
        return ref, (), at
    count, at = varint(data, at)
    if count > MAX_DEPTH:
        raise Broken(reasons.BAD_MESSAGE_INDEX)
    path = []
    for _ in range(count):
        index, at = varint(data, at)
        path.append(index)
    return ref, tuple(path) or (0,), at


def check(
    values: list[bytes | None], borne: list[bytes | None] | None, frames: Frames, message_index: bool
) -> None:
    errors = {row: reason for row, reason, _ in frames.errors}
    assert [row for row, _, _ in frames.errors] == sorted(errors)
    assert len(set(frames.kinds)) == len(frames.kinds)
    assert frames.kind.dtype == np.int32
    assert frames.start.dtype == np.int64
    for row, value in enumerate(values):
        header = borne[row] if borne else None
        if value is None:
            assert (frames.kind[row], row in errors) == (TOMBSTONE, False)
            continue
        try:
            ref, path, size = read(value if header is None else header, message_index)
        except Broken as error:
            assert (frames.kind[row], errors[row]) == (NO_USABLE_HEADER, error.args[0])
        else:
            assert row not in errors
            assert frames.kinds[frames.kind[row]] == (ref, path)
            assert frames.start[row] == (size if header is None else 0)


lead = st.sampled_from(
    [b"", b"\0", b"\0\0\0\0\7", b"\0\0\0\0\7\0", b"\1" + b"g" * 16, b"\1" + bytes(16) + b"\0", b"\3\0"]
)
wire = st.builds(lambda a, b: a + b, lead, st.binary(max_size=12))
layout = st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()])


@settings(deadline=None)
@given(st.lists(st.none() | wire, max_size=20), layout, st.integers(0, 3), st.booleans())
def test_headers_are_read_as_one_by_one(
    values: list[bytes | None], kind: pa.DataType, skip: int, message_index: bool
) -> None:
    sliced = pa.array([b"other"] * skip + values + [b"more"], kind).slice(skip, len(values))
    check(values, None, split(sliced, None, message_index=message_index), message_index)


@settings(deadline=None)
@given(st.lists(st.tuples(st.none() | wire, st.none() | wire), max_size=20), st.booleans())
def test_ids_in_record_headers_are_read_as_one_by_one(
    pairs: list[tuple[bytes | None, bytes | None]], message_index: bool
) -> None:
    values, borne = [value for value, _ in pairs], [header for _, header in pairs]
    frames = split(pa.array(values, pa.binary()), pa.array(borne, pa.binary()), message_index=message_index)
    check(values, borne, frames, message_index)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.booleans(), st.integers(0, 2**32 - 1), st.lists(st.integers(0, 300), min_size=1, max_size=6)
        ),
        max_size=8,
    )
)
def test_what_confluents_client_writes_is_read_back(ids: list[tuple[bool, int, list[int]]]) -> None:
    written = []
    for by_guid, number, path in ids:
        id_ = SchemaId("PROTOBUF", number, str(uuid.UUID(int=number)), path)
        written.append(id_.guid_to_bytes() if by_guid else id_.id_to_bytes())
    frames = split(pa.array([head + b"body" for head in written], pa.binary()), None, message_index=True)
    for row, (by_guid, number, path) in enumerate(ids):
        ref = str(uuid.UUID(int=number)) if by_guid else number
        assert frames.kinds[frames.kind[row]] == (ref, tuple(path))
        assert frames.start[row] == len(written[row])
        assert SchemaId("PROTOBUF").from_bytes(BytesIO(written[row] + b"body")).read() == b"body"


@settings(deadline=None)
@given(st.lists(wire, max_size=20), layout, st.integers(0, 3), st.data())
def test_bodies_are_what_follows_the_headers(
    values: list[bytes], kind: pa.DataType, skip: int, data: st.DataObject
) -> None:
    array = pa.array([b"other"] * skip + values, kind).slice(skip)
    frames = split(array, None, message_index=True)
    wanted = [value[start:] for value, start in zip(values, frames.start.tolist(), strict=True)]
    everything = bodies(array, frames)
    assert everything.type == pa.binary()
    assert everything.to_pylist() == wanted
    chosen = sorted(data.draw(st.sets(st.integers(0, len(values) - 1)))) if values else []
    some = bodies(array, frames, np.array(chosen, np.int64))
    some.validate(full=True)
    assert some.to_pylist() == [wanted[row] for row in chosen]


def test_bodies_of_descending_rows_are_refused() -> None:
    values = pa.array([b"\0\0\0\0\1\0a", b"\0\0\0\0\1\0b"], pa.binary())
    with pytest.raises(ValueError, match="do not ascend"):
        bodies(values, split(values, None, message_index=True), np.array([1, 0]))


def test_nothing_is_copied_where_no_value_carries_a_header() -> None:
    values = pa.array([b"abc", b""], pa.binary())
    borne = pa.array([b"\0\0\0\0\1\0"] * 2, pa.binary())
    assert bodies(values, split(values, borne, message_index=True)) is values


def test_an_empty_batch_has_no_frames() -> None:
    empty = pa.array([], pa.binary())
    frames = split(empty, empty, message_index=True)
    assert (len(frames.kind), list(frames.kinds), list(frames.errors)) == (0, [], [])
    assert len(bodies(empty, frames)) == 0


def test_the_reason_names_glue_and_where_the_id_was() -> None:
    values = pa.array([b"\3\0" + bytes(16), b"body"], pa.binary())
    borne = pa.array([None, b"\5"], pa.binary())
    (_, glue, sentence), (_, magic, place) = split(values, borne, message_index=False).errors
    assert (glue, magic) == (reasons.GLUE_HEADER, reasons.BAD_MAGIC)
    assert "AWS Glue" in sentence
    assert "__value_schema_id" in place


@pytest.mark.parametrize("magic", [0, 1])
def test_very_many_distinct_ids_stay_distinct(magic: int) -> None:
    count = 20_000
    size = 16 if magic else 4
    values = pa.array([bytes([magic]) + n.to_bytes(size, "big") + b"\0x" for n in range(count)], pa.binary())
    frames = split(values, None, message_index=True)
    assert len(frames.kinds) == count
    assert frames.kinds[int(frames.kind[777])][0] == (str(uuid.UUID(int=777)) if magic else 777)
