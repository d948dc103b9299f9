"""JSON documents one behind the other, on however many lines: where each of them ends is told by its brackets and quotes alone.

What stands within these may be no JSON: who decodes the record refuses that one, and those behind it are read. Of a file no more is in
memory than the document that is being read, what was decompressed with it, and the records that are handed on together.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import Any

from distributary.codecs.containers.base import Damaged

# A document is held whole, and becomes one record: Spark hands none on that is much larger.
_LARGEST = 1 << 28

# Of the records that come together.
_ROWS, _BYTES = 10_000, 4 << 20

_SPACE = re.compile(rb"[ \t\n\r]*")

# A text from quote to quote, the quote of one that has no other yet, and brackets.
_MARKS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["{}\[\]]', re.DOTALL)

_OPEN, _QUOTE = frozenset(b"{["), b'"'

# As Python's own reader has them, which takes more than JSON.
_SINGLE = re.compile(rb"-?[0-9][0-9.eE+-]*|true|false|null|NaN|-?Infinity")

_LONGEST_NAME = len(b"-Infinity")

_NO_DOCUMENT = "what comes here is no JSON document, or is cut off"


def documents(pieces: Iterable[bytes]) -> Iterator[tuple[int, list[bytes | None]]]:
    """JSON documents, those of one array each by itself, and the row of the first of those that come together.

    Raises Damaged where something else comes, and where one is too large.
    """
    row, held, size = 0, list[bytes | None](), 0
    try:
        for document in _documents(_Window(pieces)):
            held.append(document)
            size += len(document)
            if len(held) >= _ROWS or size >= _BYTES:
                yield row, held
                row, held, size = row + len(held), [], 0
    except Damaged:
        if held:
            yield row, held
        raise
    if held:
        yield row, held


def _documents(window: _Window) -> Iterator[bytes]:
    window.pass_mark()
    while mark := window.comes():
        if mark == b"[":
            window.at += 1
            yield from _elements(window)
        else:
            yield window.value()


def _elements(window: _Window) -> Iterator[bytes]:
    """The elements of an array that was begun, which is passed."""
    if window.comes() == b"]":
        window.at += 1
        return
    while True:
        yield window.value()
        mark = window.comes()
        if mark not in (b",", b"]"):
            raise Damaged("an array is cut off, or has something else than a comma between its elements")
        window.at += 1
        if mark == b"]":
            return


class _Window:
    """A file from the place on where its reading is, as far as it is in memory."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._held, self.at = b"", 0

    def pass_mark(self) -> None:
        """Go behind what some programs begin a file with to say that it is UTF-8."""
        while len(self._held) < len(codecs.BOM_UTF8) and self._more():
            continue
        if self._held.startswith(codecs.BOM_UTF8):
            self.at = len(codecs.BOM_UTF8)

    def comes(self) -> bytes:
        """The next byte that is no space; nothing at the end."""
        while True:
            space: Any = _SPACE.match(self._held, self.at)
            self.at = space.end()
            if self.at < len(self._held):
                return self._held[self.at : self.at + 1]
            if not self._more():
                return b""

    def value(self) -> bytes:
        """The value that comes next, which is passed. Raises Damaged."""
        first = self.comes()
        if first == _QUOTE:
            return self._text()
        return self._between_brackets() if first in (b"{", b"[") else self._single()

    def _between_brackets(self) -> bytes:
        depth, looked = 0, 0
        while True:
            for found in _MARKS.finditer(self._held, self.at + looked):
                begin, end = found.span()
                mark = self._held[begin]
                if mark == _QUOTE[0]:
                    if end - begin == 1:
                        looked = begin - self.at
                        break
                elif mark in _OPEN:
                    depth += 1
                elif depth == 1:
                    return self._taken(end)
                else:
                    depth -= 1
            else:
                looked = len(self._held) - self.at
            self._require_more()

    def _text(self) -> bytes:
        while True:
            found: Any = _MARKS.match(self._held, self.at)
            if found[0] != _QUOTE:
                return self._taken(found.end())
            self._require_more()

    def _single(self) -> bytes:
        while True:
            found = _SINGLE.match(self._held, self.at)
            size = 0 if found is None else found.end() - self.at
            # What comes may belong to it.
            if len(self._held) - self.at - size >= _LONGEST_NAME or not self._more():
                break
        if not size:
            raise Damaged(_NO_DOCUMENT)
        return self._taken(self.at + size)

    def _taken(self, end: int) -> bytes:
        value, self.at = self._held[self.at : end], end
        return value

    def _require_more(self) -> None:
        if not self._more():
            raise Damaged(_NO_DOCUMENT)

    def _more(self) -> bool:
        """Have about twice as much in memory from here on, so that nothing is looked at more than a few times; False at the end."""
        kept = len(self._held) - self.at
        if kept > _LARGEST:
            raise Damaged(
                f"a document takes more than {_LARGEST >> 20} MiB, which is no record; write smaller ones, or an array of them"
            )
        came, wanted = [self._held[self.at :]], min(max(kept, 1), _LARGEST + 1 - kept)
        while wanted > 0 and (piece := next(self._pieces, None)) is not None:
            came.append(piece)
            wanted -= len(piece)
        self._held, self.at = b"".join(came), 0
        return len(self._held) > kept
