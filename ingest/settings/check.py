"""What is wrong with a settings file, held against the model of all settings: each with its place, its key and a remedy.

Of a key that no setting has it is told which one was probably meant. What does not go together is told by the groups
themselves: `wrong()` in `groups.py` and, across groups, in `model.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from distributary.ingest.settings.filling_in.outside import NOT_ASKED
from distributary.ingest.settings.yaml_file import Document
from distributary.passed_on_options import ClientOptions, is_literal_secret
from distributary.values import Keys, Wrong, dotted, is_secret, wrong_by

_FROM_ENVIRONMENT = "secrets come from the environment; write ${VARIABLE} and export the variable, or ${file:/run/secrets/NAME} where a file has it"

_ONLY_SECRETS = "a command gives a secret, such as registry.password, and this is none; write ${VARIABLE}, or ${file:PATH}"


def add_problems(document: Document, model: type[BaseModel], error: ValidationError) -> None:
    """Adds every error to the document's problems."""
    found = error.errors(include_url=False, include_input=False)
    for one in found:
        # Of items that are refused none is left to count.
        if one["type"] == "too_short" and any(_is_within(one, other) for other in found):
            continue
        for keys, message in _problems(document, model, one):
            place = document.keys.get(keys) if one["type"] == "extra_forbidden" else None
            document.complain(keys, message, place)


def _is_within(one: ErrorDetails, other: ErrorDetails) -> bool:
    return len(other["loc"]) > len(one["loc"]) and other["loc"][: len(one["loc"])] == one["loc"]


def refuse_literal_secrets(document: Document, model: type[BaseModel]) -> None:
    """Adds a problem for every secret that is written out in the file, and for what a command gives and is none.

    So whoever runs no command knows all that may be wrong with the others' values.
    """
    secrets = set[Keys]()
    for setting, info in settings_of(model):
        for keys, value in _at(document.settings, setting):
            if is_secret(info) and value not in (None, ""):
                secrets.add(keys)
                _refuse(document, keys)
            if info.annotation is ClientOptions and isinstance(value, Mapping):
                for name, option in value.items():
                    if is_literal_secret(name, NOT_ASKED):
                        secrets.add((*keys, name))
                    if is_literal_secret(name, str(option)):
                        _refuse(document, (*keys, name))
    for keys in document.from_commands - secrets:
        document.complain(keys, _ONLY_SECRETS)


def _refuse(document: Document, keys: Keys) -> None:
    if keys not in document.from_environment:
        document.complain(keys, _FROM_ENVIRONMENT)


def _problems(document: Document, model: type[BaseModel], error: ErrorDetails) -> list[Wrong]:
    keys = _in_file(document, error)
    if error["type"] == "extra_forbidden":
        return [(keys, _unknown(model, keys))]
    if error["type"] == "string_type" and document.has((*keys, 0)):
        # In quotes it would be a text of brackets.
        return [(keys, "it must be one text, and no list")]
    return [((*keys, *below), message) for below, message in wrong_by(error)]


def _in_file(document: Document, error: ErrorDetails) -> Keys:
    """The error's keys without what pydantic adds for unions: those the file has, and the last one if it is missing."""
    keys: Keys = ()
    for part in error["loc"]:
        if document.has((*keys, part)):
            keys = (*keys, part)
    missing = error["loc"][-1:] if error["type"] == "missing" else ()
    return (*keys, *missing)


def _unknown(model: type[BaseModel], keys: Keys) -> str:
    keys = _as_declared(model, keys)
    meant = nearest(model, keys)
    if meant:
        return f"no setting is called so; did you mean {meant}?"
    known = siblings_of(model, keys)
    inside = f"{dotted(keys[:-1])} knows" if keys[:-1] else "there are"
    return f"no setting is called so; {inside}: {', '.join(known)}"


def _as_declared(model: type[BaseModel], keys: Keys) -> Keys:
    """The keys of an unknown setting without items' numbers and without names of the user's, such as that of an expectation."""
    *around, last = (key for key in keys if isinstance(key, str))
    declared: list[str] = []
    here: type[BaseModel] | None = model
    for key in around:
        if here is not None and key in here.model_fields:
            declared.append(key)
            here = model_in(here.model_fields[key].annotation)
    return (*declared, last)


def _at(settings: Any, keys: Keys, above: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """What the file has of a setting, with its keys there: once an item, where it is in a list of groups."""
    if keys and isinstance(settings, list | tuple):
        for place, item in enumerate(settings):
            yield from _at(item, keys, (*above, place))
    elif keys and isinstance(settings, Mapping) and keys[0] in settings:
        yield from _at(settings[keys[0]], keys[1:], (*above, keys[0]))
    elif not keys:
        yield above, settings


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
