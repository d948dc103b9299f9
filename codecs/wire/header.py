"""How a record names its schema on the wire, read for a whole Arrow batch at once.

Confluent's formats (https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html):
0x00 and a 4-byte big-endian schema id, or 0x01 and a 16-byte GUID, either at the start of the value or in the
record header `__value_schema_id`. Protobuf adds which message of the schema it is: see message_index.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.codecs import reasons
from distributary.codecs.types.masks import Mask
from distributary.codecs.wire.binary_rows import (
    BinaryRows,
    Longs,
)
from distributary.codecs.wire.message_index import read_message_indexes
from distributary.registry.base import Guid, SchemaRef

NO_USABLE_HEADER = -1

TOMBSTONE = -2

Kind = tuple[SchemaRef, tuple[int, ...]]

# How the parser numbers a row's error; 0 is none.
_REASONS = (
    "",
    reasons.NO_HEADER,
    reasons.BAD_MAGIC,
    reasons.GLUE_HEADER,
    reasons.TRUNCATED_HEADER,
    reasons.BAD_MESSAGE_INDEX,
)

_NO_HEADER, _BAD_MAGIC, _GLUE, _TRUNCATED, _BAD_INDEX = range(1, 6)

# Ids are unsigned 32-bit numbers; a batch's GUIDs are numbered from here on.
_IDS = 2**32


class Folded(Protocol):
    """The bodies of a batch some of which are compressed, so that they begin nowhere in their value."""

    def of(self, rows: npt.NDArray[np.integer]) -> pa.BinaryArray:
        """The bodies of these rows."""
        ...

    def portions(self, rows: Longs) -> Iterator[Longs]:
        """The rows in their order, no more at once than have bodies of bounded size."""
        ...


@dataclass(frozen=True, slots=True)
class Frames:
    """Where each value of a batch keeps what.

    kind    int32, per value: an index into `kinds`, or -1 (no usable header; see `errors`), or -2 (null: a tombstone)
    kinds   the distinct (schema reference, record path) pairs of the batch
    start   int64, per value: where the body begins, from the value's own first byte
    errors  (row, reason, detail) of every value without a usable header
    folded  the bodies, where some are compressed; None where none is
    """

    kind: npt.NDArray[np.int32]
    kinds: Sequence[Kind]
    start: npt.NDArray[np.int64]
    errors: Sequence[tuple[int, str, str]]
    folded: Folded | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """What one source of headers (the values, or the record headers) says; `size` is the header's own length."""

    kind: npt.NDArray[np.int32]
    kinds: list[Kind]
    size: Longs
    code: npt.NDArray[np.int8]


def split(values: pa.Array, header_ids: pa.Array | None, *, message_index: bool) -> Frames:
    """What each value of a batch says of its schema, in Confluent's wire format.

    values         Kafka's values, as binary
    header_ids     each record's header `__value_schema_id`, null where there was none; None where none was read. It wins
                   over the value's own first bytes, and then the body is the whole value
    message_index  whether Protobuf's message index follows the id

    >>> values = pa.array([bytes([0, 0, 0, 0, 7]) + b"body", None, b""], pa.binary())
    >>> frames = distributary.split_headers(values, None, message_index=False)
    >>> frames.kinds, frames.kind.tolist(), frames.start.tolist(), [reason for _, reason, _ in frames.errors]
    ([(7, ())], [0, -2, -1], [5, 0, 0], ['no_header'])
    """
    view = BinaryRows.of(values)
    if header_ids is None or header_ids.null_count == len(header_ids):
        found = _find(view, view.valid, message_index)
        return _frames(view.valid, found, found.size, _errors(found.code))
    borne = BinaryRows.of(header_ids)
    inside = _find(view, view.valid & ~borne.valid, message_index)
    beside = _find(borne, view.valid & borne.valid, message_index)
    errors = _errors(inside.code) + _errors(beside.code, " (in the record header __value_schema_id)")
    return _frames(view.valid, _merged(inside, beside), np.where(borne.valid, 0, inside.size), errors)


def bodies(values: pa.Array, frames: Frames, rows: npt.NDArray[np.integer] | None = None) -> pa.BinaryArray:
    """The bodies of these rows, which ascend (None: of all rows), as one array without nulls.

    Copies each body once, and nothing where all rows are asked for and none has its header before its body.
    """
    if frames.folded is not None:
        return frames.folded.of(np.arange(len(values)) if rows is None else rows)
    plain = pa.types.is_binary(values.type) and values.null_count == 0
    if plain and (rows is None or len(rows) == len(values)) and not frames.start.any():
        return values
    return BinaryRows.of(values).tails(frames.start, rows)


