"""The arguments of `decode`, checked: what is not one of its values is told at the call, not taken for another in a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from distributary.codecs.notebook.frame import Shape
from distributary.codecs.notebook.query import Wanted
from distributary.codecs.option_values import mode_of, one_of, text_of
from distributary.errors import ConfigError
from distributary.registry.base import SchemaRegistry
from distributary.registry.confluent.options import RegistryOptions


@dataclass(frozen=True, slots=True)
class DecodeArguments:
    """What a call of `decode` asks for, every part of it of a kind that it may be."""

    registry: str | RegistryOptions | SchemaRegistry
    subject: str
    wanted: Wanted
    shape: Shape


def decode_arguments(**given: object) -> DecodeArguments:
    """The arguments by their names. Raises ConfigError, naming the one that is wrong, what was given, and what is allowed."""
    optional = ("format", "message", "into", "headers", "reader_schema")
    text = {name: None if given[name] is None else text_of(_said(name), given[name]) for name in optional}
    column, subject = (text_of(_said(name), given[name]) for name in ("column", "subject"))
    payload = given["payload"]
    version = one_of(_said("version"), given["version"], ("latest", "all"))
    if version == "all" and text["reader_schema"] is not None:
        raise ConfigError(
            "decode: version is 'all' and there is a reader_schema, which alone says what columns there are; give one of them"
        )
    wanted = Wanted(
        text["format"],
        text["message"],
        version,  # type: ignore[arg-type]
        one_of(_said("evolution"), given["evolution"], ("restart", "none")),  # type: ignore[arg-type]
        text["reader_schema"],
        options=_options(given["options"]),
    )
    shape = Shape(
        column=column,
        headers=text["headers"],
        payload=column if payload is None else one_of(_said("payload"), payload, ("value", "key")),
        into=text["into"],
        mode=mode_of(_said("mode"), given["mode"]),
    )
    return DecodeArguments(_registry(given["registry"]), subject, wanted, shape)


def _said(name: str) -> str:
    return f"decode: {name}"


def _options(given: object) -> Mapping[str, str] | None:
    if given is None or isinstance(given, Mapping):
        return given
    raise ConfigError(f"decode: options is {given!r}; it must be a dict of options by their names, or None")


def _registry(given: object) -> str | RegistryOptions | SchemaRegistry:
    if isinstance(given, str):
        return text_of(_said("registry"), given)
    if isinstance(given, RegistryOptions) or callable(getattr(given, "versions", None)):
        return cast("RegistryOptions | SchemaRegistry", given)
    raise ConfigError(
        f"decode: registry is {given!r}; it must be an address, RegistryOptions or a registry itself"
    )
