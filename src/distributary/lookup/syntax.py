"""Whether the text of a schema in a file is one at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from distributary.errors import BadSchema, ConfigError

if TYPE_CHECKING:
    from distributary.registry.base import Schema


def check_syntax(file: Path, schema: Schema) -> None:
    """Raises ConfigError, which names the file and what is wrong with it, for a text that is no schema of its type.

    Whether a table can be made of it is not asked.
    """
    try:
        _parse(schema)
    except BadSchema as error:
        raise ConfigError(f"{file}: {error}") from None


def _parse(schema: Schema) -> None:
    from distributary.codecs.avro.types.schema import parse_schema
    from distributary.registry.protobuf.text import compile_text

    if schema.type == "AVRO":
        parse_schema(schema.text, schema.imports)
    elif schema.type == "PROTOBUF":
        compile_text(schema.text, schema.imports)
    elif schema.type == "JSON":
        _parse_json(schema.text)


def _parse_json(text: str) -> None:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise BadSchema(f"the schema is no JSON ({error})") from None
    except RecursionError:
        raise BadSchema("the schema is nested too deeply") from None
    if not isinstance(value, dict | bool):
        raise BadSchema("a JSON Schema is an object, or true or false")
