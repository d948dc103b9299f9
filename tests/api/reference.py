"""Writes docs/reference/python-api.md from the docstrings of the public names: `python -m tests.api.reference`."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import GenericAlias, ModuleType
from typing import Any

from distributary import functions
from distributary.api import PLACES, PUBLIC
from distributary.values import Group

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/python-api.md"

HEAD = """\
# Python API

`import distributary` gives these names, each loaded when it is first used. They, [`distributary.functions`](../how-to/move-a-databricks-notebook.md)
and `distributary.errors` are what a program may rely on; any other module may move from one version to the next. Everything is typed.
[Run a pipeline from Python](../how-to/run-from-python.md) shows them at work.

This page is generated from the docstrings.
"""

# A name and what is said of it, at least two spaces apart.
LISTED = re.compile(r"^(\w[\w.<>, ]*?) {2,}(\S.*)$")

# Longer ones have a parameter a line.
LONGEST = 100


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for heading, names in PUBLIC.items():
        parts.append(f"## {heading}\n")
        parts += [section(name) for name in names]
    parts.append("## `distributary.functions`\n")
    parts += [
        "\n".join([f"### `{name}`\n", *about(name, getattr(functions, name), functions)])
        for name in functions.__all__
    ]
    return "\n".join(parts).rstrip() + "\n"


def section(name: str) -> str:
    """A public name under its heading: how it is called, what is said of it, and of its members."""
    module, _, attribute = PLACES[name].partition(":")
    source = import_module(module)
    value = getattr(source, attribute) if attribute else source
    said = [f"### `{name}`\n", *about(name, value, source)]
    if isinstance(value, type) and module.startswith("distributary."):
        said += [line for member in members(value) for line in member]
    return "\n".join(said)


def about(name: str, value: object, source: ModuleType) -> Iterator[str]:
    if isinstance(value, ModuleType):
        yield rendered(inspect.getdoc(value) or "")
        codes = [word for word in vars(value) if word.isupper() and isinstance(getattr(value, word), str)]
        if codes:
            yield f"Its codes: {', '.join(f'`{code}`' for code in codes)}.\n"
    elif is_class(value) or inspect.isfunction(value):
        if called := signature(name, value):
            yield f"```python\n{called}\n```\n"
        yield rendered(inspect.getdoc(value) or "")
    else:
        yield f"`{value}`\n"
        yield rendered(told_below(source, PLACES[name].partition(":")[2]))


def is_class(value: object) -> bool:
    """Whether it is a class; Python 3.10 takes an alias such as `tuple[int, ...]` for one."""
    return inspect.isclass(value) and not isinstance(value, GenericAlias)


def members(cls: type) -> Iterator[list[str]]:
    """What a user may call or read of a class, each with its docstring."""
    for name, text in attributes(cls):
        yield [f"**`{name}`**: {rendered(text)}"]
    for name, member in vars(cls).items():
        function = getattr(member, "__func__", member)
        said = inspect.getdoc(member)
        # What every group of settings has is for the groups.
        if name.startswith("_") or not said or is_foreign(cls, function) or name in vars(Group):
            continue
        if isinstance(member, property):
            yield [f"**`{name}`**: {rendered(said)}"]
        elif inspect.isfunction(function):
            whose = f"{cls.__name__}." if isinstance(member, classmethod | staticmethod) else ""
            yield [f"**`{whose}{signature(name, function, sys.maxsize)}`**\n", rendered(said)]


def is_foreign(cls: type, member: object) -> bool:
    """Whether somebody else put it there, such as pydantic."""
    function = member.fget if isinstance(member, property) else member
    return inspect.isfunction(function) and not function.__module__.startswith("distributary.")


def attributes(cls: type) -> Iterator[tuple[str, str]]:
    """Fields with a docstring below them, of what a user may write; a settings model's are on a page of their own."""
    if not (getattr(cls, "_is_protocol", False) or inspect.isabstract(cls)):
        return
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    yield from strings_below(tree.body)  # type: ignore[attr-defined] # a class has a body


def told_below(source: ModuleType, name: str) -> str:
    """The docstring that stands below a name of a module."""
    return dict(strings_below(ast.parse(inspect.getsource(source)).body)).get(name, "")


def strings_below(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for above, below in pairwise(body):
        text = ast.literal_eval(below.value) if is_text(below) else None  # type: ignore[attr-defined]
        target = above.targets[0] if isinstance(above, ast.Assign) else getattr(above, "target", None)
        if text is not None and isinstance(target, ast.Name):
            yield target.id, inspect.cleandoc(text)


def is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def signature(name: str, value: Any, longest: int = LONGEST) -> str:
    """How it is called; empty for what nobody calls, or is told of on a page of its own."""
    if inspect.isclass(value) and not (dataclasses.is_dataclass(value) or "__init__" in vars(value)):
        return ""
    if hasattr(value, "model_fields") or getattr(value, "_is_protocol", False):
        return ""
    called = inspect.signature(value)
    given = [one for one in called.parameters.values() if one.name not in ("self", "cls")]
    shown = [parameter_text(one) for one in given]
    by_name = next((n for n, one in enumerate(given) if one.kind is one.KEYWORD_ONLY), None)
    if by_name is not None:
        shown.insert(by_name, "*")
    returned = "" if inspect.isclass(value) else f" -> {annotation(called.return_annotation)}"
    line = f"{name}({', '.join(shown)}){returned}"
    if len(line) <= longest:
        return line
    return "\n".join([f"{name}(", *(f"    {one}," for one in shown), f"){returned}"])


def parameter_text(parameter: inspect.Parameter) -> str:
    kind = "" if parameter.annotation is parameter.empty else f": {annotation(parameter.annotation)}"
    if parameter.default is parameter.empty:
        return f"{parameter.name}{kind}"
    default = repr(parameter.default)
    # A function or a factory has an address in its name.
    return f"{parameter.name}{kind} = {'...' if default.startswith('<') else default}"


def annotation(of: object) -> str:
    return of if isinstance(of, str) else getattr(of, "__name__", str(of))


def rendered(text: str) -> str:
    """A docstring as Markdown: lists of names, examples and drawings as what they are."""
    return "\n".join(map(block, re.split(r"\n{2,}", text.strip()))) if text else ""


def block(text: str) -> str:
    lines = text.splitlines()
    if lines[0].startswith(">>> "):
        return f"```pycon\n{text}\n```\n"
    if any(mark in text for mark in "├└"):
        return f"```text\n{text}\n```\n"
    if LISTED.match(lines[0]) and not lines[0].startswith(" "):
        return listed(lines)
    return f"{text}\n"


def listed(lines: list[str]) -> str:
    items: list[str] = []
    for line in lines:
        found = LISTED.match(line)
        if found:
            names = ", ".join(f"`{name.strip()}`" for name in found[1].split(","))
            items.append(f"- {names}: {found[2]}")
        else:
            items[-1] += f"\n  {line.strip()}"
    return "\n".join(items) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
