"""JSON records to Arrow: many at once by the native reader, the ones that it leaves in doubt by the exact one.

Which of the two read a record never shows in the result; tests/codecs/test_json_decode.py holds them to that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs import reasons
from distributary.codecs.base import Decoded, Failure
from distributary.codecs.broken_payloads import Undecodable, without
from distributary.codecs.json.exact import ExactReader
from distributary.codecs.json.fast import NativeReader, can_read, too_deep
from distributary.codecs.json.fitting import Refused
from distributary.codecs.types.fields import held_in, parts
from distributary.codecs.types.fit import is_list
from distributary.codecs.types.masks import Mask, Rows
from distributary.codecs.types.room import MOST_BYTES, item_bytes
from distributary.codecs.wire.binary_rows import BinaryRows

# The native reader's text of one call, which holds more than the payloads, must stay below 2 GiB.
_MOST_BYTES = 64 << 20

# Reading fields that the schema lacks costs memory for rows times fields; a field needs some bytes in its row.
_FEW_ROWS, _FEW_BYTES = 256, 256 << 10

# A batch that was refused is read in portions: each bad row costs reading its portion again.
_SOME_ROWS = 512

# `{},`: the shortest item of a list that has columns of its own.
_LEAST_ITEM = 3

# Below this the native reader's cost for a call is more than the exact way's for the rows.
_TOO_FEW = 8


@dataclass(slots=True)
class _Segment:
    """Rows to be read together; `widely` says that fields are expected among them that the schema lacks.

    `sifted` says that rows which look like misfits have been taken out.
    """

    rows: Rows
    widely: bool = False
    sifted: bool = False


@dataclass(slots=True)
class _Outcome:
    """What has been read so far."""

    rows: list[Rows] = field(default_factory=list)
    batches: list[pa.RecordBatch] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    rescued: dict[int, str] = field(default_factory=dict)
    beyond: list[int] = field(default_factory=list)
    misfits: dict[int, str] = field(default_factory=dict)


class JsonDecoder:
    """Decodes JSON objects into the columns of a schema. Raises BadSchema for types that no column has."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._exact = ExactReader(schema)

    # What of this takes time is made with the first record: of most versions of a schema there is none.
    @cached_property
    def _native(self) -> NativeReader | None:
        return NativeReader(self.schema) if can_read(self.schema) else None

    @cached_property
    def _lists(self) -> _Lists:
        return _lists_in(pa.struct(list(self.schema)))

    @cached_property
    def _most_items(self) -> int:
        return MOST_BYTES // max(item_bytes(self.schema), 1)

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """All payloads (no nulls) as rows; what no column takes is in `rescued`, broken ones are failures."""
        large = np.flatnonzero(self._too_large(payloads))
        if len(large):
            return without(payloads, large, reasons.TOO_LARGE, self.decode)
        outcome = _Outcome()
        everything = np.arange(len(payloads))
        slowly = [everything]
        if self._native is not None and not self._native.gave_up:
            apart = self._native.unsuitable(payloads)
            rows = everything[~apart]
            # A batch that is bad all over is not read again and again.
            patience = 16 + len(rows) // 16
            slowly = [everything[apart], *self._natively(self._native, payloads, rows, outcome, patience)]
        self._exactly(payloads, np.sort(np.concatenate(slowly)), outcome)
        return _decoded(outcome, self.schema)

    def natively(self, payloads: pa.BinaryArray, patience: int) -> tuple[pa.RecordBatch, Rows]:
        """Those payloads that the native reader takes whole, as rows, and which they are; the others are left out.

        When it has refused more than so many times, it is not asked about the rest.
        """
        outcome = _Outcome()
        if self._native is not None and not self._native.gave_up:
            rows = np.flatnonzero(~(self._native.unsuitable(payloads) | self._too_large(payloads)))
            list(self._natively(self._native, payloads, rows, outcome, patience))
        taken = _decoded(outcome, self.schema)
        return taken.rows, taken.source

    def _too_large(self, payloads: pa.BinaryArray) -> Mask:
        """Which payloads have more objects in lists and maps than a record has room for."""
        view = BinaryRows.of(payloads)
        found: Mask = view.end - view.begin > self._most_items * _LEAST_ITEM
        for row in np.flatnonzero(found).tolist():
            data = view.data[view.begin[row] : view.end[row]]
            # A text may hold any number of braces.
            many = np.count_nonzero(data == ord("{")) > self._most_items
            found[row] = many and _items(data.tobytes(), self._lists) > self._most_items
        return found

    def _natively(
        self, native: NativeReader, payloads: pa.BinaryArray, rows: Rows, outcome: _Outcome, patience: int
    ) -> Iterator[Rows]:
        """Reads what the native reader can read; yields the rows that it cannot."""
        waiting = [_Segment(part) for part in _portions(payloads, rows, len(rows) or 1, _MOST_BYTES)][::-1]
        while waiting:
            segment = waiting.pop()
            if len(segment.rows) < _TOO_FEW or patience < 0:
                yield segment.rows
                continue
            part = payloads.take(pa.array(segment.rows)) if len(segment.rows) < len(payloads) else payloads
            try:
                batch, doubt = native.batch(part, unknown_fields=segment.widely)
            except (Refused, pa.ArrowException) as error:
                patience -= 1
                refused = error if isinstance(error, Refused) else Refused()
                if not refused.unknown and not segment.sifted:
                    misfits = native.likely_misfits(part)
                    yield segment.rows[misfits]
                    segment = _Segment(segment.rows[~misfits], segment.widely, sifted=True)
                    if misfits.any():
                        waiting.append(segment)
                        continue
                if refused.unknown and not segment.widely:
                    deep = too_deep(part)
                    yield segment.rows[deep]
                    segment = replace(segment, rows=segment.rows[~deep])
                waiting += _smaller(segment, refused, payloads)
                continue
            yield segment.rows[doubt]
            sure = ~doubt
            outcome.rows.append(segment.rows[sure])
            outcome.batches.append(batch.filter(pa.array(sure)) if doubt.any() else batch)

    def _exactly(self, payloads: pa.BinaryArray, rows: Rows, outcome: _Outcome) -> None:
        if not len(rows) and outcome.batches:
            return
        values: list[dict[str, Any]] = []
        good: list[int] = []
        for row in rows.tolist():
            try:
                record, left = self._exact.record(payloads[row].as_py())
            except Undecodable as error:
                outcome.failures.append(Failure(row, error.reason, error.detail))
                continue
            values.append(record)
            good.append(row)
            text = left.json()
            if text is not None:
                outcome.rescued[row] = text
            if left.unknown:
                outcome.beyond.append(row)
            if left.misfit is not None:
                outcome.misfits[row] = parts(left.misfit)[0]
        outcome.rows.append(np.array(good, np.int64))
        outcome.batches.append(_batch(values, self.schema))


