"""The settings as a tree of models: which keys there are below which."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from distributary.ingest.setting_problems import Keys, dotted


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The model that a field's type is or may be, if any."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := model_in(part))), None)


def settings_of(model: type[BaseModel], above: Keys = ()) -> Iterator[tuple[Keys, FieldInfo]]:
    """Every setting below a model with its keys, a group before its members."""
    for name, info in model.model_fields.items():
        yield (*above, name), info
        below = model_in(info.annotation)
        if below is not None:
            yield from settings_of(below, (*above, name))


def nearest(model: type[BaseModel], unknown: Keys) -> str | None:
    """The known setting that an unknown one was probably meant to be, dotted: a sibling, or one of that name elsewhere."""
    every = [keys for keys, _ in settings_of(model)]
    siblings = [str(keys[-1]) for keys in every if keys[:-1] == unknown[:-1]]
    wanted = str(unknown[-1])
    close = get_close_matches(wanted.lower().replace("-", "_"), siblings, n=1)
    if close:
        return dotted((*unknown[:-1], close[0]))
    elsewhere = [keys for keys in every if keys[-1] == wanted]
    return dotted(elsewhere[0]) if elsewhere else None


def siblings_of(model: type[BaseModel], keys: Keys) -> list[str]:
    """The settings known beside this one."""
    return [str(other[-1]) for other, _ in settings_of(model) if other[:-1] == keys[:-1]]
