"""The arguments of `decode`, checked: what is not one of its values is told at the call, not taken for another in a worker.

What a type says is checked, too: in a notebook nothing else does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from distributary.codecs.notebook.frame import Shape
from distributary.codecs.notebook.query import Wanted
from distributary.codecs.option_values import mode_of, one_of, text_of
from distributary.errors import ConfigError
from distributary.registry.base import SchemaRegistry
from distributary.registry.confluent.options import RegistryOptions


def check_subject(registry: str | RegistryOptions | SchemaRegistry, subject: str) -> None:
    """Raises ConfigError, naming the argument, what was given, and what is allowed."""
    if isinstance(registry, str):
        text_of("decode: registry", registry)
    elif not (isinstance(registry, RegistryOptions) or callable(getattr(registry, "versions", None))):
        raise ConfigError(
            f"decode: registry is {registry!r}; it must be an address, RegistryOptions or a registry itself"
        )
    text_of("decode: subject", subject)


def check_wanted(wanted: Wanted) -> None:
    """Raises ConfigError, naming the argument, what was given, and what is allowed."""
    _check_texts(format=wanted.codec, message=wanted.message, reader_schema=wanted.reader)
    one_of("decode: version", wanted.version, ("latest", "all"))
    one_of("decode: evolution", wanted.evolution, ("restart", "none"))
    if wanted.version == "all" and wanted.reader is not None:
        raise ConfigError(
            "decode: version is 'all' and there is a reader_schema, which alone says what columns there are; give one of them"
        )
    if not (wanted.options is None or isinstance(wanted.options, Mapping)):
        raise ConfigError(
            f"decode: options is {wanted.options!r}; it must be a dict of options by their names, or None"
        )


def checked(shape: Shape) -> Shape:
    """The shape, its mode as it is written here. Raises ConfigError as the others do."""
    text_of("decode: column", shape.column)
    _check_texts(into=shape.into, headers=shape.headers)
    if shape.payload != shape.column:
        one_of("decode: payload", shape.payload, ("value", "key"))
    return replace(shape, mode=mode_of("decode: mode", shape.mode))


def _check_texts(**given: str | None) -> None:
    for name, value in given.items():
        if value is not None:
            text_of(f"decode: {name}", value)
