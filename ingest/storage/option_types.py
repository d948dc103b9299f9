"""What the options of all stores are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator

from distributary.values import EmptyIsNone

Config: TypeAlias = dict[str, str | bool]

"""Options by the crate's own names, such as `region`."""


def _web_address(text: str | None) -> str | None:
    if text is None:
        return None
    parts = urlsplit(text)
    if "@" in text:
        # Not quoted: before the @ there may be a secret.
        raise ValueError("addresses get logged: take user and password out of it")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("it is no http or https address; write for example https://storage.example.com:9000")
    return text.rstrip("/")


Text = Annotated[str | None, EmptyIsNone]

Address = Annotated[Text, AfterValidator(_web_address)]


def given(**options: str | bool | None) -> Config:
    """Those of these options that have a value."""
    return {name: value for name, value in options.items() if value is not None}


def at_odds(environment: Mapping[str, str], *names: str) -> Iterator[str]:
    """Which of these variables say something: the crate would take it beside what the settings say, of somebody or something else."""
    return (name for name in names if environment.get(name, "").lower() not in ("", "0", "false"))
