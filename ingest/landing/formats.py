"""What a record is in a file: a line, or a JSON document. Each format gives the records that come together, and the row of the first."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterable, Iterator, Mapping

from distributary.codecs.containers.base import Damaged
from distributary.ingest.landing.documents import documents

# Records one behind the other, and the row of the first of them; None where a row holds no record.
Rows = tuple[int, list[bytes | None]]

# Of the lines that come together, so that few of them are held at once.
_ROWS = 10_000

# A line is held whole, and becomes one record: Spark hands none on that is much larger.
_LARGEST_LINE = 1 << 28


def lines(pieces: Iterable[bytes]) -> Iterator[Rows]:
    """Lines without what ends them; blank ones are no records. Raises Damaged behind the last one that is whole."""
    for first, found in _lines(pieces):
        yield first, [line if line.strip() else None for line in found]


def text(pieces: Iterable[bytes]) -> Iterator[Rows]:
    """Lines as JSON objects, blank ones too; one that is no UTF-8 stays as it is, and so is no JSON."""
    for first, found in _lines(pieces):
        yield first, [_as_object(line) for line in found]


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
