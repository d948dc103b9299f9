"""A schema in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from distributary.errors import BadSchema, ConfigError

if TYPE_CHECKING:
    from distributary.registry.base import Schema


def text_of(file: Path) -> str:
    """A schema's text. Raises ConfigError where the file cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is no text in UTF-8, as a schema has to be") from None


def check_syntax(file: Path, schema: Schema) -> None:
    """Raises ConfigError, which names the file and what is wrong with it, for a text that is no schema of its type."""
    from distributary.codecs import syntax

    try:
        syntax.check_syntax(schema)
    except BadSchema as error:
        raise ConfigError(f"{file}: {error}") from None
