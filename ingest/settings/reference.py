"""The settings as JSON Schema, for editors, and as a page of the reference."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from distributary.values import Keys, dotted

_VARIABLE = {
    "type": "string",
    "pattern": r"\$\{|\{(env|name|topic)\}",
    "description": "filled in from outside",
}

_CLOSED = ("enum", "const", "pattern")

_WORDS = {
    "path": "path",
    "date-time": "point in time",
    "place": "path or URL",
    "password": "secret text",
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "`true` or `false`",
    "object": "mapping of names to values",
}

_HEAD = """\
# Settings

A pipeline is one YAML file. Relative paths are relative to its folder, and `~` is the home folder. `${VAR}` in any
value is filled in from the environment, `${VAR:-default}` also without it, and `$${` stands for `${`; between `{`
and `}` YAML wants such a value in quotes. `${file:/run/secrets/password}` is what a file has, and `${command:…}` what a command writes,
which is for secrets only. Secrets come from these three and are never shown. In names and places `{name}`, `{env}` and `{topic}` are filled in:
[one file for several environments](../how-to/parametrise.md) has all of it.
All mistakes in a file are reported at once, each with its line, its column and what to write instead.

Each command that takes such a file (but for those of `schema`, which take `--registry` instead) takes `--set KEY=VALUE`, too, as often as there is
something to say for once instead of what the file says: `--set sink.root=./trial --set source.topics=[a, b]`. The value is YAML, as in the file, relative paths and `${VAR}` as well. `tables[0].mode` is of an
item of a list that the file has. A name that has dots itself is found where the file has it, and stands in quotes where it has not: `'source.kafka."group.id"=trial'`.

This page is generated from the settings' own definitions.
"""


def json_schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """A model's JSON Schema, in which every value may also be a text with `${VAR}`."""
    schema: dict[str, Any] = _with_variables(model.model_json_schema())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def page_of(model: type[BaseModel]) -> str:
    """The reference page of a model: one heading a setting, with its type, its default and what it is for."""
    schema = model.model_json_schema()
    return "\n".join([_HEAD, *_sections(schema, schema["$defs"], ())])


def _with_variables(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_with_variables(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    whole = {key: _with_variables(part) for key, part in schema.items()}
    closed = whole.get("type") in ("integer", "number", "boolean") or any(
        isinstance(whole.get(key), str | list) for key in _CLOSED
    )
    if not closed or whole == _VARIABLE:
        return whole
    about = {key: whole.pop(key) for key in ("title", "description", "default") if key in whole}
    return {**about, "anyOf": [whole, _VARIABLE]}


def _sections(group: dict[str, Any], groups: dict[str, Any], above: Keys) -> Iterator[str]:
    for name, setting in group["properties"].items():
        keys = (*above, name)
        below = _group_in(setting, groups)
        # Pydantic leaves a description out that only repeats the group's.
        yield f"{'###' if above else '##'} `{dotted(keys)}`\n"
        yield f"{setting.get('description') or (below or {})['description']}\n"
        if "$ref" not in setting:
            yield f"{_facts(setting, name in group.get('required', ()))}\n"
        if below is not None:
            yield from _sections(below, groups, keys)


def _group_in(setting: dict[str, Any], groups: dict[str, Any]) -> dict[str, Any] | None:
    """The group that a setting is, or may be."""
    values = setting.get("additionalProperties", {})
    ways = [setting, *_item_of(setting), *_ways_of(setting), *([values, *_ways_of(values)] if values else ())]
    names = [way["$ref"].rpartition("/")[2] for way in ways if "$ref" in way]
    return groups[names[0]] if names else None


def _ways_of(setting: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What a setting may be, each by itself."""
    for way in (*setting.get("oneOf", ()), *setting.get("anyOf", ())):
        yield way
        yield from _ways_of(way)


def _item_of(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """What a list of groups has as its items; nothing for any other setting."""
    items = setting.get("items", {})
    return [items] if "$ref" in items else list(_ways_of(items)) if "oneOf" in items else []


def _facts(setting: dict[str, Any], required: bool) -> str:
    if required:
        return f"Type: {_kind(setting)}. Required."
    if "default" not in setting:
        return f"Type: {_kind(setting)}."
    default = setting["default"]
    told = "Optional." if default is None else f"Default: `{json.dumps(default)}`."
    return f"Type: {_kind(setting)}. {told}"


def _kind(setting: dict[str, Any]) -> str:
    """What may be written, in words."""
    for several in ("anyOf", "oneOf"):
        if several in setting:
            kinds = [_kind(way) for way in setting[several] if way.get("type") != "null"]
            return " or ".join(kinds)
    if "enum" in setting or "const" in setting:
        choices = setting.get("enum", [setting.get("const")])
        return " or ".join(f"`{choice}`" for choice in choices)
    if setting.get("type") == "array":
        items = setting["items"]
        return f"list of {' or '.join(f'{_kind(one)}s' for one in items.get('oneOf', [items]))}"
    if "examples" in setting:
        return f"text such as `{setting['examples'][0]}`"
    return _WORDS.get(setting.get("format", ""), _WORDS.get(setting.get("type", ""), "mapping"))
