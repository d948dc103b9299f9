"""Which fields a routing expression reads, as far as its words tell: a plan is made without a Spark to ask."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.type_fit import is_list
from distributary.ingest.fixed_columns import words_of
from distributary.ingest.layout import source_of

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
