"""Columns that a table is in partitions by: which may be, and how their values are written in its log.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#partition-value-serialization
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, TypeAlias
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from distributary.codecs.types.spark_struct import type_name
from distributary.ingest.columns.layout import source_of

PartitionValues: TypeAlias = tuple[tuple[str, str | None], ...]
"""Of a file the value of each column that its table is in partitions by, as the log writes it; none of a table that is whole."""

# What Hive's folders, which others make, call the partition without a value.
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"

# As long as the name of a folder may be, which others make of a column's name and its value, with escapes.
_LONGEST_FOLDER = 255

_EPOCH = date(1970, 1, 1)

_FIRST_DAY, _LAST_DAY = ((day - _EPOCH).days for day in (date.min, date.max))

TYPES = "strings, integers, booleans and dates"
"""What may be, as users read it."""


def takes(dtype: pa.DataType) -> bool:
    """Whether a table can be in partitions by a column of this type."""
    return bool(
        kinds.is_string(dtype)
        or kinds.is_signed_integer(dtype)
        or kinds.is_boolean(dtype)
        or kinds.is_date32(dtype)
    )


def column_of(name: str, payload: pa.Schema, day: str | None) -> str | None:
    """The column that a field, or `day`, which is a column by its own name, is in a table with these of the payload; None where it has none."""
    if name == day:
        return day
    return next((str(column.name) for column in payload if source_of(column) == name), None)


def partition_columns(names: Sequence[str], payload: pa.Schema, day: str | None) -> tuple[str, ...]:
    """The columns of several; those that the table does not have are left out."""
    found = (column_of(name, payload, day) for name in names)
    return tuple(column for column in found if column is not None)


# A moment's text that says in which zone it is, and bytes as some write them.
_ZONE, _BYTES = re.compile(r":.*(?:[Zz]|[+-]\d\d(?::?\d\d)?)$"), re.compile(r"(?:\\u00[0-9A-Fa-f]{2})+")


def all_partition_columns(names: Sequence[str], payload: pa.Schema, day: str | None) -> tuple[str, ...]:
    """The same; none at all where the table does not have all of them, as one that is in partitions by some is never in them by the others."""
    found = partition_columns(names, payload, day)
    return found if len(found) == len(names) else ()


def why_refused(dtype: pa.DataType) -> str:
    """In words why no table is in partitions by a column of this type; empty where one may be."""
    if takes(dtype):
        return ""
    what = "nested" if kinds.is_nested(dtype) else f"of type {type_name(dtype)}"
    return f"is {what}, and tables are partitioned by {TYPES} alone"


def texts(values: pa.Array) -> list[str | None]:
    """Values as a log writes them; a text without a character is no value, as it is to all who read it there."""
    if kinds.is_string(values.type):
        return [text or None for text in values.to_pylist()]
    if kinds.is_date32(values.type):
        return [None if day is None else _day(day) for day in values.cast(pa.int32()).to_pylist()]
    return [_plain(value) for value in values.to_pylist()]


def partition_value(text: str | None, dtype: pa.DataType) -> pa.Scalar:
    """What a log's writing of a value stands for. Raises ArrowInvalid where it is none of this type.

    https://github.com/delta-io/delta/blob/master/PROTOCOL.md#partition-value-serialization
    """
    if text and kinds.is_binary(dtype) and _BYTES.fullmatch(text):
        return pa.scalar(bytes.fromhex(text.replace("\\u00", "")), dtype)
    if text and kinds.is_timestamp(dtype) and dtype.tz is not None and not _ZONE.search(text):
        # Some write none, and mean UTC.
        return pa.scalar(text).cast(pa.timestamp(dtype.unit)).cast(dtype)
    return pa.scalar(text or None, pa.string()).cast(dtype)


def _plain(value: Any) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _day(days: int) -> str:
    return (_EPOCH + timedelta(days=days)).isoformat()


def unwritable(column: str, values: pa.Array) -> npt.NDArray[np.bool_]:
    """Which of a column's values no partition can have: others would take them for another, or could make no folder of them."""
    if kinds.is_date32(values.type):
        days = values.cast(pa.int32())
        return _true(pc.or_(pc.less(days, _FIRST_DAY), pc.greater(days, _LAST_DAY)))
    none = np.zeros(len(values), np.bool_)
    if not kinds.is_string(values.type) or values.null_count == len(values):
        return none
    room = _LONGEST_FOLDER - len(quote(column, safe="")) - 1
    encoded = values.dictionary_encode()
    found = [text == _NO_VALUE or _is_longer(text, room) for text in encoded.dictionary.to_pylist()]
    if not any(found):
        return none
    return _true(pa.array([*found, False]).take(encoded.indices.fill_null(len(found))))


def is_empty(values: pa.StringArray) -> npt.NDArray[np.bool_]:
    """Which texts have no character."""
    return _true(pc.equal(values, ""))


def _is_longer(text: str, room: int) -> bool:
    # An escape of a byte takes three.
    return len(text) * 12 > room and len(quote(text, safe="")) > room


def _true(flags: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = flags.fill_null(False).to_numpy(zero_copy_only=False)
    return found