def portions(frames: Frames, rows: Longs) -> Iterator[Longs]:
    """These rows, no more at once than have bodies of bounded size: all of them, unless some are compressed."""
    if frames.folded is None:
        yield rows
    else:
        yield from frames.folded.portions(rows)


def _find(view: BinaryRows, wanted: Mask, message_index: bool) -> _Found:
    words = view.leading_words()
    magic = (words >> np.uint64(56)).astype(np.uint8)
    size = np.where(magic == 1, 17, 5)
    code = _codes(magic, view.end - view.begin, size)
    code[~wanted] = 0
    good = wanted & (code == 0)
    ref = ((words >> np.uint64(24)) & np.uint64(0xFFFFFFFF)).astype(np.int64)
    guids = _number_guids(view, np.flatnonzero(good & (magic == 1)), ref)
    paths: Sequence[tuple[int, ...]] = [()]
    if message_index:
        found = read_message_indexes(view, view.begin + size, good)
        code[found.truncated], code[found.invalid] = _TRUNCATED, _BAD_INDEX
        good &= code == 0
        paths, size = found.paths, size + found.size
        ref = ref * len(paths) + found.path
    kind, kept = distinct(ref, good)
    kinds: list[Kind] = [
        (guids[n - _IDS] if n >= _IDS else n, paths[path])
        for n, path in (divmod(d, len(paths)) for d in kept)
    ]
    return _Found(kind, kinds, size, code)


def _codes(magic: npt.NDArray[np.uint8], length: Longs, size: Longs) -> npt.NDArray[np.int8]:
    code = np.zeros(len(length), np.int8)
    code[length < size] = _TRUNCATED
    code[magic > 1] = _BAD_MAGIC
    code[magic == 3] = _GLUE
    code[length == 0] = _NO_HEADER
    return code


def _number_guids(view: BinaryRows, rows: Longs, ref: Longs) -> list[Guid]:
    """The distinct GUIDs of these rows; their numbers, counted from where ids end, go into `ref`."""
    if not len(rows):
        return []
    numbers, found = guids(view, rows, 1)
    ref[rows] = numbers + _IDS
    return found


def guids(view: BinaryRows, rows: Longs, at: int) -> tuple[Longs, list[Guid]]:
    """Which of the distinct GUIDs each of these rows, at least one, has from this byte on, and these."""
    packed = np.ascontiguousarray(view.data[view.begin[rows][:, None] + np.arange(at, at + 16)])
    encoded = pa.Array.from_buffers(
        pa.binary(16), len(rows), [None, pa.py_buffer(packed)]
    ).dictionary_encode()
    found = [_guid(guid.hex()) for guid in encoded.dictionary.to_pylist()]
    return encoded.indices.to_numpy().astype(np.int64), found


def _guid(digits: str) -> Guid:
    return Guid(f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}")


def distinct(key: Longs, good: Mask) -> tuple[npt.NDArray[np.int32], list[int]]:
    """Each good row's key as an index into the list of distinct keys; -1 for the others."""
    kind = np.full(len(key), NO_USABLE_HEADER, np.int32)
    encoded = pa.array(key[good]).dictionary_encode()
    kind[good] = encoded.indices.to_numpy()
    return kind, encoded.dictionary.to_pylist()


def _merged(first: _Found, second: _Found) -> _Found:
    """Both together, no kind twice; a row has a kind in at most one of them."""
    index = {kind: place for place, kind in enumerate(first.kinds)}
    places = [index.setdefault(kind, len(index)) for kind in second.kinds]
    moved = np.array([*places, NO_USABLE_HEADER], np.int32)[second.kind]
    return replace(first, kind=np.maximum(first.kind, moved), kinds=list(index))


def _frames(valid: Mask, found: _Found, start: Longs, errors: list[tuple[int, str, str]]) -> Frames:
    kind = found.kind
    kind[~valid] = TOMBSTONE
    return Frames(kind, found.kinds, np.where(kind >= 0, start, 0), sorted(errors))


def _errors(code: npt.NDArray[np.int8], where: str = "") -> list[tuple[int, str, str]]:
    rows = np.flatnonzero(code)
    triples = [(reason, reasons.SENTENCES[reason] + where) if reason else ("", "") for reason in _REASONS]
    return [(row, *triples[number]) for row, number in zip(rows.tolist(), code[rows].tolist(), strict=True)]
