"""Debezium's envelopes as JSON text, with or without the block of their schema: taken apart, the row's own text left as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.codecs import reasons
from distributary.codecs.base import Around, Decoded, Enveloped, Failure, GrowingReader
from distributary.codecs.envelope.kinds import DELETE, failure, is_envelope, other_kind, sorted_out
from distributary.codecs.envelope.said import RESERVED, SOURCE_FIELDS, Said, arrays, beside, fields
from distributary.registry.base import Schema

# Numbers keep their text: positions have more digits than a float.
_READ = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode

_SPACE = re.compile(r"[ \t\n\r]*")

_NO_ROW = b"{}"

_WORDS = {True: "true", False: "false"}


class _NoRecord(ValueError):
    """What an envelope holds is no row."""


@dataclass(frozen=True, slots=True)
class _Member:
    """A member of an object: its value, and its text."""

    value: Any
    text: str


@dataclass(frozen=True, slots=True)
class _Envelope:
    """An envelope taken apart; `row` and `before` are JSON texts, and None where there is none."""

    op: str | None
    ts: str | None
    source: Mapping[str, str | None]
    row: bytes | None
    before: str | None


@dataclass(frozen=True, slots=True)
class Opened:
    """What became of some payloads.

    rows      the texts of rows
    numbers   which payload each of them is of, ascending
    said      what their envelopes say
    failures, left_out  of the other payloads, as in `Decoded` and `Around`
    """

    rows: pa.BinaryArray
    numbers: npt.NDArray[np.int64]
    said: Said
    failures: list[Failure]
    left_out: Mapping[str, npt.NDArray[np.int64]]


class TextReader(GrowingReader):
    """Decodes envelopes of JSON by a schema that was inferred for the rows in them."""

    def __init__(self, inner: GrowingReader, enveloped: Enveloped) -> None:
        self.name = inner.name
        self._inner, self._keep, self._skips = inner, enveloped.keep, enveloped.truncate == "ignore"
        own = fields(self._keep, pa.string())
        self._own = len(own)
        self.schema = pa.schema([*inner.schema, *own])

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """All payloads (no nulls) as rows: what is in `after`, or of a delete in `before`, and what the envelope says of it."""
        opened = open_all(payloads, self._skips)
        numbers, decoded = opened.numbers, self._inner.decode(opened.rows)
        said = opened.said.some(decoded.source)
        rows = [*decoded.rows.columns, *arrays(said, self._keep)]
        failed = [replace(one, row=int(numbers[one.row])) for one in decoded.failures]
        return Decoded(
            pa.RecordBatch.from_arrays(rows, schema=self.schema),
            numbers[decoded.source],
            sorted([*opened.failures, *failed], key=lambda one: one.row),
            decoded.rescued,
            numbers[decoded.beyond],
            [replace(one, first=int(numbers[one.first])) for one in decoded.unknown],
            {int(numbers[row]): path for row, path in decoded.misfits.items()},
            Around(beside(said, self._keep), opened.left_out),
        )

    def grown(self, payloads: pa.BinaryArray, most: int | None = None) -> Schema:
        """The rows' schema with what these payloads' rows have beyond it."""
        rows = open_all(payloads, self._skips).rows
        return self._inner.grown(rows, None if most is None else max(most - self._own, 0))


def open_all(payloads: pa.BinaryArray, skips: bool) -> Opened:
    """These payloads (no nulls), taken apart; with `skips` those that say that a table was emptied are left out."""
    failures: list[Failure] = []
    left_out: dict[str, list[int]] = {}
    found: list[_Envelope] = []
    numbers: list[int] = []
    for number, payload in enumerate(payloads.to_pylist()):
        opened = _opened(payload)
        if isinstance(opened, _Envelope):
            found.append(opened)
            numbers.append(number)
        elif opened in reasons.SENTENCES:
            failures.append(failure(number, opened))
        else:
            left_out.setdefault(opened, []).append(number)
    places = np.array(numbers, np.int64)
    ops = pa.array([one.op for one in found], pa.string())
    there = np.array([one.row is not None for one in found], np.bool_)
    told = sorted_out(ops, there, skips)
    failures += [replace(one, row=numbers[one.row]) for one in told.failures]
    others = {reason: places[rows] for reason, rows in told.left_out.items()}
    said = Said(
        ops,
        pa.array([one.ts for one in found], pa.string()),
        {name: pa.array([one.source.get(name) for one in found], pa.string()) for name in SOURCE_FIELDS},
        pa.array([one.before for one in found], pa.string()),
    )
    rows = [found[place].row or _NO_ROW for place in told.rows.tolist()]
    return Opened(
        pa.array(rows, pa.binary()),
        places[told.rows],
        said.some(told.rows),
        failures,
        {**others, **{reason: np.array(some, np.int64) for reason, some in left_out.items()}},
    )


def opened_row(payload: bytes) -> bytes | None:
    """The text of the row in one payload; None where there is none."""
    opened = _opened(payload)
    return opened.row if isinstance(opened, _Envelope) else None


def _opened(payload: bytes) -> _Envelope | str:
    """An envelope, or the reason by which it is a failure, or left out."""
    try:
        return _taken_apart(payload.decode())
    except _NoRecord:
        return reasons.NO_ENVELOPE
    except UnicodeError:
        return reasons.INVALID_UTF8
    except RecursionError:
        return reasons.TOO_DEEP
    except ValueError:
        return reasons.MALFORMED


def _taken_apart(text: str) -> _Envelope | str:
    members, end = _members(text, _behind_space(text, 0))
    if _behind_space(text, end) < len(text):
        return reasons.MALFORMED
    if "payload" in members and not is_envelope(members) and isinstance(members["payload"].value, dict):
        members, _ = _members(members["payload"].text, 0)
    if not is_envelope(members):
        return other_kind(members) or reasons.NO_ENVELOPE
    op, source = _word(members["op"].value), members["source"].value
    if not isinstance(op, str) or not isinstance(source, dict):
        return reasons.NO_ENVELOPE
    after, before = (_row(members.get(name)) for name in ("after", "before"))
    row = before if op == DELETE else after
    told = {name: _word(source.get(name)) for name in SOURCE_FIELDS}
    ts = members.get("ts_ms")
    return _Envelope(
        op, None if ts is None else _word(ts.value), told, None if row is None else row.encode(), before
    )


def _row(member: _Member | None) -> str | None:
    """The JSON text of a row; None where there is none. Raises _NoRecord for what cannot be one."""
    if member is None or member.value is None:
        return None
    # MongoDB's documents are texts.
    is_text = isinstance(member.value, str)
    text: str = member.value if is_text else member.text
    # Half of a surrogate pair is no text. Raises UnicodeEncodeError.
    value = json.loads(text.encode()) if is_text else member.value
    if not isinstance(value, dict) or not RESERVED.isdisjoint(map(str.lower, value)):
        raise _NoRecord
    return text


def _word(value: Any) -> str | None:
    """A text, a number as it is written, or a truth; None for anything else."""
    if isinstance(value, bool):
        return _WORDS[value]
    if not isinstance(value, str):
        return None
    value.encode()
    return value


def _members(text: str, at: int) -> tuple[dict[str, _Member], int]:
    """The members of the object that begins here, and where it ends. Raises ValueError where none does."""
    found: dict[str, _Member] = {}
    if text[at : at + 1] != "{":
        raise ValueError(at)
    at = _behind_space(text, at + 1)
    if text[at : at + 1] == "}":
        return found, at + 1
    while True:
        # A number's text would do for a name otherwise.
        if text[at : at + 1] != '"':
            raise ValueError(at)
        name, at = _READ(text, at)
        at = _behind_space(text, at)
        if text[at : at + 1] != ":":
            raise ValueError(at)
        begin = _behind_space(text, at + 1)
        value, end = _READ(text, begin)
        found[name] = _Member(value, text[begin:end])
        at = _behind_space(text, end)
        mark = text[at : at + 1]
        if mark == "}":
            return found, at + 1
        if mark != ",":
            raise ValueError(at)
        at = _behind_space(text, at + 1)


def _behind_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()
