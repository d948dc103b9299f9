"""What gives away, in a payload's text, a value of another kind than its column's: a pattern for many payloads at once."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.json_maps import has_map

# Beyond so many the pattern would take longer than what it saves.
_MOST_NAMES = 1_000
_FRACTION = r"-?\d*(?:\.|[eE]|\d{19})"
_PLAIN_NAME = re.compile(r"\w+", re.ASCII)


def misfit_pattern(schema: pa.Schema) -> str | None:
    """A regular expression (RE2's) for a name and the beginning of a value that its column cannot have; None for no guess.

    Names of more than one field are left out. Where there are maps, whose keys may be anything, only whole numbers are told
    from others.
    """
    fields = [one for one in _fields(schema) if _PLAIN_NAME.fullmatch(one.name)]
    if len(fields) > _MOST_NAMES:
        return None
    maps, counts = any(has_map(one.type) for one in schema), Counter(one.name for one in fields)
    names = defaultdict(list)
    for one in fields:
        if counts[one.name] == 1 and (kinds.is_integer(one.type) or not maps):
            names[_FRACTION if maps else _wrong(one.type)].append(one.name)
    found = [rf'"(?:{"|".join(those)})"\s*:\s*(?:{wrong})' for wrong, those in names.items()]
    return "|".join(found) or None


def _wrong(of: pa.DataType) -> str:
    """How a value begins that is neither null nor of this type's kind in JSON."""
    if kinds.is_integer(of):
        return rf"[^-\dn\s]|{_FRACTION}"
    if kinds.is_floating(of):
        return r"[^-\dn\s]"
    if kinds.is_decimal(of):
        return r"[^-\dn\s\"]"
    if kinds.is_boolean(of):
        return r"[^tfn\s]"
    if kinds.is_struct(of):
        return r"[^{n\s]"
    return r"[^\[n\s]" if kinds.is_list(of) else r"[^\"n\s]"


def _fields(of: Iterable[pa.Field]) -> list[pa.Field]:
    """All fields that have a name in the payload, nested ones too."""
    return [field for one in of for field in (one, *_inside(one.type))]


def _inside(of: pa.DataType) -> list[pa.Field]:
    if kinds.is_struct(of):
        return _fields(of)
    return _inside(of.value_type) if kinds.is_list(of) else []
