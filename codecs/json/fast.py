"""The fast way: Arrow's own JSON reader on a whole batch, which coerces nothing, and a proof that rows stayed apart.

It fails as a whole where one value does not fit its column (`Refused`), and it is asked for columns that it reads
as Spark does: a time comes as text, and fitting.py turns it into one. A row about which the result leaves a doubt is
named, for the exact way to read.

What the reader must not see is found in the bytes beforehand (`NativeReader.unsuitable`, `too_deep`); which records it is likely to stop
at is guessed by a regular expression (`misfit_pattern`), so that they need not be found by halving.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter, defaultdict
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.types as kinds

from distributary.codecs.json.fitting import Refused, asked, fitted
from distributary.codecs.json.maps import MOST_KEYS, has_map, keys_of, may_be_null, with_keys
from distributary.codecs.json.text import MAX_DEPTH
from distributary.codecs.types.masks import Mask, is_valid
from distributary.codecs.types.walk import children
from distributary.codecs.wire.binary_rows import (
    BinaryRows,
    Longs,
)

# A `null` at the end of more white space than this is not looked for: such a payload is left to the exact way.
_MOST_SPACE = 64

_IS_SPACE = np.zeros(256, bool)

_IS_SPACE[[ord(space) for space in " \t\n\r"]] = True

# Still white space after so many steps, or the beginning of a null.
_AFTER_BRACE = _IS_SPACE.copy()

_AFTER_BRACE[ord("n")] = True

_CULPRIT = re.compile(r"in row (\d+)$")

_UNKNOWN = "unexpected field"

# A number that may have more than 38 digits behind its point: of such a one Arrow makes zero or anything for a decimal, or ends the
# process, as it looks behind the end of its powers of ten. Those that Java writes of decimals, such as `0E-18`, have no more.
_TINY = (
    r"(?:[:\[,\s\"][-+]?\d*\.?\d*[eE]-(?:39|[4-9]\d|\d{3,})"
    r"|\.\d+[eE]-3\d|\.\d{10,}[eE]-2\d|\.\d{20,}[eE]-1\d|\.\d{30,}[eE]-\d)[\s,}\]\"]"
)

# A part of a number that is written by its code in a text: nobody does so, and it would not be seen.
_SPELLED = r"\\u00(?:[46]5|2[bBdDeE]|3\d)"

# What begins an exponent below zero, as a number of two bytes, and as many bytes as stay in a processor's cache.
_LOWER, _UPPER = (int.from_bytes(mark, "little") for mark in (b"e-", b"E-"))

_BLOCK = 1 << 18

# So many digits of an exponent are looked at: the longest part of a UUID has twelve.
_MOST_STEPS = 10

_IS_DIGIT = np.zeros(256, bool)

_IS_DIGIT[ord("0") : ord("9") + 1] = True

# What may stand behind a number.
_ENDS = _IS_SPACE.copy()

_ENDS[[ord(end) for end in ',}]"']] = True


class NativeReader:
    """Reads batches of records of one schema, for which `can_read` must hold.

    gave_up  whether maps have too many different keys for it, from now on
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._type = pa.struct(list(schema))
        self._asked = asked(self._type)
        self.gave_up = False
        self._misfit = misfit_pattern(schema)
        self._has_decimals = _has_decimal(self._type)

    def batch(self, payloads: pa.BinaryArray, *, unknown_fields: bool) -> tuple[pa.RecordBatch, Mask]:
        """All payloads as rows, and which of these rows are in doubt. Raises Refused, or whatever Arrow does.

        No payload may be one that `unsuitable` finds. `unknown_fields` says what becomes of a row
        with fields that the schema lacks: it is in doubt, or the batch is refused. The former needs memory for
        (rows x such fields), so that only small batches may be given then.
        """
        found = self._read(payloads, unknown_fields)
        columns, doubt = fitted(found.column(0), self._type, self._asked)
        keys = self._learn(found.schema.field(0).type)
        masks = [is_valid(found.column(place)) for place in range(1, found.num_columns)]
        masks += [] if doubt is None else [doubt]
        masks += [may_be_null(payloads, keys)] if keys else []
        batch = pa.RecordBatch.from_arrays(
            [columns.field(place) for place in range(len(self._schema))], schema=self._schema
        )
        return batch, np.logical_or.reduce(masks) if masks else np.zeros(len(payloads), bool)

    def unsuitable(self, payloads: pa.BinaryArray) -> Mask:
        """Which payloads only the exact way may see: they may be broken in ways that this reader would not notice, or end it.

        Not those of too many levels: it stops where a payload has more than the schema, unless it is asked for fields that
        the schema lacks (`too_deep`).
        """
        found = _strange(payloads)
        return found | _tiny(payloads) if self._has_decimals and len(payloads) else found

    def _learn(self, found: pa.StructType) -> frozenset[str]:
        """Ask for the keys of maps that were met, the next time; gives all of them."""
        keys = keys_of(self._type, found)
        if len(keys) > MOST_KEYS:
            self.gave_up = True
        elif keys:
            self._asked = with_keys(self._type, self._asked, found)
        return keys

    def likely_misfits(self, payloads: pa.BinaryArray) -> Mask:
        """Which payloads look as if they had a value of another kind than their column's; a guess, no more.

        The native reader stops at the first such value, and does not always say which row it is in.
        """
        if self._misfit is None:
            return np.zeros(len(payloads), bool)
        return _matching(payloads, self._misfit)

    def _read(self, payloads: pa.BinaryArray, unknown_fields: bool) -> pa.RecordBatch:
        # Each payload becomes the one member, of a name that nobody can guess, of an object of its own. As many rows as
        # payloads, each with that member: so none is made of two payloads or of a part of one, whatever is in them.
        mark = f"row {secrets.token_hex(8)}"
        text = _joined(payloads, f'{{"{mark}":'.encode(), b"}\n")
        try:
            table = pj.read_json(
                pa.BufferReader(text),
                read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
                parse_options=pj.ParseOptions(
                    explicit_schema=pa.schema([pa.field(mark, self._asked)]),
                    unexpected_field_behavior="infer" if unknown_fields else "error",
                ),
            )
        except pa.ArrowInvalid as error:
            raise _refusal(str(error)) from None
        if table.num_rows != len(payloads) or table.column(0).null_count:
            raise Refused
        return table.combine_chunks().to_batches()[0]


