"""The fast way: Arrow's own JSON reader on a whole batch, which coerces nothing, and a proof that rows stayed apart.

It fails as a whole where one value does not fit its column (`Refused`), and it is asked for columns that it reads
as Spark does: a time comes as text, and json_fitting.py turns it into one. A row about which the result leaves a doubt is
named, for the exact way to read.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.types as kinds

from distributary.codecs.binary_rows import BinaryRows, Longs, Mask
from distributary.codecs.json_fitting import Refused, fitted, is_valid
from distributary.codecs.json_text import MAX_DEPTH

# A `null` at the end of more white space than this is not looked for: such a payload is left to the exact way.
_MOST_SPACE = 64
_IS_SPACE = np.zeros(256, bool)
_IS_SPACE[[ord(space) for space in " \t\n\r"]] = True
# Still white space after so many steps, or the beginning of a null.
_AFTER_BRACE = _IS_SPACE.copy()
_AFTER_BRACE[ord("n")] = True

_CULPRIT = re.compile(r"in row (\d+)$")
_PLAIN_NAME = re.compile(r"\w+", re.ASCII)
_UNKNOWN = "unexpected field"


class NativeReader:
    """Reads batches of records of one schema, for which `can_read` must hold."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._asked = [pa.field(one.name, _asked(one.type)) for one in schema]
        names = sorted({name for one in schema for name in _integers(one) if _PLAIN_NAME.fullmatch(name)})
        self._misfit = rf'"(?:{"|".join(names)})"\s*:\s*-?\d*(?:\.|[eE]|\d{{19}})' if names else None

    def batch(self, payloads: pa.BinaryArray, *, unknown_fields: bool) -> tuple[pa.RecordBatch, Mask]:
        """All payloads as rows, and which of these rows are in doubt. Raises Refused, or whatever Arrow does.

        Every payload must be without those marks that `unsuitable` finds. `unknown_fields` says what becomes of a row
        with fields that the schema lacks: it is in doubt, or the batch is refused. The former needs memory for
        (rows x such fields), so that only small batches may be given then.
        """
        found = self._read(payloads, unknown_fields)
        doubt = np.zeros(len(payloads), bool)
        names = [one.name for one in self._schema]
        for name in found.schema.names[len(names) :]:
            doubt |= is_valid(found.column(name))
        columns = []
        for one in self._schema:
            column, doubtful = fitted(found.column(one.name), one.type)
            columns.append(column)
            if doubtful is not None:
                doubt |= doubtful
        return pa.RecordBatch.from_arrays(columns, schema=self._schema), doubt

    def likely_misfits(self, payloads: pa.BinaryArray) -> Mask:
        """Which payloads look as if they had a fraction where the column holds whole numbers; a guess, no more.

        The native reader does not say which row such a number is in.
        """
        if self._misfit is None:
            return np.zeros(len(payloads), bool)
        found = pc.match_substring_regex(payloads.cast(pa.string()), self._misfit)
        return np.asarray(found.to_numpy(zero_copy_only=False), bool)

    def _read(self, payloads: pa.BinaryArray, unknown_fields: bool) -> pa.RecordBatch:
        # A member that nobody can guess begins each record. As many rows as payloads, each with that member: so
        # none is made of two payloads or of a part of one, whatever is in them.
        mark = f"row {secrets.token_hex(8)}"
        text = _joined(payloads, f'{{"{mark}":0,'.encode())
        asked = pa.schema([pa.field(mark, pa.int8()), *self._asked])
        try:
            table = pj.read_json(
                pa.BufferReader(text),
                read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
                parse_options=pj.ParseOptions(
                    explicit_schema=asked,
                    unexpected_field_behavior="infer" if unknown_fields else "error",
                ),
            )
        except pa.ArrowInvalid as error:
            raise _refusal(str(error)) from None
        if table.num_rows != len(payloads) or table.column(0).null_count:
            raise Refused
        rows = table.combine_chunks().to_batches()[0]
        return rows.select(range(1, rows.num_columns))


