"""What no column took of a record, as JSON text: of it, too, only that lands which the rule lets land."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.json.text import quoted
from distributary.codecs.types.fields import part, parts
from distributary.codecs.types.fit import is_list
from distributary.codecs.types.walk import children
from distributary.ingest.reshaping.rule import HIDING, Path, Reshape
from distributary.ingest.reshaping.spot import Spot

# Values are cut out as they are written, whatever they are: no number is read.
_READER = json.JSONDecoder(parse_float=str, parse_int=str)


def let_land(rule: Reshape, record: pa.Schema, texts: pa.StringArray | None) -> pa.StringArray | None:
    """The same objects without what the rule hides, or does not take, under the names that it gives; None where nothing is left.

    record  the columns that the records were decoded to: which part of a path is a list's or a map's they alone tell
    """
    if texts is None or texts.null_count == len(texts):
        return None
    kept = [None if text is None else _left(rule, record, text) for text in texts.to_pylist()]
    return pa.array(kept, pa.string()) if any(kept) else None


def landing(rule: Reshape, record: pa.Schema, path: Path) -> tuple[Path, Spot] | None:
    """What a place in records with these columns is called by a rule, and what it says of it; None where what stands there is not to land, or something in it."""
    return _landing(Spot.top(rule), pa.struct(list(record)), path)


def _left(rule: Reshape, record: pa.Schema, text: str) -> str | None:
    try:
        members = list(_members(text))
    except (ValueError, RecursionError, IndexError):
        return None  # what cannot be looked into might be anything
    found = []
    for path, value in members:
        landed = _landing(Spot.top(rule), pa.struct(list(record)), parts(path))
        if landed is not None:
            found.append(f"{quoted('.'.join(map(part, landed[0])))}:{value}")
    return f"{{{','.join(found)}}}" if found else None


def _members(text: str) -> Iterator[tuple[str, str]]:
    """Each path and what stands behind it, as it is written."""
    at = _behind(text, 1)
    while text[at] != "}":
        path, at = _READER.raw_decode(text, at)
        at = _behind(text, _behind(text, at) + 1)
        _, end = _READER.raw_decode(text, at)
        yield str(path), text[at:end]
        at = _behind(text, end)
        if text[at] == ",":
            at = _behind(text, at + 1)


def _behind(text: str, at: int) -> int:
    """Where the next thing stands behind blanks."""
    while text[at] in " \t\r\n":
        at += 1
    return at


def _landing(spot: Spot, of: pa.DataType | None, path: Path) -> tuple[Path, Spot] | None:
    """What a path is called from here on, and what is said of what stands there; None where what stands there is not to land."""
    found: list[str] = []
    for name in path:
        if of is not None and (is_list(of) or kinds.is_map(of)):
            inner = children(of)[-1]
            spot, of = spot.inside(inner.name), inner.type
            found.append(name)
        else:
            spot = _field(spot, of, name, within=bool(found))
            of = _type_of(of, name)
            found.append(spot.name or name)
        if spot.is_left or any(op.what in HIDING for op in spot.here):
            return None
    # Whatever stands there has no columns that would tell what is in it.
    return None if spot.hides or not spot.taken else (tuple(found), spot)


def _field(spot: Spot, of: pa.DataType | None, name: str, *, within: bool) -> Spot:
    if of is None or not kinds.is_struct(of):
        return spot.field(name)
    return (spot.field_of if within else spot.field_of_record)(of, name)


def _type_of(of: pa.DataType | None, name: str) -> pa.DataType | None:
    if of is None or not kinds.is_struct(of):
        return None
    # Not by Arrow's own look-up, which is given no half of a surrogate pair.
    return next((field.type for field in of if field.name == name), None)