def can_read(schema: pa.Schema) -> bool:
    """Whether the native reader knows all types of this schema, or is taught them: not maps within maps.

    It does not count levels: a schema of more than there may be is not for it.
    """
    levels = max((_levels(one.type) for one in schema), default=MAX_DEPTH)
    return levels < MAX_DEPTH and all(_known(one.type) for one in schema)


def _strange(payloads: pa.BinaryArray) -> Mask:
    view = BinaryRows.of(payloads)
    found: Mask = view.end - view.begin < 2
    if len(payloads) and len(view.data):
        found |= view.data[np.minimum(view.begin, len(view.data) - 1)] != ord("{")
        edges = np.append(view.begin, view.end[-1]) - view.begin[0]
        data = view.data[view.begin[0] : view.end[-1]]
        zeros = np.flatnonzero(data == 0) if len(data) and not data.min() else np.zeros(0, np.int64)
        for places in (zeros, _closed_then_more(data)):
            if len(places):
                found |= _counts(places, edges) > 0
    return found | _not_utf8(payloads)


def too_deep(payloads: pa.BinaryArray) -> Mask:
    """Which payloads (at least one) may have so many levels that reading what is in fields not asked for is no good."""
    view = BinaryRows.of(payloads)
    edges = np.append(view.begin, view.end[-1]) - view.begin[0]
    # One bit tells "[" from "{".
    opened = np.flatnonzero((view.data[view.begin[0] : view.end[-1]] & 0xDF) == ord("["))
    found: Mask = _counts(opened, edges) > MAX_DEPTH
    return found


def _closed_then_more(data: npt.NDArray[np.uint8]) -> Longs:
    """Where a brace closes and something follows that cannot follow within one object.

    A `null` after an object's end kills the native reader, and with it the process.
    """
    if not _may_go_on(data):
        return np.zeros(0, np.int64)
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


def _may_go_on(data: npt.NDArray[np.uint8]) -> bool:
    """Whether white space, or the beginning of a null, is next to a brace that closes; nearly always there is none."""
    return _has(data, r"\}[\x00-\x20n]")


def _has(data: npt.NDArray[np.uint8], pattern: str) -> bool:
    edges = pa.py_buffer(np.array([0, len(data)], np.int32))
    whole = pa.Array.from_buffers(pa.binary(), 1, [None, edges, pa.py_buffer(data)])
    return bool(pc.match_substring_regex(whole, pattern)[0].as_py())


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


