"""Rows as JSON text, whole columns at a time, by the rules of codecs/types/json_value.py: the JSON codec reads back what was written.

Bytes are base64, dates and times ISO 8601, NaN and infinities texts, maps objects whose keys are texts. What is null in an object
is left out. What a table's timestamp cannot hold of a time, beyond microseconds, is cut off.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from distributary.codecs.types.fit import is_list
from distributary.codecs.types.nanoseconds import in_microseconds
from distributary.codecs.types.walk import around, held, rebuilt
from distributary.codecs.wire.binary_rows import BinaryRows

_BINARY = pa.binary()


def _bytes(text: bytes) -> pa.Scalar:
    return pa.scalar(text, _BINARY)


_NOTHING, _QUOTE, _COMMA, _NULL = _bytes(b""), _bytes(b'"'), _bytes(b","), _bytes(b"null")

# What RFC 8259, section 7, wants escaped in a string.
_SPECIAL = r'["\\\x00-\x1f]'

_LONGEST = 2**63 - 1

# How many there are in a unit of time; what is finer has been cut off before.
_MICROSECONDS = {"s": 10**6, "ms": 10**3, "us": 1}

_ESCAPED = {bytes([byte]): b"\\u%04x" % byte for byte in (*range(32), *b'"\\')}


def objects(rows: pa.RecordBatch) -> pa.BinaryArray:
    """Each row as an object; a time that no number of microseconds says is the number that it is."""
    return _object(rows.schema.names, rows.columns, rows.num_rows)


def _object(names: Sequence[str], columns: Sequence[pa.Array], count: int) -> pa.Array:
    if not names:
        return pa.repeat(_bytes(b"{}"), count)
    members = [
        pc.binary_join_element_wise(_member(name), texts(column), _NOTHING)
        for name, column in zip(names, columns, strict=True)
    ]
    # Each with a comma before it: where all are null, Arrow's way of passing them over leaves the row out.
    joined = pc.binary_join_element_wise(*members, _NOTHING, null_handling="replace", null_replacement="")
    view = BinaryRows.of(joined)
    return _around(b"{", view.tails((view.end > view.begin).astype(np.int64), None), b"}")


def _member(name: str) -> pa.Scalar:
    return _bytes(b',"' + _escaped(name.encode()) + b'":')


def texts(values: pa.Array) -> pa.Array:
    """Each value's text as bytes, null where there is none."""
    for is_one, written in _NESTED:
        if is_one(values.type):
            return written(values)
    return _leaves(values)


def _structs(values: pa.StructArray) -> pa.Array:
    names = [field.name for field in values.type]
    return _where_valid(values, _object(names, held(values), len(values)))


def _lists(values: pa.Array) -> pa.Array:
    (elements,) = held(values)
    inside = pc.fill_null(texts(elements), _NULL)
    listed = around(values, rebuilt(values.type, [pa.field("element", _BINARY)]), [inside])
    if kinds.is_fixed_size_list(listed.type):
        listed = listed.cast(pa.list_(_BINARY))
    return _around(b"[", pc.binary_join(listed, _COMMA), b"]")


def _maps(values: pa.MapArray) -> pa.Array:
    keys, items = held(values)
    # A type does not say it: of the keys of one some may be numbers, and others the text of what is none.
    names = texts(keys)
    names = pc.if_else(pc.starts_with(names, b'"'), names, _around(b'"', names, b'"'))
    pairs = pc.binary_join_element_wise(names, pc.fill_null(texts(items), _NULL), _bytes(b":"))
    edges = values.offsets.to_numpy()
    listed = pa.ListArray.from_arrays(pa.array(edges - edges[0], pa.int32()), pairs)
    return _where_valid(values, _around(b"{", pc.binary_join(listed, _COMMA), b"}"))


def _dictionaries(values: pa.DictionaryArray) -> pa.Array:
    return texts(values.dictionary_decode())


def _extensions(values: pa.ExtensionArray) -> pa.Array:
    return texts(values.storage)


def _is_extension(of: pa.DataType) -> bool:
    return isinstance(of, pa.BaseExtensionType)


def _leaves(values: pa.Array) -> pa.Array:
    for is_one, written in _LEAVES:
        if is_one(values.type):
            return written(values)
    raise TypeError(f"{values.type} has no text in JSON")


def _as_text(values: pa.Array) -> pa.Array:
    return values.cast(pa.string()).cast(_BINARY)


def _floats(values: pa.Array) -> pa.Array:
    wide = values.cast(pa.float32()) if kinds.is_float16(values.type) else values
    # A whole number would be held against what the float is exactly, and the shortest text is not that.
    texts = pc.replace_substring_regex(wide.cast(pa.string()), r"^(-?[0-9]+)$", r"\1.0").cast(_BINARY)
    if pc.all(pc.is_finite(wide), min_count=0).as_py() is not False:
        return texts
    zero = pa.scalar(0, wide.type)
    infinite = pc.if_else(pc.greater(wide, zero), _bytes(b'"Infinity"'), _bytes(b'"-Infinity"'))
    other = pc.if_else(pc.is_nan(wide), _bytes(b'"NaN"'), infinite)
    return pc.if_else(pc.is_finite(wide), texts, other)


