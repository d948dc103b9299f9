"""A checksum of rows that does not care about their order, only about what is in each.

Each row becomes one 64-bit number made of all its columns, so that two values that change places between
rows are noticed; the numbers of a group's rows are added modulo 2^64. A column that is null counts like one
that is missing, inside structs too: a table that grew later has the same checksum for its old rows. Null
differs from zero, empty and absent elements; the order of a list counts, that of a map does not; the
width of a number does not count (int32 and int64, float and double).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Hashes = npt.NDArray[np.uint64]

MASK = (1 << 64) - 1

SOURCE_NAME = b"distributary.source"

# splitmix64: https://prng.di.unimi.it/splitmix64.c
GOLDEN = np.uint64(0x9E3779B97F4A7C15)

FIRST_FACTOR, SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@dataclass(slots=True)
class Sum:
    """How many rows a group has and their checksum."""

    rows: int = 0
    checksum: int = 0

    def add(self, rows: int, checksum: int) -> None:
        """Counts more rows in."""
        self.rows += rows
        self.checksum = (self.checksum + checksum) & MASK


@dataclass(slots=True)
class GroupSums:
    """Rows and checksums of groups, filled batch by batch; a group is the values of the columns it is keyed by."""

    groups: dict[tuple[Any, ...], Sum] = field(default_factory=dict)

    def add(self, keys: Sequence[pa.Array], hashes: Hashes) -> None:
        """Adds each row's hash to the group that the row's keys name."""
        if not len(hashes):
            return
        codes, values = _codes(keys)
        order = np.argsort(codes, kind="stable")
        ordered = codes[order]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        sums = np.add.reduceat(hashes[order], starts)
        counts = np.diff(np.r_[starts, len(codes)])
        for start, rows, checksum in zip(starts.tolist(), counts.tolist(), sums.tolist(), strict=True):
            self.groups.setdefault(values(int(ordered[start])), Sum()).add(rows, checksum)


def row_hashes(rows: pa.RecordBatch, leave_out: frozenset[str] = frozenset()) -> Hashes:
    """One number a row, of all columns but those left out.

    A column counts under its payload's name, kept in the field's metadata where the table had to rename it.
    """
    total = np.zeros(rows.num_rows, np.uint64)
    for column, about in zip(rows.columns, rows.schema, strict=True):
        if about.name not in leave_out:
            total += _named(_hashes(column, about), about)
    return _mixed(total + _salt("row"))


def _named(hashes: Hashes, about: pa.Field) -> Hashes:
    """The hashes of a column tied to its name; those of nulls stay zero, as if the column were not there."""
    name = (about.metadata or {}).get(SOURCE_NAME, about.name.encode())
    return np.where(hashes == 0, hashes, _mixed(hashes ^ _salt("column", name)))


def _hashes(array: pa.Array, about: pa.Field) -> Hashes:
    """One number a value, zero for a null."""
    if not len(array):
        return np.zeros(0, np.uint64)
    found = _values_hashed(array, about)
    if array.null_count:
        found = np.where(array.is_null().to_numpy(zero_copy_only=False), np.uint64(0), found)
    return found


def _values_hashed(array: pa.Array, about: pa.Field) -> Hashes:
    """One number a value, any for a null."""
    kind = array.type
    for fits, hashed in _BY_TYPE:
        if fits(kind):
            return hashed(array, about)
    # What is left (decimals, times of day, intervals) is rare: its text says it all.
    return _texts(array.cast(pa.string()), about)


def _integers(array: pa.Array, about: pa.Field) -> Hashes:
    numbers = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
    wide = numbers if numbers.dtype == np.uint64 else numbers.astype(np.int64).view(np.uint64)
    return _mixed(wide ^ _salt("integer"))


def _booleans(array: pa.Array, about: pa.Field) -> Hashes:
    truths = pc.fill_null(array, False).to_numpy(zero_copy_only=False)
    return _mixed(truths.astype(np.uint64) ^ _salt("boolean"))


def _floats(array: pa.Array, about: pa.Field) -> Hashes:
    numbers = pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False).astype(np.float64)
    numbers[np.isnan(numbers)] = np.nan  # one of many bit patterns
    return _mixed(numbers.view(np.uint64) ^ _salt("float"))


def _timestamps(array: pa.Array, about: pa.Field) -> Hashes:
    micros = array.cast(pa.timestamp("us", array.type.tz), safe=False).cast(pa.int64())
    return _mixed(_integers(micros, about) ^ _salt("timestamp"))


def _dates(array: pa.Array, about: pa.Field) -> Hashes:
    return _mixed(_integers(array.cast(pa.date32()).cast(pa.int32()), about) ^ _salt("date"))


def _durations(array: pa.Array, about: pa.Field) -> Hashes:
    """Microseconds as a whole number, which is how tables keep a duration."""
    return _integers(array.cast(pa.duration("us"), safe=False).cast(pa.int64()), about)


def _texts(array: pa.Array, about: pa.Field) -> Hashes:
    return _bytes_hashed(array.cast(pa.large_string()).cast(pa.large_binary()), "text")


def _binaries(array: pa.Array, about: pa.Field) -> Hashes:
    return _bytes_hashed(array.cast(pa.large_binary()), "binary")


def _bytes_hashed(array: pa.LargeBinaryArray, kind: str) -> Hashes:
    """Each distinct value once: most columns of text hold few."""
    encoded = array.dictionary_encode()
    if not len(encoded.dictionary):
        return np.zeros(len(array), np.uint64)
    distinct = _distinct_bytes_hashed(encoded.dictionary, kind)
    hashes: Hashes = distinct[pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)]
    return hashes


def _distinct_bytes_hashed(array: pa.LargeBinaryArray, kind: str) -> Hashes:
    """Each byte times a random factor of its place, summed, with the length: a multilinear hash."""
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    data = (
        np.frombuffer(array.buffers()[2] or b"", np.uint8)[first:last]
        if last > first
        else np.zeros(0, np.uint8)
    )
    starts, lengths = offsets[:-1] - first, np.diff(offsets)
    places = np.arange(last - first, dtype=np.int64) - np.repeat(starts, lengths)
    factors = _place_factors(int(lengths.max()))
    sums = _segment_sums((data.astype(np.uint64) + np.uint64(1)) * factors[places], offsets - first)
    return _mixed(sums ^ _mixed(lengths.astype(np.uint64) ^ _salt(kind)))


def _structs(array: pa.StructArray, about: pa.Field) -> Hashes:
    total = np.zeros(len(array), np.uint64)
    for number, inner in enumerate(array.type):
        total += _named(_hashes(array.field(number), inner), inner)
    return _mixed(total + _salt("struct"))


def _lists(array: pa.ListArray, about: pa.Field) -> Hashes:
    offsets = array.offsets.to_numpy().astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    elements = _hashes(array.values.slice(first, last - first), array.type.value_field)
    lengths = np.diff(offsets)
    places = np.arange(last - first, dtype=np.int64) - np.repeat(offsets[:-1] - first, lengths)
    placed = _mixed(elements ^ _mixed(places.astype(np.uint64) + _salt("place")))
    return _mixed(_segment_sums(placed, offsets - first) ^ _mixed(lengths.astype(np.uint64) ^ _salt("list")))


def _maps(array: pa.MapArray, about: pa.Field) -> Hashes:
    offsets = array.offsets.to_numpy().astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    keys = _hashes(array.keys.slice(first, last - first), array.type.key_field)
    items = _hashes(array.items.slice(first, last - first), array.type.item_field)
    entries = _mixed(_mixed(keys ^ _salt("key")) + items)
    lengths = np.diff(offsets).astype(np.uint64)
    return _mixed(_segment_sums(entries, offsets - first) ^ _mixed(lengths ^ _salt("map")))


def _plain_lists(array: pa.Array, about: pa.Field) -> Hashes:
    """The rarer ways to store a list, as an ordinary one."""
    return _hashes(array.cast(pa.list_(array.type.value_field)), about)


def _decoded(array: pa.DictionaryArray, about: pa.Field) -> Hashes:
    return _hashes(array.dictionary_decode(), about)


def _nothing(array: pa.NullArray, about: pa.Field) -> Hashes:
    return np.zeros(len(array), np.uint64)


_Hashed = Callable[[Any, pa.Field], Hashes]

_BY_TYPE: tuple[tuple[Callable[[pa.DataType], bool], _Hashed], ...] = (
    (pa.types.is_integer, _integers),
    (pa.types.is_boolean, _booleans),
    (pa.types.is_floating, _floats),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), _texts),
    (pa.types.is_string_view, _texts),
    (lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind), _binaries),
    (lambda kind: pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind), _binaries),
    (pa.types.is_timestamp, _timestamps),
    (pa.types.is_date, _dates),
    (pa.types.is_duration, _durations),
    (pa.types.is_struct, _structs),
    (pa.types.is_map, _maps),
    (lambda kind: pa.types.is_list(kind) or pa.types.is_large_list(kind), _lists),
    (lambda kind: pa.types.is_fixed_size_list(kind) or pa.types.is_list_view(kind), _plain_lists),
    (pa.types.is_dictionary, _decoded),
    (pa.types.is_null, _nothing),
)


def _segment_sums(values: Hashes, offsets: npt.NDArray[np.int64]) -> Hashes:
    """The sum, modulo 2^64, of each stretch of `values` between two neighbouring offsets."""
    running = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(values, out=running[1:])
    return running[offsets[1:]] - running[offsets[:-1]]


def _mixed(numbers: Hashes) -> Hashes:
    """Each number scattered over all 64 bits, no two onto one."""
    mixed = numbers + GOLDEN
    mixed ^= mixed >> np.uint64(30)
    mixed *= FIRST_FACTOR
    mixed ^= mixed >> np.uint64(27)
    mixed *= SECOND_FACTOR
    mixed ^= mixed >> np.uint64(31)
    return mixed


@lru_cache(maxsize=4096)
def _salt(kind: str, name: bytes = b"") -> np.uint64:
    return np.uint64(int.from_bytes(blake2b(name, digest_size=8, person=kind.encode()).digest(), "big"))


@lru_cache(maxsize=64)
def _place_factors_to(power: int) -> Hashes:
    return _mixed(np.arange(1 << power, dtype=np.uint64) + _salt("byte")) | np.uint64(1)


def _place_factors(length: int) -> Hashes:
    return _place_factors_to(max(int(length - 1).bit_length(), 6) if length else 6)


def _codes(keys: Sequence[pa.Array]) -> tuple[npt.NDArray[np.int64], Callable[[int], tuple[Any, ...]]]:
    """One number a row that tells groups apart, and what turns it back into the group's values."""
    codes = np.zeros(len(keys[0]), np.int64)
    dictionaries = []
    for key in keys:
        encoded = key.dictionary_encode(null_encoding="encode")
        codes = codes * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy(zero_copy_only=False)
        dictionaries.append(encoded.dictionary)

    def values(code: int) -> tuple[Any, ...]:
        found = []
        for dictionary in reversed(dictionaries):
            code, place = divmod(code, max(len(dictionary), 1))
            found.append(dictionary[place].as_py())
        return tuple(reversed(found))

    return codes, values
