"""Glue's wire format read for a batch at once, against a reader that takes one record at a time."""

from __future__ import annotations

import tracemalloc
import uuid
import zlib
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.codecs import reasons
from distributary.codecs.wire import glue
from distributary.codecs.wire.glue import MOST_BYTES, NotUnfolded, split, unfolded
from distributary.codecs.wire.header import NO_USABLE_HEADER, TOMBSTONE, bodies, portions

VERSION = uuid.UUID("b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63")

Found = tuple[str, tuple[int, ...], bytes]


def framed(body: bytes, packed: bool = False, version: uuid.UUID = VERSION) -> bytes:
    return b"\3" + (b"\5" if packed else b"\0") + version.bytes + (zlib.compress(body) if packed else body)


def read(data: bytes, message_index: bool) -> Found | str:
    """One record by the plainest means: what it names and its body, or the reason code."""
    for wrong, code in (
        (not data, reasons.NO_HEADER),
        (data[:1] != b"\3", reasons.NO_GLUE_HEADER),
        (data[1:2] not in (b"", b"\0", b"\5"), reasons.UNKNOWN_COMPRESSION),
        (len(data) < 18, reasons.TRUNCATED_HEADER),
    ):
        if wrong:
            return code
    body = data[18:]
    if data[1] == 5:
        stream = zlib.decompressobj()
        try:
            body = stream.decompress(body)
        except zlib.error:
            return reasons.BAD_COMPRESSION
        if not stream.eof or stream.unused_data:
            return reasons.BAD_COMPRESSION
    named = str(uuid.UUID(bytes=data[2:18]))
    if not message_index:
        return named, (), body
    size = next((at + 1 for at, byte in enumerate(body[:5]) if byte < 0x80), None)
    if size is None:
        return reasons.BAD_MESSAGE_INDEX if len(body) >= 5 else reasons.TRUNCATED_HEADER
    number = sum((byte & 0x7F) << 7 * at for at, byte in enumerate(body[:size]))
    return (named, (number,), body[size:]) if number < 2**31 else reasons.BAD_MESSAGE_INDEX


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """A record, compressed or not, perhaps cut off somewhere, perhaps with a byte changed, perhaps with more behind it."""
    version = draw(st.sampled_from([VERSION, uuid.UUID(int=7)]))
    start = draw(st.sampled_from([b"", b"\0", b"\1", b"\x80\1", b"\xff" * 5, b"\xff\xff\xff\xff\x7f"]))
    whole = framed(start + draw(st.binary(max_size=40)), draw(st.booleans()), version)
    end = draw(st.one_of(st.just(len(whole)), st.integers(0, len(whole))))
    cut = bytearray(whole[:end])
    if cut and draw(st.integers(0, 4)) == 0:
        cut[draw(st.integers(0, len(cut) - 1))] = draw(st.integers(0, 255))
    return bytes(cut) + draw(st.sampled_from([b"", b"", b"", b"more"]))


layout = st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()])


@given(st.lists(st.none() | records(), max_size=12), st.booleans(), layout, st.integers(0, 3))
def test_every_record_is_read_as_one_alone_is(
    values: list[bytes | None], message_index: bool, type_: pa.DataType, skipped: int
) -> None:
    array = pa.array([b"\3\0before", *values], type_).slice(1)[min(skipped, len(values)) :]
    values = values[min(skipped, len(values)) :]
    frames = split(array, message_index=message_index)
    errors = {row: reason for row, reason, _ in frames.errors}
    assert [row for row, _, _ in frames.errors] == sorted(errors)
    assert frames.kind.dtype == np.int32
    good = []
    for row, value in enumerate(values):
        if value is None:
            assert (frames.kind[row], row in errors) == (TOMBSTONE, False)
            continue
        found = read(value, message_index)
        if isinstance(found, str):
            assert (frames.kind[row], errors[row]) == (NO_USABLE_HEADER, found)
            continue
        assert row not in errors
        assert frames.kinds[frames.kind[row]] == found[:2]
        good.append((row, found[2]))
    rows = np.array([row for row, _ in good], np.int64)
    assert bodies(array, frames, rows).to_pylist() == [body for _, body in good]