def _strings(values: pa.Array) -> pa.Array:
    # As bytes: one that is no UTF-8 is its own record's matter, and who decodes that refuses it.
    return _quoted(values.cast(_BINARY))


def _quoted(data: pa.Array) -> pa.Array:
    special = pc.fill_null(pc.match_substring_regex(data, _SPECIAL), False)
    places = np.flatnonzero(special.to_numpy(zero_copy_only=False))
    if len(places):
        some = [_escaped(value) for value in data.take(pa.array(places)).to_pylist()]
        data = pc.replace_with_mask(data, special, pa.array(some, _BINARY))
    return _around(b'"', data, b'"')


def _escaped(value: bytes) -> bytes:
    return _SPECIAL_BYTES.sub(lambda found: _ESCAPED[found[0]], value)


_SPECIAL_BYTES = re.compile(_SPECIAL.encode())


def _base64(values: pa.Array) -> pa.Array:
    texts = [None if value is None else b'"' + b64encode(value) + b'"' for value in values.to_pylist()]
    return pa.array(texts, _BINARY)


def _quoted_text(values: pa.Array) -> pa.Array:
    return _around(b'"', _as_text(values), b'"')


def _dates(values: pa.Array) -> pa.Array:
    days = values.cast(pa.date32())
    return _or_number(_around(b'"', _printed(days), b'"'), days.view(pa.int32()))


def _timestamps(values: pa.Array) -> pa.Array:
    # Without its zone, which says nothing of the number: Arrow would look it up in files that a machine may lack.
    ticks = values.view(pa.int64())
    local = ticks.view(pa.timestamp(values.type.unit))
    told = in_microseconds(local) if values.type.unit == "ns" else _without_beyond(local)
    text = pc.replace_substring(_printed(told.cast(pa.timestamp("us"))), b" ", b"T")
    return _or_number(_around(b'"', text, b'Z"' if values.type.tz else b'"'), ticks)


def _printed(values: pa.Array) -> pa.Array:
    """Days and times as Arrow prints them, null where that says that it cannot, as of the last number of microseconds."""
    texts = values.cast(pa.string()).cast(_BINARY)
    return pc.if_else(pc.starts_with(texts, b"<"), pa.scalar(None, _BINARY), texts)


def _or_number(texts: pa.Array, numbers: pa.Array) -> pa.Array:
    return texts if texts.null_count == numbers.null_count else pc.coalesce(texts, _as_text(numbers))


def _without_beyond(times: pa.Array) -> pa.Array:
    """The times without those that no number of microseconds says, such as the last one that a number of milliseconds can say."""
    most, ticks = _LONGEST // _MICROSECONDS[times.type.unit], times.view(pa.int64())
    beyond = pc.or_(pc.greater(ticks, most), pc.less(ticks, -most))
    return pc.if_else(beyond, pa.scalar(None, times.type), times) if pc.any(beyond).as_py() else times


def _durations(values: pa.Array) -> pa.Array:
    return _as_text(values.view(pa.int64()))


def _nulls(values: pa.Array) -> pa.Array:
    return pa.nulls(len(values), _BINARY)


def _around(begin: bytes, inside: pa.Array, end: bytes) -> pa.Array:
    return pc.binary_join_element_wise(_bytes(begin), inside, _bytes(end), _NOTHING)


def _where_valid(values: pa.Array, texts: pa.Array) -> pa.Array:
    return texts if not values.null_count else pc.if_else(values.is_valid(), texts, pa.scalar(None, _BINARY))


def _is_string(of: pa.DataType) -> bool:
    return bool(kinds.is_string(of) or kinds.is_large_string(of) or kinds.is_string_view(of))


def _is_bytes(of: pa.DataType) -> bool:
    fixed = kinds.is_fixed_size_binary(of) and not kinds.is_decimal(of)
    return bool(kinds.is_binary(of) or kinds.is_large_binary(of) or kinds.is_binary_view(of) or fixed)


_Texts = Callable[[pa.Array], pa.Array]

_NESTED: Sequence[tuple[Callable[[pa.DataType], bool], _Texts]] = (
    (_is_extension, _extensions),
    (kinds.is_dictionary, _dictionaries),
    (kinds.is_struct, _structs),
    (is_list, _lists),
    (kinds.is_map, _maps),
)

_LEAVES: Sequence[tuple[Callable[[pa.DataType], bool], _Texts]] = (
    (_is_string, _strings),
    (kinds.is_integer, _as_text),
    (kinds.is_floating, _floats),
    (kinds.is_timestamp, _timestamps),
    (kinds.is_decimal, _as_text),
    (kinds.is_boolean, _as_text),
    (kinds.is_date, _dates),
    (_is_bytes, _base64),
    (kinds.is_time, _quoted_text),
    (kinds.is_duration, _durations),
    (kinds.is_null, _nulls),
)
