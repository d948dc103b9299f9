"""Maps for the native reader, which knows none: it reads them as objects of the keys that have been met so far."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from distributary.codecs.json.fitting import asked
from distributary.codecs.types.masks import Mask
from distributary.codecs.types.walk import children, rebuilt

# So many different keys in all maps of a schema: a column is made for each, in every row.
MOST_KEYS = 128


def keys_of(of: pa.DataType, found: pa.DataType) -> frozenset[str]:
    """The keys of all maps in a type, where the native reader gave `found` for it."""
    return frozenset(_keys(of, found))


def with_keys(of: pa.DataType, before: pa.DataType, found: pa.DataType) -> pa.DataType:
    """What to ask for instead of `before`, now that it gave `found`: all keys of both."""
    if kinds.is_map(of):
        names = sorted({one.name for one in (*before, *found)})
        return pa.struct([pa.field(name, asked(of.item_type)) for name in names])
    three = zip(children(of), children(before), children(found), strict=False)
    inside = [pa.field(one.name, with_keys(one.type, old.type, new.type)) for one, old, new in three]
    return rebuilt(of, inside) if inside else before


def may_be_null(payloads: pa.BinaryArray, keys: Iterable[str]) -> Mask:
    """Which payloads may have a null under one of these keys: to the native reader that is as if the key were not there."""
    names = "|".join(re.escape(key) for key in sorted(keys))
    # A name with an escape in it may be any of them.
    pattern = rf'(?:"(?:{names})"|\\.[^"\\]*")\s*:\s*null'
    found = pc.match_substring_regex(payloads.cast(pa.string()), pattern)
    return np.asarray(found.to_numpy(zero_copy_only=False), bool)


def has_map(of: pa.DataType) -> bool:
    """Whether a type is a map or has one in it."""
    return bool(kinds.is_map(of)) or any(has_map(of.field(place).type) for place in range(of.num_fields))


def _keys(of: pa.DataType, found: pa.DataType) -> Iterable[str]:
    if kinds.is_map(of):
        return [one.name for one in found]
    both = zip(children(of), children(found), strict=False)
    return [key for one, other in both for key in _keys(one.type, other.type)]
