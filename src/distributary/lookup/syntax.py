"""Whether the text of a schema in a file is one at all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from distributary.errors import BadSchema, ConfigError

if TYPE_CHECKING:
    from distributary.registry.base import Schema


def check_syntax(file: Path, schema: Schema) -> None:
    """Raises ConfigError, which names the file and what is wrong with it, for a text that is no schema of its type."""
    from distributary.codecs import syntax

    try:
        syntax.check_syntax(schema)
    except BadSchema as error:
        raise ConfigError(f"{file}: {error}") from None