def _smaller(segment: _Segment, refused: Refused, payloads: pa.BinaryArray) -> list[_Segment]:
    """What to try instead of a segment that was refused, the first rows last."""
    rows, size = segment.rows, len(segment.rows)
    if refused.unknown and not segment.widely:
        return [_Segment(part, True) for part in _portions(payloads, rows, _FEW_ROWS, _FEW_BYTES)][::-1]
    if size > _SOME_ROWS:
        edges = range(0, size, _SOME_ROWS)
        return [replace(segment, rows=rows[edge : edge + _SOME_ROWS]) for edge in edges][::-1]
    if refused.row is None:
        parts = [rows[size // 2 :], rows[: size // 2]]
    else:
        place = min(refused.row, size - 1)
        parts = [rows[place + 1 :], rows[place : place + 1], rows[:place]]
    return [replace(segment, rows=part) for part in parts]


@dataclass(frozen=True, slots=True)
class _Many:
    """Lists, or maps, of a type.

    kind     what the json module makes of one
    objects  whether objects are in it, which have columns of their own
    inside   the lists and maps in each of these; None where there are none
    """

    kind: type[list[Any] | dict[str, Any]]
    objects: bool
    inside: _Lists


# The lists and maps in values of a type: they themselves, or by the names of an object's members; None for none.
_Lists: TypeAlias = "_Many | dict[str, _Lists] | None"


def _lists_in(of: pa.DataType) -> _Lists:
    inner = held_in(of)
    if inner is not None:
        return _Many(list if is_list(of) else dict, kinds.is_struct(inner), _lists_in(inner))
    if not kinds.is_struct(of):
        return None
    found: dict[str, _Lists] = {one.name: inside for one in of if (inside := _lists_in(one.type)) is not None}
    return found or None


def _items(payload: bytes, lists: _Lists) -> int:
    """How many objects a payload has in these lists and maps; none for what is no JSON, of which others say what is wrong."""
    try:
        # Python makes no number of thousands of digits.
        waiting: list[tuple[Any, _Lists]] = [(json.loads(payload, parse_int=str), lists)]
    except (ValueError, RecursionError):
        return 0
    count = 0
    while waiting:
        value, within = waiting.pop()
        if isinstance(within, _Many) and isinstance(value, within.kind):
            items = value.values() if isinstance(value, dict) else value
            count += within.objects and sum(isinstance(one, dict) for one in items)
            waiting += [(one, within.inside) for one in items] if within.inside is not None else []
        elif isinstance(within, dict) and isinstance(value, dict):
            waiting += [(value[name], inside) for name, inside in within.items() if name in value]
    return count


def _portions(payloads: pa.BinaryArray, rows: Rows, most_rows: int, most_bytes: int) -> Iterable[Rows]:
    """The rows in portions of so many rows and bytes at most; a row of more bytes stands alone."""
    if len(rows) <= most_rows and payloads.nbytes <= most_bytes:
        yield from [rows] if len(rows) else []
        return
    start = size = 0
    lengths = np.diff(np.frombuffer(payloads.buffers()[1], np.int32, len(payloads) + 1, payloads.offset * 4))
    for place, length in enumerate(lengths[rows].tolist()):
        if place > start and (place - start >= most_rows or size + length > most_bytes):
            yield rows[start:place]
            start, size = place, 0
        size += length
    if start < len(rows):
        yield rows[start:]


def _batch(values: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    # A batch made of no columns would forget how many rows it has.
    if not len(schema):
        return pa.RecordBatch.from_struct_array(pa.array(values, pa.struct([])))
    columns = [pa.array([record.get(one.name) for record in values], one.type) for one in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def united(one: Decoded, other: Decoded, places: Rows) -> Decoded:
    """Two parts of a batch as one; the other's payloads are numbered by themselves, these are their places in the batch."""
    source = np.concatenate([one.source, places[other.source]])
    order = pa.array(np.argsort(source))
    failures = [replace(failure, row=int(places[failure.row])) for failure in other.failures]
    return Decoded(
        pa.concat_batches([one.rows, other.rows]).take(order),
        np.sort(source),
        sorted([*one.failures, *failures], key=lambda failure: failure.row),
        pa.concat_arrays([_rescued(one), _rescued(other)]).take(order),
        np.sort(np.concatenate([one.beyond, places[other.beyond]])),
        misfits={**one.misfits, **{int(places[row]): name for row, name in other.misfits.items()}},
    )


def _rescued(decoded: Decoded) -> pa.StringArray:
    return pa.nulls(len(decoded.source), pa.string()) if decoded.rescued is None else decoded.rescued


def _decoded(outcome: _Outcome, schema: pa.Schema) -> Decoded:
    if not outcome.batches:
        outcome.rows.append(np.zeros(0, np.int64))
        outcome.batches.append(_batch([], schema))
    order = np.concatenate(outcome.rows)
    batch = outcome.batches[0] if len(outcome.batches) == 1 else pa.concat_batches(outcome.batches)
    if (np.diff(order) < 0).any():
        batch = batch.take(pa.array(np.argsort(order)))
        order = np.sort(order)
    rescued = pa.nulls(len(order), pa.string())
    if outcome.rescued:
        rescued = pa.array([outcome.rescued.get(row) for row in order.tolist()], pa.string())
    failures = sorted(outcome.failures, key=lambda failure: failure.row)
    beyond = np.array(sorted(outcome.beyond), np.int64)
    return Decoded(batch, order, failures, rescued, beyond, misfits=outcome.misfits)
