"""A schema in a file."""

from __future__ import annotations

from pathlib import Path

from distributary.errors import ConfigError


def text_of(file: Path) -> str:
    """A schema's text. Raises ConfigError where the file cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is no text in UTF-8, as a schema has to be") from None