def _matching(payloads: pa.BinaryArray, pattern: str) -> Mask:
    found = pc.match_substring_regex(payloads, pattern)
    return np.asarray(found.to_numpy(zero_copy_only=False), bool)


def _tiny(payloads: pa.BinaryArray) -> Mask:
    """Which payloads may have a number with more than 38 digits behind its point."""
    view = BinaryRows.of(payloads)
    data, found = view.data[view.begin[0] : view.end[-1]], np.zeros(len(payloads), bool)
    places = _closed(_exponents(data), data)
    if len(places):
        edges = np.append(view.begin, view.end[-1]) - view.begin[0]
        rows = np.flatnonzero(_counts(places, edges))
        found[rows] = _matching(payloads.take(pa.array(rows)), _TINY)
    return found | _matching(payloads, _SPELLED) if _has(data, _SPELLED) else found


def _closed(places: Longs, data: npt.NDArray[np.uint8]) -> Longs:
    """Those exponents that may be long, or behind many digits, and with which a number ends: most in ids are none."""

    def digits(at: Longs) -> Mask:
        return _IS_DIGIT[data[np.clip(at, 0, len(data) - 1)]]

    before = digits(places - 1) | digits(places - 2)
    places = places[before & digits(places + 2) & (digits(places + 3) | digits(places - 30))]
    ends = places + 3
    for _ in range(_MOST_STEPS):
        ends += digits(ends)
    # One that goes on beyond all data, or those steps, may be a number too.
    return places[(_ENDS | _IS_DIGIT)[data[np.minimum(ends, len(data) - 1)]]]


def _exponents(data: npt.NDArray[np.uint8]) -> Longs:
    """Where an exponent below zero may begin."""
    marks = (_LOWER, _UPPER) if _has(data, r"E-\d") else (_LOWER,)
    found = [np.zeros(0, np.int64)]
    for start in range(0, len(data), _BLOCK):
        for first in (start, start + 1):
            block = data[first : first + _BLOCK]
            pairs = block[: len(block) // 2 * 2].view("<u2")
            for mark in marks:
                found.append((pairs == mark).nonzero()[0] * 2 + first)
    return np.sort(np.concatenate(found))


def _joined(payloads: pa.BinaryArray, opening: bytes, closing: bytes) -> pa.Buffer:
    """The payloads one behind the other, each between `opening` and `closing`."""
    text = pc.binary_join_element_wise(
        pa.scalar(opening), payloads, pa.scalar(closing), pa.scalar(b"", payloads.type)
    )
    view = BinaryRows.of(text)
    return text.buffers()[2].slice(view.begin[0], view.end[-1] - view.begin[0])


def _refusal(message: str) -> Refused:
    row = _CULPRIT.search(message)
    return Refused(int(row[1]) if row else None, _UNKNOWN in message)


def _has_decimal(of: pa.DataType) -> bool:
    return bool(kinds.is_decimal(of)) or any(_has_decimal(one.type) for one in children(of))


def _known(of: pa.DataType) -> bool:
    if kinds.is_struct(of):
        return of.num_fields > 0 and all(_known(one.type) for one in of)
    if kinds.is_list(of):
        return _known(of.value_type)
    return not kinds.is_map(of) or (
        of.key_type == pa.string() and _known(of.item_type) and not has_map(of.item_type)
    )


def _levels(of: pa.DataType) -> int:
    """How many objects and lists are one inside the other."""
    return 1 + max((_levels(of.field(place).type) for place in range(of.num_fields)), default=0)


# Beyond so many, and so many letters of them, the pattern would take longer than what it saves, and in the end be too large for RE2.
_MOST_NAMES, _MOST_LETTERS = 1_000, 100_000

_FRACTION = r"-?\d*(?:\.|[eE]|\d{19})"

_PLAIN_NAME = re.compile(r"\w+", re.ASCII)


def misfit_pattern(schema: pa.Schema) -> str | None:
    """A regular expression (RE2's) for a name and the beginning of a value that its column cannot have; None for no guess.

    Names of more than one field are left out. Where there are maps, whose keys may be anything, only whole numbers are told
    from others.
    """
    fields = [one for one in _fields(schema) if _PLAIN_NAME.fullmatch(one.name)]
    if len(fields) > _MOST_NAMES or sum(len(one.name) for one in fields) > _MOST_LETTERS:
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
