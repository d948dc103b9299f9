"""JSON text at its lowest level: what a payload must be to be read at all, and where its parts begin and end.

The grammar is RFC 8259's, nothing more: no NaN, no trailing comma, no byte order mark. Numbers keep their own text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Final, NoReturn

import numpy as np

from distributary.codecs import reasons
from distributary.codecs.broken_payloads import Undecodable

# Levels of objects and lists in one payload, the payload itself being the first.
MAX_DEPTH = 100

# Stands behind a text, so that looking at the next character never runs over the end; no JSON holds it bare.
END = "\0"

_SPACE = " \t\n\r"

_space = re.compile(r"[ \t\n\r]*").match

# A name without escapes, its colon and the white space around that.
_plain_name = re.compile(r'"([^"\\\x00-\x1f]*)"[ \t\n\r]*:[ \t\n\r]*').match

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)


class Number(str):
    """A number's own text."""

    __slots__ = ()


class Whole(Number):
    """The text of a number without a fraction or an exponent."""

    __slots__ = ()


class NotJson(ValueError):
    """The text breaks JSON's grammar at this character."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


def _refuse(_: str) -> NoReturn:
    raise Undecodable(reasons.MALFORMED, "the payload holds NaN or Infinity, which JSON does not have")


# Takes a text and a place: the value that begins there, as the json module has it with numbers as text, and where it
# ends. Raises what `broken_at` knows.
value_at: Final[Callable[[str, int], tuple[Any, int]]] = json.JSONDecoder(
    parse_int=Whole, parse_float=Number, parse_constant=_refuse
).scan_once  # type: ignore[attr-defined]

# What reading may raise where the text breaks JSON's grammar.
BROKEN: Final = (NotJson, json.JSONDecodeError, StopIteration)


def broken_at(error: BaseException) -> int:
    """The character at which one of BROKEN found the grammar broken."""
    if isinstance(error, StopIteration):
        return int(error.value)
    return int(error.at if isinstance(error, NotJson) else getattr(error, "pos", 0))


def text_of(payload: bytes) -> str:
    """The payload as text, closed by END. Raises Undecodable where it can be no JSON object that we would read."""
    try:
        text = payload.decode()
    except UnicodeDecodeError as error:
        raise Undecodable(
            reasons.INVALID_UTF8, f"the payload is not valid UTF-8 at byte {error.start}"
        ) from None
    at = after_space(text + END, 0)
    if at == len(text):
        raise Undecodable(reasons.MALFORMED, "the payload is empty: it holds no JSON")
    if text[at] == "\ufeff":
        raise Undecodable(
            reasons.MALFORMED, "the payload begins with a byte order mark, which JSON does not allow"
        )
    if too_deep(payload):
        raise Undecodable(reasons.TOO_DEEP, f"the payload is nested more than {MAX_DEPTH} levels deep")
    return text + END


def too_deep(payload: bytes) -> bool:
    """Whether objects and lists are open at more than MAX_DEPTH levels somewhere; brackets in strings do not count."""
    if payload.count(b"[") + payload.count(b"{") <= MAX_DEPTH:
        return False
    bare = np.frombuffer(_STRING.sub(b"", payload), np.uint8)
    opened = (bare == ord("[")) | (bare == ord("{"))
    closed = (bare == ord("]")) | (bare == ord("}"))
    levels = np.cumsum(opened.astype(np.int64) - closed)
    return bool(len(levels)) and int(levels.max()) > MAX_DEPTH


def after_space(text: str, at: int) -> int:
    """Where the next thing that is not white space begins."""
    if text[at] not in _SPACE:
        return at
    found = _space(text, at)
    return found.end() if found else at


def name_at(text: str, at: int) -> tuple[str, int]:
    """The name of a member that begins here, and where its value begins."""
    found = _plain_name(text, at)
    if found:
        return found[1], found.end()
    if text[at] != '"':
        raise NotJson(at)
    name, at = scanstring(text, at + 1, True)
    at = after_space(text, at)
    if text[at] != ":":
        raise NotJson(at)
    return name, after_space(text, at + 1)


def more_at(text: str, at: int, closing: str) -> tuple[bool, int]:
    """Whether after a value another one follows, and where it begins; else where the object or list has ended."""
    if text[at] in _SPACE:
        at = after_space(text, at)
    if text[at] == ",":
        return True, after_space(text, at + 1)
    if text[at] != closing:
        raise NotJson(at)
    return False, at + 1


def first_at(text: str, at: int, closing: str) -> tuple[bool, int]:
    """Like `more_at`, from the opening bracket."""
    at = after_space(text, at + 1)
    return (False, at + 1) if text[at] == closing else (True, at)


def quoted(text: str) -> str:
    """A JSON string; escaped where UTF-8 could not hold it."""
    return json.dumps(text, ensure_ascii=not is_unicode(text))


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can hold the text: JSON's escapes can spell half of a surrogate pair, UTF-8 cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
