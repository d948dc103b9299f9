"""Names as a rule's `match` has them: exact, with `*` and `?`, or `/regex/`; and whether one pattern takes all names of another.

Expressions are RE2's, whose time grows with the name alone: names come from records.
https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc


class _Any(Enum):
    """What a glob has in place of a character: one of any kind, or however many."""

    ONE, MANY = "?", "*"


# A character or a place for others, one after the other.
_Glob: TypeAlias = tuple[str | _Any, ...]

# Whether one glob takes all names of another is looked for in so many steps; nobody is told of one that takes more.
_MOST_STEPS = 10_000

# What an expression may have that is a glob in other words.
_WORD = re.compile(r"(?P<many>\.\*)|(?P<one>\.)|\\(?P<quoted>[^\w\s])|(?P<plain>[\w\s/:;,@#%&='\"<>~!-])")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern of names.

    text   as it is written
    folds  whether names that differ only by case are one, as for `route.fold_case`
    """

    text: str
    folds: bool

    @property
    def is_regex(self) -> bool:
        """Whether it is an expression between slashes."""
        return len(self.text) > 1 and self.text.startswith("/") and self.text.endswith("/")

    @property
    def is_exact(self) -> bool:
        """Whether it is one name."""
        return not self.is_regex and not set("*?") & set(self.text)

    def refusal(self) -> str:
        """Why it is no pattern; empty where it is one."""
        try:
            self.fits("")
        except pa.ArrowInvalid as error:
            return str(error).removeprefix("Invalid regular expression: ").replace(_ANY_LINE, "")
        return ""

    def fits(self, name: str) -> bool:
        """Whether it is a pattern of this name. Raises ArrowInvalid where it is none at all."""
        name = name.casefold() if self.folds else name
        if self.is_exact:
            return name == self._folded
        # A half of a surrogate pair is no text to Arrow.
        names = pa.array([name.encode("utf-8", "replace").decode()])
        pattern = _ANY_LINE + self.text[1:-1] if self.is_regex else _expression(self._folded)
        found = pc.match_substring_regex(names, pattern, ignore_case=self.folds)
        return bool(found[0].as_py())

    def covers(self, other: Pattern) -> bool:
        """Whether every name that fits the other fits this one, as far as that can be told: of expressions it can where they are globs in other words."""
        if self == other:
            return True
        if other.is_exact:
            return self.fits(other.text)
        mine, theirs = self._glob(), other._glob()
        if mine is not None and set(mine) <= {_Any.MANY}:
            return True
        return mine is not None and theirs is not None and _covers(mine, theirs)

    @property
    def _folded(self) -> str:
        return self.text.casefold() if self.folds else self.text

    def _glob(self) -> _Glob | None:
        """What it is as a glob; None for an expression that says more than a glob can."""
        if not self.is_regex:
            return _glob(self._folded)
        inner = self.text[1:-1]
        begins, ends = inner.startswith("^"), inner.endswith("$") and not inner.endswith("\\$")
        inner = inner[begins : len(inner) - ends]
        found = _words(inner)
        if found is None:
            return None
        before, behind = (() if anchored else (_Any.MANY,) for anchored in (begins, ends))
        return (*before, *_in_one_case(found, self.folds), *behind)


def is_pattern(text: str) -> bool:
    """Whether a text is an expression between slashes."""
    return Pattern(text, folds=False).is_regex


def _glob(text: str) -> _Glob:
    places = {place.value: place for place in _Any}
    return tuple(places.get(character, character) for character in text)


def _expression(glob: str) -> str:
    parts = (_QUOTED[place] if isinstance(place, _Any) else _literal(place) for place in _glob(glob))
    return f"{_ANY_LINE}^{''.join(parts)}$"


# A name may hold line breaks, which are characters like others.
_ANY_LINE = "(?s)"

_QUOTED = {_Any.ONE: ".", _Any.MANY: ".*"}


def _literal(character: str) -> str:
    return f"\\x{{{ord(character):x}}}"


def _words(expression: str) -> list[str | _Any] | None:
    """The parts of an expression that is a glob in other words; None of one that is not."""
    found: list[str | _Any] = []
    place = 0
    while place < len(expression):
        word = _WORD.match(expression, place)
        if word is None:
            return None
        following = expression[word.end() : word.end() + 1]
        if following and following in "*+?{" and not (following == "*" and word["one"]):
            return None
        if word["many"] or word["one"]:
            found.append(_Any.MANY if word["many"] else _Any.ONE)
        else:
            found.append(word["quoted"] or word["plain"])
        place = word.end()
    return found


def _in_one_case(parts: Iterable[str | _Any], folds: bool) -> Iterable[str | _Any]:
    for part in parts:
        if isinstance(part, _Any) or not folds:
            yield part
        else:
            yield from part.casefold()


def _covers(wide: _Glob, narrow: _Glob) -> bool:
    """Whether `wide` takes every text of `narrow`: no text leads to the end of `narrow` and not to that of `wide`."""
    # Any character that neither names is like any other that neither names.
    letters = {part for part in (*wide, *narrow) if isinstance(part, str)} | {""}
    todo = [(_reached({0}, narrow), _reached({0}, wide))]
    seen = set(todo)
    while todo:
        here, there = todo.pop()
        if len(narrow) in here and len(wide) not in there:
            return False
        for letter in letters:
            after = (_after(here, letter, narrow), _after(there, letter, wide))
            if after[0] and after not in seen:
                seen.add(after)
                todo.append(after)
        if len(seen) > _MOST_STEPS:
            return False
    return True


def _reached(places: Iterable[int], glob: _Glob) -> frozenset[int]:
    """Where one may be without another character: a place for many may have none."""
    found = set(places)
    for place in range(len(glob)):
        if place in found and glob[place] is _Any.MANY:
            found.add(place + 1)
    return frozenset(found)


def _after(places: Iterable[int], letter: str, glob: _Glob) -> frozenset[int]:
    """Where one may be with this character."""
    moved = {
        place if glob[place] is _Any.MANY else place + 1
        for place in places
        if place < len(glob) and (isinstance(glob[place], _Any) or glob[place] == letter)
    }
    return _reached(moved, glob)