@given(st.binary(max_size=200), st.booleans(), st.integers(0, 300))
def test_a_record_that_is_cut_anywhere_is_a_reason_or_a_shorter_plain_body(
    body: bytes, packed: bool, end: int
) -> None:
    whole = framed(body, packed)
    cut = whole[: min(end, len(whole))]
    frames = split(pa.array([cut], pa.binary()), message_index=False)
    if len(cut) == len(whole) or (len(cut) >= 18 and not packed):
        assert bodies(pa.array([cut], pa.binary()), frames).to_pylist() == [
            body[: max(0, len(cut) - 18)] if not packed else body
        ]
    else:
        assert [reason for _, reason, _ in frames.errors] == [
            reasons.NO_HEADER
            if not cut
            else reasons.TRUNCATED_HEADER
            if len(cut) < 18
            else reasons.BAD_COMPRESSION
        ]


def test_what_serializers_of_java_write_is_read() -> None:
    # 'hello' with the compression level and window that Java's Deflater has.
    packed = b"\3\5" + VERSION.bytes + bytes.fromhex("789ccb48cdc9c907000 62c0215".replace(" ", ""))
    values = pa.array([packed, framed(b"plain")], pa.binary())
    frames = split(values, message_index=False)
    assert frames.kinds == [(str(VERSION), ())]
    assert bodies(values, frames).to_pylist() == [b"hello", b"plain"]


def bomb(size: int) -> bytes:
    return b"\3\5" + VERSION.bytes + zlib.compress(bytes(size), 1)


def test_a_decompression_bomb_is_refused_without_being_unfolded() -> None:
    values = pa.array([bomb(MOST_BYTES), bomb(10 * MOST_BYTES), framed(b"good", packed=True)], pa.binary())
    tracemalloc.start()
    try:
        frames = split(values, message_index=False)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [(row, reason) for row, reason, _ in frames.errors] == [(1, reasons.INFLATED_TOO_LARGE)]
    assert bodies(values, frames, np.array([2])).to_pylist() == [b"good"]
    assert peak < 4 * MOST_BYTES


def test_what_is_not_kept_of_a_batch_is_unfolded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glue, "_KEPT_BYTES", 0)
    texts = [b"\0one", b"\1two" * 9]
    values = pa.array([framed(text, packed=True) for text in texts], pa.binary())
    frames = split(values, message_index=True)
    assert bodies(values, frames).to_pylist() == [text[1:] for text in texts]


@given(st.lists(st.tuples(st.binary(max_size=9), st.booleans()), min_size=1, max_size=12), st.integers(1, 30))
def test_no_more_is_decoded_at_once_than_is_bounded(records: list[tuple[bytes, bool]], most: int) -> None:
    values = pa.array([framed(body, packed) for body, packed in records], pa.binary())
    frames = split(values, message_index=False)
    rows = np.arange(len(records))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(glue, "_AT_ONCE_BYTES", most)
        pieces = list(portions(frames, rows))
    assert np.concatenate(pieces).tolist() == rows.tolist()
    found = [bodies(values, frames, piece).to_pylist() for piece in pieces]
    assert [body for piece in found for body in piece] == [body for body, _ in records]
    if any(packed for _, packed in records):
        assert all(len(piece) == 1 or sum(map(len, piece)) <= most for piece in found)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda packed: packed[:-1], reasons.BAD_COMPRESSION),
        (lambda packed: packed + b"\0", reasons.BAD_COMPRESSION),
        (lambda packed: b"", reasons.BAD_COMPRESSION),
        (lambda packed: b"\0" + packed, reasons.BAD_COMPRESSION),
    ],
    ids=["cut off", "followed by more", "nothing", "no zlib"],
)
def test_a_damaged_stream_is_not_unfolded(damage: Callable[[bytes], bytes], reason: str) -> None:
    with pytest.raises(NotUnfolded, match=reason):
        unfolded(damage(zlib.compress(b"body" * 50)))
