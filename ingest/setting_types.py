"""What settings are made of: frozen groups, folders, files, secrets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationInfo

from distributary.ingest.setting_problems import Misfits


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
