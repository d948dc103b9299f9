"""What a routing expression's text tells by itself: brackets and quotes left open, functions that workers do not know."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.types.fit import is_list
from distributary.errors import ConfigError
from distributary.ingest.columns.layout import source_of
from distributary.ingest.columns.names import words_of
from distributary.ingest.routing.functions import AT_MOST, BY_NAME, FUNCTIONS, beyond

_TOKENS = re.compile(
    r"""(?P<text>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
    r"""|(?P<name>(?:`(?:[^`]|``)+`|\w+)(?:\s*\.\s*(?:`(?:[^`]|``)+`|[^\W\d]\w*))*)|(?P<comment>--|/\*)|(?P<sign>\S)""",
    re.DOTALL,
)

_CLOSES = {")": "(", "]": "["}

# Signs that something must follow.
_UNFINISHED = frozenset({",", "|", "="})

# Words of the language that a bracket may follow.
_WORDS = frozenset(
    [
        "all",
        "and",
        "any",
        "as",
        "between",
        "both",
        "by",
        "case",
        "collate",
        "cast",
        "distinct",
        "div",
        "else",
        "escape",
        "exists",
        "filter",
        "for",
        "from",
        "ilike",
        "in",
        "is",
        "leading",
        "like",
        "not",
        "on",
        "or",
        "order",
        "over",
        "partition",
        "regexp",
        "rlike",
        "some",
        "sort",
        "then",
        "to",
        "trailing",
        "try_cast",
        "using",
        "when",
        "where",
        "within",
    ]
)

# With these, arguments are not told apart by commas.
_SEPARATING = frozenset({"both", "distinct", "for", "from", "leading", "trailing"})


@dataclass(slots=True)
class _Bracket:
    """One that is open: where, the function that it belongs to, if any, and what is in it so far."""

    sign: str
    at: int
    function: str = ""
    filled: bool = False
    commas: int = 0
    by_commas: bool = True

    def take(self, found: re.Match[str]) -> None:
        self.filled = True
        self.commas += found[0] == ","
        self.by_commas = self.by_commas and found[0].lower() not in _SEPARATING


def check_text(text: str, *, native: bool) -> None:
    """Raises ConfigError for what cannot be right; a run has Spark's parser, which finds whatever else there is.

    `native` says whether workers evaluate the expression, which know but some functions.
    """
    tokens = list(_TOKENS.finditer(text))
    # What is in a comment is no part of it, and what looks like one may be none.
    if any(found["comment"] for found in tokens):
        return
    calls = list(_calls(tokens))
    for call in calls if native else ():
        _check(call)


def _calls(tokens: list[re.Match[str]]) -> Iterator[_Bracket]:
    """The calls of functions, each when it is closed."""
    stack = [_Bracket("", 0)]
    before, last = "", ""
    for found in tokens:
        sign = found["sign"] or ""
        if sign in "\"'`" and sign:
            raise _no_expression(f"the {sign} at {_at(found)} is not closed")
        if last in _UNFINISHED and sign in (*_CLOSES, ","):
            raise _no_expression(f"something is missing before the {sign} at {_at(found)}")
        if sign in _CLOSES:
            if stack[-1].sign != _CLOSES[sign]:
                raise _no_expression(f"the {sign} at {_at(found)} closes nothing")
            if (closed := stack.pop()).function:
                yield closed
        else:
            stack[-1].take(found)
        if sign in _CLOSES.values() and sign:
            stack.append(_Bracket(sign, found.start(), _function(before, last) if sign == "(" else ""))
        before, last = last, found[0]
    if len(stack) > 1:
        raise _no_expression(f"the {stack[-1].sign} at character {stack[-1].at + 1} is not closed")
    if last in _UNFINISHED or not last:
        raise _no_expression("it ends where something must follow")


def _function(before: str, name: str) -> str:
    """The function that a bracket behind these two belongs to; none behind a word of the language, or a type."""
    is_name = bool(re.match(r"`|[^\W\d]", name))
    is_type = before.lower() == "as"
    return "" if not is_name or is_type or name.lower() in _WORDS else name.replace("`", "")


def _check(call: _Bracket) -> None:
    name = call.function
    known = BY_NAME.get(name.lower())
    if known is None:
        raise beyond(f"it uses the function {name}")
    takes, count = FUNCTIONS[known], call.commas + call.filled
    if count > AT_MOST.get(name.lower(), count):
        raise beyond(f"it uses the function {name} in a way")
    most = takes.arguments[1] + len(takes.options)
    if call.by_commas and not takes.arguments[0] + takes.needed <= count <= most:
        raise ConfigError(f"route.expression: {name} does not take {count} arguments")


def _no_expression(why: str) -> ConfigError:
    return ConfigError(f"route.expression is no Spark SQL expression: {why}")


def _at(found: re.Match[str]) -> str:
    return f"character {found.start() + 1}"


_TEXT = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""

_TEXTS = re.compile(_TEXT)

# `at['game']` is the field `game` of a struct, or a map's value.
_PLACES = re.compile(rf"\[\s*({_TEXT})\s*\]")

# What a path goes through without a word of it in an expression, which says `tags[0].id`.
_NAMELESS = frozenset({"element", "key", "value"})


def reads(expression: str, path: tuple[str, ...], columns: pa.Schema) -> bool:
    """Whether the expression names the field at this path in the payload's names, rather once too often than too seldom.

    `columns` tell which of the path's steps are a list's elements or a map's keys and values.
    """
    words = words_of(_TEXTS.sub(" ", expression))
    inside = words.union(*(words_of(text) for text in _PLACES.findall(expression)))
    first, *others = _names(path, columns)
    return bool(words) and words_of(first) <= words and all(words_of(name) <= inside for name in others)


def _names(path: tuple[str, ...], columns: pa.Schema) -> Iterator[str]:
    """The steps of a path that are names of fields; of types that `columns` do not have, those that must be."""
    around: pa.DataType | None = pa.struct(list(columns))
    for step in path:
        nameless = step in _NAMELESS if around is None else not kinds.is_struct(around)
        if not nameless:
            yield step
        around = None if around is None else _inside(around, step)


def _inside(around: pa.DataType, step: str) -> pa.DataType | None:
    if is_list(around):
        return around.value_type
    if kinds.is_map(around):
        return around.key_type if step == "key" else around.item_type
    if not kinds.is_struct(around):
        return None
    return next((field.type for field in around if source_of(field) == step), None)
