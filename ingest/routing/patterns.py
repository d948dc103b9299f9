"""Patterns of `like` and of Java's regular expressions as Arrow matches them: where both say the same of every text. All others are refused."""

from __future__ import annotations

import re
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from distributary.ingest.routing.kinds import ExpressionRefused, beyond

_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"

_ALWAYS = {".": f"[^{_LINE_ENDS}]", "^": r"\A", "|": "|"}

LINE_END = r"(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])\z"
"""The end of a line at the end of a text, before which Java's `$` matches, too."""

# What Java means by these, within brackets and without.
_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": r" \t\n\x0B\f\r"}
_CONTROLS = {"t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f"}

_COUNTED = re.compile(r"\{(\d{1,3})(,(\d{0,3}))?\}")

_MEANS_SOMETHING = frozenset(r"\.[]{}()*+-?^$|&")


@lru_cache(maxsize=256)
def like(pattern: str) -> tuple[str, bool]:
    r"""The regular expression of a pattern of `like`, in which `\` goes before `%`, `_` and itself. Raises ConfigError for another use of it."""
    parts, escaped = [r"(?s)\A"], False
    for char in pattern:
        if escaped and char not in "%_\\":
            raise ExpressionRefused(
                r"like has a \ before what is neither %, _ nor \; write \\ for the character"
            )
        if not escaped and char == "\\":
            escaped = True
            continue
        parts.append(_literal(char) if escaped else {"%": ".*", "_": "."}.get(char) or _literal(char))
        escaped = False
    if escaped:
        raise ExpressionRefused(r"like ends with a single \; write \\ for the character")
    return "".join([*parts, r"\z"]), False


@lru_cache(maxsize=256)
def regular(pattern: str) -> tuple[str, bool]:
    """A regular expression of Java's as Arrow has it, and whether a text without the end of its last line matches as well.

    Raises ConfigError for what means another thing there, is told apart by how it is searched, or is too large for it.
    """
    told, chops = _Translation(pattern).whole()
    try:
        pc.match_substring_regex(pa.array([""]), told)
    except pa.ArrowInvalid as error:
        # What it says is of the pattern alone.
        raise beyond(f"rlike has a pattern that is too large or none ({error})") from None
    return told, chops


def _literal(char: str) -> str:
    return f"\\{char}" if char in _MEANS_SOMETHING else _plain(char)


def _plain(char: str) -> str:
    if char == "\0":
        return r"\x00"
    return char


class _Translation:
    """A pattern, read from its beginning to its end."""

    def __init__(self, pattern: str) -> None:
        self._left, self._depth, self._chops = pattern, 0, False

    def whole(self) -> tuple[str, bool]:
        found = "".join(self._parts())
        if self._depth:
            raise ExpressionRefused("rlike has a ( without its )")
        return found, self._chops

    def _parts(self) -> list[str]:
        found: list[str] = []
        repeatable = False
        while self._left:
            char, self._left = self._left[0], self._left[1:]
            if char in "*+?{":
                if not repeatable:
                    raise self._beyond(f"{char} where nothing is to be repeated")
                found.append(self._repeated(char))
                repeatable = False
                continue
            found.append(self._one(char))
            repeatable = char not in "^$|("
        return found

    def _one(self, char: str) -> str:
        if char in "()":
            return self._group(char)
        if char in _ALWAYS:
            return _ALWAYS[char]
        if char == "$":
            return self._end()
        if char == "[":
            return self._brackets()
        if char == "\\":
            return self._escaped(inside=False)
        if char in "]}":
            raise self._beyond(f"a single {char}")
        return _literal(char)

    def _group(self, char: str) -> str:
        self._depth += 1 if char == "(" else -1
        if self._depth < 0:
            raise ExpressionRefused("rlike has a ) without its (")
        if char == "(" and self._left.startswith("?"):
            if not self._left.startswith("?:"):
                raise self._beyond("a group that begins with (?")
            self._left = self._left[2:]
        return "(?:" if char == "(" else ")"

    def _end(self) -> str:
        if self._depth or (self._left and not self._left.startswith("|")):
            raise self._beyond("$ amid it")
        self._chops = True
        return r"\z"

    def _repeated(self, char: str) -> str:
        count = char
        if char == "{":
            told = _COUNTED.match("{" + self._left)
            if told is None or (told[3] and int(told[3]) < int(told[1])):
                raise self._beyond("a { that begins no count up to 999")
            count, self._left = told[0], self._left[len(told[0]) - 1 :]
        if self._left.startswith("+"):
            raise self._beyond(f"{count}+, which gives nothing back")
        if self._left.startswith("?"):
            count, self._left = f"{count}?", self._left[1:]
        return count

    def _escaped(self, *, inside: bool) -> str:
        char, self._left = self._left[:1], self._left[1:]
        if char.lower() in _CLASSES and char.isascii() and char:
            if inside and char.isupper():
                raise self._beyond(f"\\{char} within brackets")
            members = _CLASSES[char.lower()]
            return members if inside else f"[{'^' if char.isupper() else ''}{members}]"
        if char in _CONTROLS:
            return _CONTROLS[char]
        if not char or char.isalnum() or not char.isascii():
            raise self._beyond(f"\\{char}")
        return _literal(char)

    def _brackets(self) -> str:
        found = ["["]
        if self._left.startswith("^"):
            found.append("^")
            self._left = self._left[1:]
        if self._left.startswith("]"):
            raise self._beyond("[]")
        while not self._left.startswith("]"):
            if not self._left:
                raise ExpressionRefused("rlike has a [ without its ]")
            found.append(self._member())
        self._left = self._left[1:]
        return "".join([*found, "]"])

    def _member(self) -> str:
        """One character of those in brackets, a range of them, or a class."""
        first, is_class = self._character()
        if is_class or not self._left.startswith("-") or self._left[1:2] == "]":
            return first
        self._left = self._left[1:]
        last, is_class = self._character()
        if is_class:
            raise self._beyond("a range up to a class")
        return f"{first}-{last}"

    def _character(self) -> tuple[str, bool]:
        char, self._left = self._left[:1], self._left[1:]
        if char == "\\":
            is_class = self._left[:1] in _CLASSES
            return self._escaped(inside=True), is_class
        if not char or char in "[&^]":
            raise self._beyond(f"{char or 'a range without an end'} within brackets")
        return _literal(char), False

    @staticmethod
    def _beyond(what: str) -> ExpressionRefused:
        return beyond(f"rlike has {what}")
