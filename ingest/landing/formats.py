"""What a record is in a file: a line, or a JSON document. Each format gives the records that come together, and the row of the first."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any

from distributary.codecs.containers.base import Damaged

# Records one behind the other, and the row of the first of them; None where a row holds no record.
Rows = tuple[int, list[bytes | None]]

# Of the lines that come together, so that few of them are held at once.
_ROWS = 10_000

# A line is held whole, and becomes one record: Spark hands none on that is much larger.
_LARGEST_LINE = 1 << 28

# A document is held whole, twice.
_LARGEST_DOCUMENTS = 1 << 30

_SPACE = re.compile(r"[ \t\n\r]*")

# Numbers are left as they are written: Python makes none of thousands of digits.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


def lines(pieces: Iterable[bytes]) -> Iterator[Rows]:
    """Lines without what ends them; blank ones are no records. Raises Damaged behind the last one that is whole."""
    for first, found in _lines(pieces):
        yield first, [line if line.strip() else None for line in found]


def text(pieces: Iterable[bytes]) -> Iterator[Rows]:
    """Lines as JSON objects, blank ones too; one that is no UTF-8 stays as it is, and so is no JSON."""
    for first, found in _lines(pieces):
        yield first, [_as_object(line) for line in found]


def documents(pieces: Iterable[bytes]) -> Iterator[Rows]:
    """JSON documents one behind the other; of an array its elements. Raises Damaged where something else comes."""
    whole = bytearray()
    for piece in pieces:
        whole += piece
        if len(whole) > _LARGEST_DOCUMENTS:
            raise Damaged(
                "its documents take more than 1 GiB together, which no worker holds; write smaller files"
            )
    # Bytes that are no UTF-8 stay what they were, for the decoder to refuse their record alone.
    found = whole.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")
    row, held = 0, list[bytes | None]()
    try:
        for document in _documents(found):
            held.append(document.encode("utf-8", "surrogateescape"))
            if len(held) == _ROWS:
                yield row, held
                row, held = row + _ROWS, []
    except Damaged:
        if held:
            yield row, held
        raise
    if held:
        yield row, held


FORMATS: Mapping[str, Callable[[Iterable[bytes]], Iterator[Rows]]] = {
    "lines": lines,
    "text": text,
    "documents": documents,
}
"""By the names that settings have for them."""


def _lines(pieces: Iterable[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    # What a line has so far is added to: it may come in thousands of pieces.
    row, rest = 0, bytearray()
    begins = True
    for piece in pieces:
        rest += piece
        if b"\n" in piece:
            *found, last = (_without_mark(rest) if begins else bytes(rest)).split(b"\n")
            rest, begins = bytearray(last), False
            for at in range(0, len(found), _ROWS):
                yield row, [line.removesuffix(b"\r") for line in found[at : at + _ROWS]]
                row += len(found[at : at + _ROWS])
        if len(rest) > _LARGEST_LINE:
            raise Damaged("a line takes more than 256 MiB, which is no record; mend the file, or its format")
    if rest:
        yield row, [(_without_mark(rest) if begins else bytes(rest)).removesuffix(b"\r")]


def _without_mark(whole: bytearray) -> bytes:
    return bytes(whole.removeprefix(codecs.BOM_UTF8))


def _as_object(line: bytes) -> bytes:
    try:
        return json.dumps({"value": line.decode()}, ensure_ascii=False).encode()
    except UnicodeDecodeError:
        return line


def _documents(found: str) -> Iterator[str]:
    at = _after_space(found, 0)
    while at < len(found):
        if found[at] == "[":
            at = yield from _elements(found, at + 1)
        else:
            end = _end_of(found, at)
            yield found[at:end]
            at = end
        at = _after_space(found, at)


def _elements(found: str, at: int) -> Generator[str, None, int]:
    """The elements of an array that begins here; it returns where it ends."""
    at = _after_space(found, at)
    if found[at : at + 1] == "]":
        return at + 1
    while True:
        end = _end_of(found, at)
        yield found[at:end]
        at = _after_space(found, end)
        mark = found[at : at + 1]
        if mark not in (",", "]") or not mark:
            raise Damaged("an array is cut off, or has something else than a comma between its elements")
        at = _after_space(found, at + 1)
        if mark == "]":
            return at


def _end_of(found: str, at: int) -> int:
    try:
        _, end = _DECODER.raw_decode(found, at)
    except ValueError:
        raise Damaged("what comes here is no JSON document, or is cut off") from None
    except RecursionError:
        raise Damaged("a document is nested more deeply than it can be read") from None
    return end


def _after_space(found: str, at: int) -> int:
    space: Any = _SPACE.match(found, at)
    return int(space.end())