def can_read(schema: pa.Schema) -> bool:
    """Whether the native reader knows all types of this schema; maps it does not."""
    return len(schema) > 0 and all(_known(one.type) for one in schema)


def unsuitable(payloads: pa.BinaryArray) -> Mask:
    """Which payloads only the exact way may see: they may be broken in ways that the native reader would not notice."""
    view = BinaryRows.of(payloads)
    words = view.leading_words()
    first, second = (words >> np.uint64(56)) & np.uint64(255), (words >> np.uint64(48)) & np.uint64(255)
    found: Mask = (first != ord("{")) | (second == ord("}")) | (view.end - view.begin < 2)
    if len(payloads):
        edges = np.append(view.begin, view.end[-1]) - view.begin[0]
        data = view.data[view.begin[0] : view.end[-1]]
        # One bit tells "[" from "{".
        found |= _counts(np.flatnonzero((data & 0xDF) == ord("[")), edges) > MAX_DEPTH
        for places in (np.flatnonzero(data == 0), _closed_then_more(data)):
            if len(places):
                found |= _counts(places, edges) > 0
    return found | _not_utf8(payloads)


def _closed_then_more(data: npt.NDArray[np.uint8]) -> Longs:
    """Where a brace closes and something follows that cannot follow within one object.

    A `null` after an object's end kills the native reader, and with it the process.
    """
    braces = np.flatnonzero(data == ord("}"))
    follows = braces + 1
    # White space is passed over; so few payloads have any here that it may take a few steps.
    last = len(data) - 1
    for _ in range(_MOST_SPACE):
        spaced = _IS_SPACE[data[np.minimum(follows, last)]] & (follows <= last)
        if not spaced.any():
            break
        follows[spaced] += 1
    wrong = (follows <= last) & _AFTER_BRACE[data[np.minimum(follows, last)]]
    return braces[wrong]


def _counts(places: Longs, edges: Longs) -> Longs:
    """How many of these places, which ascend, are in each row; the rows lie one behind the other."""
    return np.diff(np.searchsorted(places, edges))


def _not_utf8(payloads: pa.BinaryArray) -> Mask:
    try:
        payloads.cast(pa.string())
    except pa.ArrowInvalid:
        return np.array([not _is_utf8(payload.as_py()) for payload in payloads], bool)
    return np.zeros(len(payloads), bool)


def _is_utf8(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True


def _joined(payloads: pa.BinaryArray, opening: bytes) -> pa.Buffer:
    """The payloads one behind the other, each with its first byte (its brace) replaced by `opening`."""
    view = BinaryRows.of(payloads)
    inside = view.tails(np.ones(len(payloads), np.int64), None)
    text = pc.binary_join_element_wise(pa.scalar(opening), inside, pa.scalar(b"\n"), pa.scalar(b""))
    return text.buffers()[2].slice(0, BinaryRows.of(text).end[-1])


def _refusal(message: str) -> Refused:
    row = _CULPRIT.search(message)
    return Refused(int(row[1]) if row else None, _UNKNOWN in message)


def _known(of: pa.DataType) -> bool:
    if kinds.is_struct(of):
        return of.num_fields > 0 and all(_known(one.type) for one in of)
    if kinds.is_list(of):
        return _known(of.value_type)
    return not kinds.is_map(of)


def _integers(one: pa.Field) -> Iterable[str]:
    """The names of all fields, nested ones too, that hold whole numbers."""
    if kinds.is_struct(one.type):
        return [name for inner in one.type for name in _integers(inner)]
    if kinds.is_list(one.type):
        return _integers(one.type.value_field)
    return [one.name] if kinds.is_integer(one.type) else []


def _asked(of: pa.DataType) -> pa.DataType:
    """The type that the native reader is asked for: text where JSON has text and Spark has its own way of reading it."""
    if kinds.is_struct(of):
        return pa.struct([pa.field(one.name, _asked(one.type)) for one in of])
    if kinds.is_list(of):
        return pa.list_(pa.field(of.value_field.name, _asked(of.value_type)))
    return pa.string() if kinds.is_temporal(of) or kinds.is_binary(of) else of
