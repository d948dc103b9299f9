"""A YAML file read with the place of every key and value, and with `${VAR}` filled in from the environment."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from distributary.errors import ConfigError
from distributary.ingest.settings.problems import Place, Problem, as_error
from distributary.values import Keys

_TOP = Place(1, 1)

_VARIABLE = re.compile(
    r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|(?P<broken>\$\{)"
)


@dataclass
class Document:
    """What a file says, and where it says it.

    path              None for settings that stand in no file
    keys, values      the place of each setting's key and of its value
    from_environment  the settings into which a variable, or its default, was filled
    problems          what was found wrong while reading; `values` is complete all the same
    """

    path: Path | None
    settings: Any = None
    keys: dict[Keys, Place] = field(default_factory=dict)
    values: dict[Keys, Place] = field(default_factory=dict)
    from_environment: set[Keys] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)

    def place(self, keys: Keys) -> Place:
        """Where a setting's key is, or an item of a list; for one that is not there, the nearest around it."""
        while keys and keys not in self.values:
            keys = keys[:-1]
        return self.keys.get(keys, self.values.get(keys, _TOP)) if keys else _TOP

    def has(self, keys: Keys) -> bool:
        """Whether the file has such a setting."""
        return keys in self.values

    def complain(self, keys: Keys, message: str, place: Place | None = None) -> None:
        """Adds a problem, unless there is one with this setting already."""
        if not any(problem.keys == keys for problem in self.problems):
            self.problems.append(Problem(keys, message, place or self.place(keys)))


def read(path: Path, environment: Mapping[str, str]) -> Document:
    """The file as a document. Raises ConfigError where it is not YAML or cannot be read."""
    return parse(_text(path), path, environment)


def in_no_file(given: Any) -> Document:
    """Settings that a program gives as plain values. Raises ConfigError for one that holds itself."""
    try:
        return Document(None, given, values=dict(_places(given, ())))
    except RecursionError:
        said = "a mapping or a list holds itself, or they are nested too deeply; write the values out"
        raise as_error(None, [Problem((), said, _TOP)]) from None


def _places(given: Any, keys: Keys) -> Iterator[tuple[Keys, Place]]:
    yield keys, _TOP
    below: Iterable[tuple[Any, Any]] = ()
    if isinstance(given, Mapping):
        below = given.items()
    elif isinstance(given, list | tuple):
        below = enumerate(given)
    for key, value in below:
        yield from _places(value, (*keys, key))


def parse(text: str, path: Path, environment: Mapping[str, str]) -> Document:
    """The text of this file as a document. Raises ConfigError where it is not YAML."""
    document = Document(path)
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is not None:
            document.settings = _Reader(loader, document, environment).value(node, (), ())
    except yaml.MarkedYAMLError as error:
        raise as_error(path, [_syntax_problem(error)]) from None
    except yaml.reader.ReaderError as error:
        raise as_error(path, [_character_problem(text, error.position)]) from None
    return document


def fill_in(text: str, environment: Mapping[str, str], complain: Callable[[str], None]) -> tuple[str, bool]:
    """The text with its `${VAR}` and `${VAR:-default}` filled in, and whether there was any; `$${` stands for `${`."""
    filled = False

    def replacement(match: re.Match[str]) -> str:
        nonlocal filled
        if match[0] == "$${":
            return "${"
        if match["broken"]:
            complain(
                "`${` does not begin a variable; write ${NAME} or ${NAME:-default}, or $${ for the text ${"
            )
            return match[0]
        filled = True
        value = environment.get(match["name"], match["default"])
        if value is None:
            complain(
                f"the environment has no variable {match['name']}; export it, or write ${{{match['name']}:-default}}"
            )
            return match[0]
        return value

    return _VARIABLE.sub(replacement, text), filled


class _Reader:
    """Turns YAML's nodes into plain values, noting where each was."""

    def __init__(self, loader: yaml.SafeLoader, document: Document, environment: Mapping[str, str]) -> None:
        self._loader = loader
        self._document = document
        self._environment = environment

    def value(self, node: yaml.Node, keys: Keys, around: tuple[yaml.Node, ...]) -> Any:
        self._document.values[keys] = _place(node)
        if any(node is other for other in around):
            self._document.complain(keys, "this alias holds itself; write the value out")
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, keys, (*around, node))
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*keys, n), (*around, node)) for n, item in enumerate(node.value)]
        return self._scalar(node, keys)

    def _mapping(self, node: yaml.MappingNode, keys: Keys, around: tuple[yaml.Node, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, keys)
            if key is None:
                continue
            here = (*keys, key)
            if key in found:
                first = self._document.keys[here]
                self._document.complain(
                    here, f"written twice, first in line {first.line}; keep one", _place(key_node)
                )
                continue
            self._document.keys[here] = _place(key_node)
            found[key] = self.value(value_node, here, around)
        return found

    def _key(self, node: yaml.Node, keys: Keys) -> str | None:
        if isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:str":
            return str(node.value)
        merge = node.tag == "tag:yaml.org,2002:merge"
        remedy = (
            "write the settings out instead of merging them" if merge else "a key is a text; put it in quotes"
        )
        written = node.value if isinstance(node, yaml.ScalarNode) else "this key"
        self._document.complain((*keys, str(written)), remedy, _place(node))
        return None

    def _scalar(self, node: yaml.Node, keys: Keys) -> Any:
        try:
            value = self._loader.construct_object(node)
        except ValueError:  # a date that is none, a number with too many digits
            self._document.complain(keys, "it looks like a date or a number but is none; put it in quotes")
            return None
        if not isinstance(value, str):
            return value
        text, filled = fill_in(
            value, self._environment, lambda message: self._document.complain(keys, message)
        )
        if filled:
            self._document.from_environment.add(keys)
        return text


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(
            f"there is no settings file {path}; give the path of a pipeline's YAML file"
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise ConfigError(f"the settings file {path} cannot be read: {error.strerror}") from None


def _place(node: yaml.Node) -> Place:
    return Place(node.start_mark.line + 1, node.start_mark.column + 1)


def _character_problem(text: str, position: int) -> Problem:
    before = text[:position]
    place = Place(before.count("\n") + 1, position - before.rfind("\n"))
    return Problem((), f"YAML allows no character U+{ord(text[position]):04X}; remove it", place)


def _syntax_problem(error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    place = Place(mark.line + 1, mark.column + 1) if mark else _TOP
    said = ", ".join(part for part in (error.context, error.problem) if part)
    remedy = "check indentation and quotes here, and write ${VAR} in quotes between { and }"
    return Problem((), f"not YAML: {said}; {remedy}", place)
