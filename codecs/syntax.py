"""Whether the text of a schema is one at all; whether a table can be made of it is not asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from distributary.codecs.avro.types.schema import parse_schema
from distributary.errors import BadSchema
from distributary.registry.base import Schema, SchemaType
from distributary.registry.protobuf.text import compile_text


def check_syntax(schema: Schema) -> None:
    """Raises BadSchema, which says what is wrong with it, for a text that is no schema of its type."""
    _PARSERS.get(schema.type, _nothing)(schema.text, schema.imports)


def _json(text: str, imports: Mapping[str, str]) -> None:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise BadSchema(f"the schema is no JSON ({error})") from None
    except RecursionError:
        raise BadSchema("the schema is nested too deeply") from None
    if not isinstance(value, dict | bool):
        raise BadSchema("a JSON Schema is an object, or true or false")


def _nothing(text: str, imports: Mapping[str, str]) -> None:
    """What is inferred is well-formed."""


_PARSERS: Mapping[SchemaType, Callable[[str, Mapping[str, str]], object]] = {
    "AVRO": parse_schema,
    "PROTOBUF": compile_text,
    "JSON": _json,
}
