"""Records of several schemas read in one pass: a call of the native reader costs as much for ten records as for some hundred.

Schemas that have no field in two types are read as their union. A record that the union takes with nothing left over, and
with no value in a field that its own schema lacks, means the same to its own schema; whatever else comes is for its own reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.base import Decoded, RecordReader
from distributary.codecs.json.decode import (
    JsonDecoder,
    united,
)
from distributary.codecs.json.fast import can_read
from distributary.codecs.json.maps import has_map
from distributary.codecs.types.masks import Mask, Rows, is_valid
from distributary.codecs.types.walk import around

# Every record has a value, mostly a null, in each of the union's columns, and each column costs time in every call.
MOST_COLUMNS = 64

# One member's bad records must not have all the others' read again and again.
_PATIENCE = 6


@dataclass(frozen=True, slots=True)
class _Foreign:
    """A column of the union, nested or not, that some members' schemas lack."""

    path: tuple[int, ...]
    lacking: Mask


class JointReader:
    """Decodes records of several schemas at once, each with the result that its own reader would give."""

    def __init__(self) -> None:
        self._types: dict[str, pa.DataType] = {}
        self._width = 0
        self._members: list[RecordReader] = []
        self._decoder: JsonDecoder | None = None
        self._foreign: list[_Foreign] = []

    def add(self, reader: RecordReader) -> bool:
        """Whether records of this reader's schema can be decoded along from now on; it is then the next member."""
        more = _beyond(self._types, reader.schema)
        if more is None:
            return False
        before = sum(_columns(self._types[name]) for name in more if name in self._types)
        width = self._width - before + sum(map(_columns, more.values()))
        if width > MOST_COLUMNS or not can_read(reader.schema) or any(map(has_map, more.values())):
            return False
        self._types |= more
        self._width = width
        self._members.append(reader)
        self._decoder = None
        return True

    def decode(self, parts: Sequence[tuple[int, pa.BinaryArray]]) -> list[Decoded]:
        """What each of these members (numbered as they were added) makes of these payloads (no nulls)."""
        payloads = pa.concat_arrays([payloads for _, payloads in parts])
        edges = np.cumsum([0, *(len(payloads) for _, payloads in parts)])
        members = np.repeat([member for member, _ in parts], np.diff(edges))
        batch, rows = self._taken(payloads, members)
        found = np.searchsorted(rows, edges).tolist()
        return [
            self._of_member(member, own, batch.slice(begin, end - begin), rows[begin:end] - first)
            for (member, own), begin, end, first in zip(parts, found, found[1:], edges.tolist(), strict=False)
        ]

    def _taken(self, payloads: pa.BinaryArray, members: Rows) -> tuple[pa.RecordBatch, Rows]:
        """The payloads that the union takes, as its rows, and which ones they are."""
        if self._decoder is None:
            union = pa.schema(list(self._types.items()))
            types: list[pa.DataType | None] = [pa.struct(list(one.schema)) for one in self._members]
            self._decoder = JsonDecoder(union)
            self._foreign = list(_foreign(union, types, ()))
        batch, rows = self._decoder.natively(payloads, _PATIENCE)
        members = members[rows]
        masks = [
            is_valid(_at(batch, one.path)) & lacking
            for one in self._foreign
            if (lacking := one.lacking[members]).any()
        ]
        strange = np.logical_or.reduce(masks) if masks else np.zeros(len(rows), bool)
        if strange.any():
            return batch.filter(pa.array(~strange)), rows[~strange]
        return batch, rows

    def _of_member(self, member: int, payloads: pa.BinaryArray, batch: pa.RecordBatch, rows: Rows) -> Decoded:
        reader = self._members[member]
        columns = [_own(batch.column(one.name), one.type) for one in reader.schema]
        taken = Decoded(
            pa.RecordBatch.from_arrays(columns, schema=reader.schema),
            rows,
            [],
            pa.nulls(len(rows), pa.string()),
        )
        if len(rows) == len(payloads):
            return taken
        left = np.setdiff1d(np.arange(len(payloads)), rows, assume_unique=True)
        return united(taken, reader.decode(payloads.take(pa.array(left))), left)


def _beyond(types: Mapping[str, pa.DataType], fields: Iterable[pa.Field]) -> dict[str, pa.DataType] | None:
    """What the union of these types and fields has that the types have not; None where a field has two types."""
    found = {}
    for field in fields:
        known = types.get(field.name)
        if known == field.type:
            continue
        both = field.type if known is None else _union(known, field.type)
        if both is None:
            return None
        found[field.name] = both
    return found


def _union(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if not (kinds.is_struct(one) and kinds.is_struct(other)):
        return None
    types = {field.name: field.type for field in one}
    more = _beyond(types, other)
    return None if more is None else pa.struct(list((types | more).items()))


def _foreign(
    union: Iterable[pa.Field], types: Sequence[pa.DataType | None], above: tuple[int, ...]
) -> Iterator[_Foreign]:
    for place, field in enumerate(union):
        inside = [_field(of, field.name) for of in types]
        # What lacks the struct around it is found there.
        lacking = np.array([of is not None and one is None for of, one in zip(types, inside, strict=True)])
        path = (*above, place)
        if lacking.any():
            yield _Foreign(path, lacking)
        if kinds.is_struct(field.type):
            yield from _foreign(field.type, inside, path)


def _field(of: pa.DataType | None, name: str) -> pa.DataType | None:
    place = -1 if of is None else of.get_field_index(name)
    return None if of is None or place < 0 else of.field(place).type


def _at(batch: pa.RecordBatch, path: tuple[int, ...]) -> pa.Array:
    first, *others = path
    found = batch.column(first)
    for place in others:
        found = found.field(place)
    return found


def _own(values: pa.Array, of: pa.DataType) -> pa.Array:
    """The values without what the type lacks, which is null in all of them."""
    if values.type == of:
        return values
    return around(values, of, [_own(values.field(one.name), one.type) for one in of])


def _columns(of: pa.DataType) -> int:
    return 1 + sum(_columns(one.type) for one in of) if kinds.is_struct(of) else 1
