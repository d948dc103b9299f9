"""Settings of a simulation that were given in Python: by their own names, without a file."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel

from distributary.errors import ConfigError
from distributary.ingest.settings.check import model_in


def as_given(part: Any) -> Any:
    """A model as the settings that were given to it; anything else as it is."""
    if not isinstance(part, BaseModel):
        return part
    return {name: getattr(part, name) for name in sorted(part.model_fields_set)}


def in_their_parts(
    model: type[BaseModel], settings: Mapping[str, Any], below: Mapping[str, Any]
) -> dict[str, Any]:
    """Settings sorted into their parts, over those below. Raises ConfigError for one that is in no part."""
    parts = {name: part for part, members in _parts(model).items() for name in members}
    unknown = [name for name in settings if name not in parts and name not in model.model_fields]
    if unknown:
        raise ConfigError("; ".join(_unknown(name, [*parts, *model.model_fields]) for name in unknown))
    found = {name: as_given(part) for name, part in below.items()}
    found |= {name: as_given(value) for name, value in settings.items() if name not in parts}
    for name in settings:
        if name in parts:
            found[parts[name]] = {**found.get(parts[name], {}), name: settings[name]}
    return found


def _parts(model: type[BaseModel]) -> dict[str, list[str]]:
    found = {name: model_in(info.annotation) for name, info in model.model_fields.items()}
    return {name: [*part.model_fields] for name, part in found.items() if part is not None}


def _unknown(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, n=1)
    remedy = f"did you mean {close[0]}?" if close else f"there are: {', '.join(known)}"
    return f"no setting is called {name}; {remedy}"
