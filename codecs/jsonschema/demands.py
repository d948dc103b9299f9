"""What a JSON Schema demands of records, whatever words stand beside it: columns do not tell ranges, patterns, or what has to be there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

# Words that say something to people, and of which no record is refused.
_WORDS = frozenset(
    {"title", "description", "$comment", "default", "examples", "deprecated", "readOnly", "writeOnly"}
)

# What holds values, and no schemas.
_VALUES = frozenset({"enum", "const"})

# What holds schemas by names that the schema's writer has chosen.
_BY_NAME = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"}
)


def demands(text: str, imports: Mapping[str, str]) -> str:
    """A text that is the same for schemas that refuse the same records, in the same order of words and without what is for people.

    Raises ValueError for what is no JSON, and RecursionError where that is nested too deeply.
    """
    return json.dumps([_of(text), sorted((name, _of(its)) for name, its in imports.items())])


def _of(text: str) -> str:
    # 1 and 1.0 are one number to JSON Schema, and true is none.
    return json.dumps(_plain(json.loads(text, parse_float=_number)), sort_keys=True)


def _number(text: str) -> int | float:
    value = float(text)
    return int(value) if value.is_integer() else value


def _plain(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {word: _word(word, of) for word, of in schema.items() if word not in _WORDS}


def _word(word: str, of: Any) -> Any:
    if word in _VALUES:
        return of
    if word in _BY_NAME and isinstance(of, dict):
        return {name: _plain(one) for name, one in of.items()}
    return _plain(of)
