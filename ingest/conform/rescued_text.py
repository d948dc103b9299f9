"""Values that no column takes as JSON text, without losing anything that their type could hold, and such texts put together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from distributary.codecs.types.fit import is_list
from distributary.codecs.types.json_value import compact, encoded, iso_date, iso_time, number
from distributary.ingest.columns.layout import source_of

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def json_text(values: Mapping[str, Any]) -> str:
    """An object of values made by `json_values`, as compact JSON."""
    return compact(values)


def json_values(values: pa.Array) -> list[Any]:
    """Arrow values as what JSON has for them; null as None.

    Bytes are base64, decimals texts, dates and timestamps ISO 8601, NaN and infinities texts, maps objects whose keys
    are texts, fields called as in the payload.
    """
    if kinds.is_dictionary(values.type):
        values = values.dictionary_decode()
    if kinds.is_struct(values.type):
        return _structs(values)
    if is_list(values.type):
        return _lists(values)
    if kinds.is_map(values.type):
        return _maps(values)
    return _leaves(values)


def key_text(value: Any) -> str:
    """A map's key, as `json_values` gives it, as a text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _structs(values: pa.StructArray) -> list[Any]:
    names = [source_of(field) for field in values.type]
    children = [json_values(values.field(place)) for place in range(values.type.num_fields)]
    rows: Iterable[Any] = zip(*children, strict=True) if children else ((),) * len(values)
    valid = values.is_valid().to_pylist()
    return [
        dict(zip(names, row, strict=True)) if there else None for there, row in zip(valid, rows, strict=True)
    ]


def _lists(values: pa.Array) -> list[Any]:
    # One value at a time: these are the few that did not fit.
    return [json_values(value.values) if value.is_valid else None for value in values]


def _maps(values: pa.MapArray) -> list[Any]:
    return [_entries(value.values) if value.is_valid else None for value in values]


def _entries(entries: pa.StructArray) -> dict[str, Any]:
    keys, items = json_values(entries.field(0)), json_values(entries.field(1))
    return {key_text(key): item for key, item in zip(keys, items, strict=True)}


def _leaves(values: pa.Array) -> list[Any]:
    of = values.type
    if kinds.is_date32(of):
        return [_iso_date(days) for days in values.view(pa.int32()).to_pylist()]
    if kinds.is_timestamp(of):
        return [_iso_time(ticks, of) for ticks in values.view(pa.int64()).to_pylist()]
    return [_leaf(value) for value in values.to_pylist()]


def _leaf(value: Any) -> Any:
    if isinstance(value, bytes):
        return encoded(value)
    if isinstance(value, float):
        return number(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _iso_date(days: int | None) -> str | int | None:
    if days is None:
        return None
    try:
        return iso_date(days)
    except OverflowError:
        return days


def _iso_time(ticks: int | None, of: pa.TimestampType) -> str | int | None:
    if ticks is None:
        return None
    seconds, rest = divmod(ticks, _PER_SECOND[of.unit])
    digits = len(str(_PER_SECOND[of.unit])) - 1
    try:
        return iso_time(seconds, f"{rest:0{digits}d}".rstrip("0") if rest else "", zoned=bool(of.tz))
    except OverflowError:
        return ticks


def joined(first: pa.StringArray | None, second: pa.StringArray | None) -> pa.StringArray | None:
    """Per row the members of both objects, the first one's first; null where both are, None where all would be."""
    present = [texts for texts in (first, second) if texts is not None and texts.null_count < len(texts)]
    if len(present) < 2:
        return present[0] if present else None
    head, tail = pc.utf8_slice_codeunits(present[0], 0, -1), pc.utf8_slice_codeunits(present[1], 1)
    return pc.coalesce(pc.binary_join_element_wise(head, tail, ","), *present)
