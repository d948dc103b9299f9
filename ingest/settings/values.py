"""What settings are made of: frozen groups, folders, files, secrets."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationInfo, WithJsonSchema

from distributary.ingest.settings.problems import Misfits


class Group(BaseModel):
    """What all groups have in common: frozen, no unknown settings, no values in error messages."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True
    )


def _empty_is_none(value: Any) -> Any:
    # `${TOKEN:-}` is how a file says: a secret if there is one.
    return None if value == "" else value


def _folder(value: Any, info: ValidationInfo) -> Any:
    """An absolute path: `~` expanded, a relative one taken from the settings file's folder."""
    if isinstance(value, str):
        if "://" in value:
            scheme = value.partition("://")[0]
            raise ValueError(
                f"{scheme}:// is not supported: driver and workers write a POSIX file system that both see; "
                "mount the storage and write its path"
            )
        if not value.strip() or "\0" in value:
            raise ValueError("it is empty; write a folder, for example ./lake")
        if "%" in value:
            raise ValueError("delta-rs takes % in a path for the start of an escape; write a path without it")
    if not isinstance(value, str | Path):
        raise Misfits(((), "it must be a path; write a folder, for example ./lake"))
    base = (info.context or {}).get("folder", Path.cwd())
    try:
        expanded = Path(value).expanduser()
    except RuntimeError:
        raise ValueError("the home folder behind ~ is not known; write the whole path") from None
    return Path(os.path.abspath(Path(base) / expanded))


Folder = Annotated[Path, BeforeValidator(_folder)]

EmptyIsNone = BeforeValidator(_empty_is_none)

OptionalFile = Annotated[Folder | None, EmptyIsNone]

Secret = Annotated[SecretStr | None, EmptyIsNone]

Name = Annotated[str, Field(min_length=1)]

_BYTES = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
}

_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}

_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*")


def bytes_of(value: Any) -> Any:
    """`"192 MiB"` as a number of bytes; anything that is not a text with a unit is left as it is."""
    found = _with_unit(value)
    if found is None:
        return value
    number, unit = found
    if unit not in _BYTES:
        raise ValueError(f"no size has the unit {unit!r}; write a number of bytes, or for example 192 MiB")
    return round(number * _BYTES[unit])


def seconds_of(value: Any) -> Any:
    """`"10 s"` as a number of seconds; anything that is not a text with a unit is left as it is."""
    found = _with_unit(value)
    if found is None:
        return value
    number, unit = found
    if unit not in _SECONDS:
        raise ValueError(f"no duration has the unit {unit!r}; write a number of seconds, or for example 10 s")
    return number * _SECONDS[unit]


def _with_unit(value: Any) -> tuple[float, str] | None:
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    return (float(match[1]), match[2].lower()) if match else None


def _or_text(kind: str, example: str, **bounds: int) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": kind, **bounds}, {"type": "string", "examples": [example]}]})


Bytes = Annotated[int, Field(ge=1), BeforeValidator(bytes_of), _or_text("integer", "192 MiB", minimum=1)]

Seconds = Annotated[
    float,
    Field(ge=0, allow_inf_nan=False),
    BeforeValidator(seconds_of),
    _or_text("number", "10 s", minimum=0),
]

PositiveSeconds = Annotated[
    float,
    Field(gt=0, allow_inf_nan=False),
    BeforeValidator(seconds_of),
    _or_text("number", "10 s", exclusiveMinimum=0),
]
