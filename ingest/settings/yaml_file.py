"""A YAML file read with the place of every key and value, with `${VAR}` filled in from the environment, and with what is given instead of what it says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from typing_extensions import Self

from distributary.errors import ConfigError
from distributary.ingest.settings.filling_in.outside import FilledIn, Outside, as_said, fill_in
from distributary.ingest.settings.problems import Place, Problem, as_error, given_by, where
from distributary.values import Keys, dotted

_TOP = Place(1, 1)

# What a setting's name may be made of.
_NAME = re.compile(r"[A-Za-z0-9_.\[\]\"*-]*")

# What keeps a trial apart.
_SUFFIX: Keys = ("debug_suffix",)

# The key of what lacks the blank behind its colon, or is written as in a file of properties.
_RUN_TOGETHER = re.compile(r"[^:=]+[:=]")

_BLANK = "a blank is missing behind the colon, without which all of it is one name; write `key: value`"

# What YAML quotes of a value that begins like a tag or an alias, as a password may.
_QUOTED = re.compile(r"(tag|tag handle|alias|anchor) '[^\n]*'")

# A part of a setting's name: in quotes where it has dots itself, and of a list the number of an item.
_PART = re.compile(r'(?:^|\.)(?:"(?P<quoted>[^"]+)"|(?P<plain>[^].["]+))|\[(?P<item>[0-9]{1,9})\]')


class Told(str):
    """What is given instead of what a file says, as `env=dev`, by an option of its own; any other text is given by `--set`."""

    option: str

    def __new__(cls, text: str, option: str) -> Self:
        """A text, and the option that gives it."""
        told = super().__new__(cls, text)
        told.option = option
        return told


@dataclass
class Document:
    """What a file says, and where it says it.

    path              None for settings that stand in no file
    keys, values      the place of each setting's key and of its value
    from_environment  the settings into which something was filled that does not stand in the file, or its default
    from_commands     those of them into which a command's answer was
    problems          what was found wrong while reading; `values` is complete all the same
    filled            what was filled in, which no problem quotes
    """

    path: Path | None
    settings: Any = None
    keys: dict[Keys, Place] = field(default_factory=dict)
    values: dict[Keys, Place] = field(default_factory=dict)
    from_environment: set[Keys] = field(default_factory=set)
    from_commands: set[Keys] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)
    filled: list[FilledIn] = field(default_factory=list)

    def place(self, keys: Keys) -> Place:
        """Where a setting's key is, or an item of a list; for one that is not there, the nearest around it."""
        while keys and keys not in self.values:
            keys = keys[:-1]
        return self.keys.get(keys, self.values.get(keys, _TOP)) if keys else _TOP

    def where(self, keys: Keys) -> str:
        """The same in words."""
        return where(self.path, self.place(keys))

    def told(self, keys: Keys, message: str) -> str:
        """What somebody else found of a setting, behind its place, which may quote what was filled in."""
        return f"{self.where(keys)}: {as_said(message, self.filled)}"

    def has(self, keys: Keys) -> bool:
        """Whether the file has such a setting."""
        return keys in self.values

    def complain(self, keys: Keys, message: str, place: Place | None = None) -> None:
        """Adds a problem, unless there is one with this setting already."""
        if not any(problem.keys == keys for problem in self.problems):
            self.problems.append(Problem(keys, as_said(message, self.filled), place or self.place(keys)))


def read(
    path: Path, environment: Mapping[str, str], given: Sequence[str] = (), *, asks: bool = True
) -> Document:
    """The file as a document, with what is `given` instead of what it says, each as `sink.root=./lake`.

    Unless it `asks`, no command that it names is run. Raises ConfigError where the file is not YAML or cannot be read, and for what is given and is no such text.
    """
    outside = Outside(environment, Path(os.path.abspath(path)).parent, asks)
    document = parse(_text(path), path, outside)
    for text in given:
        _put(document, text, outside)
    return document


def _put(document: Document, text: str, outside: Outside) -> None:
    """Put what was given in the place of what the file says."""
    option = text.option if isinstance(text, Told) else "--set"
    name, is_told, value = text.partition("=")
    parts = _parts(name)
    if not is_told or not parts or isinstance(parts[0], int):
        # Behind what may be a name there may be a secret.
        said = name if is_told else _NAME.match(text)[0]  # type: ignore[index]
        raise ConfigError(
            f"{option} {said}: write KEY=VALUE, such as sink.root=./lake; an item of a list is tables[0].mode, and a part "
            'of a name that has dots itself stands in quotes, as in source.kafka."group.id"'
        )
    if not isinstance(document.settings, Mapping | None):
        # It has no settings at all, which is told of the file.
        return
    keys, given = _keys_of(document.settings, parts), given_by(option)
    found = _given(value, keys, given, outside)
    if keys == _SUFFIX and (found.settings == "" or not value.strip()):
        # As of a variable of the shell that is not set: what was to be a trial would write to the real places.
        raise ConfigError(
            f"{option} debug_suffix is empty; give it a value, or null for a run that is no trial"
        )
    for places in (document.keys, document.values):
        for old in [old for old in places if old[: len(keys)] == keys]:
            del places[old]
    document.from_environment = {old for old in document.from_environment if old[: len(keys)] != keys}
    document.from_commands = {old for old in document.from_commands if old[: len(keys)] != keys}
    document.problems = [one for one in document.problems if one.keys[: len(keys)] != keys]
    document.settings = _with(document.settings, keys, found.settings, option)
    for number in range(1, len(keys)):
        document.values.setdefault(keys[:number], given)
    document.values.update({(*keys, *below): given for below in found.values})
    document.from_environment |= {(*keys, *below) for below in found.from_environment}
    document.from_commands |= {(*keys, *below) for below in found.from_commands}
    document.problems += [Problem((*keys, *one.keys), one.message, given) for one in found.problems]


def _given(text: str, keys: Keys, given: Place, outside: Outside) -> Document:
    """A value as a document of its own."""
    found = Document(None, values={(): given}, filled=outside.filled)
    if (wrong := _fill(found, text, outside)) is not None:
        raise as_error(None, [Problem(keys, wrong.message, given)])
    return found


def _parts(name: str) -> list[str | int]:
    """The parts of a setting's name; none where it is no name."""
    found, end = list[str | int](), 0
    while end < len(name):
        match = _PART.match(name, end)
        if match is None:
            return []
        item = match["item"]
        found.append(match["quoted"] or match["plain"] if item is None else int(item))
        end = match.end()
    return found


def _keys_of(settings: Any, parts: Sequence[str | int]) -> Keys:
    """The keys that parts of a name lead to: several are one key that has dots, where the settings have such a one."""
    keys, rest = list[str | int](), list(parts)
    while rest:
        many = 1
        if isinstance(settings, Mapping):
            longest_first = range(len(rest), 1, -1)
            many = next((count for count in longest_first if _as_one(rest[:count]) in settings), 1)
        keys.append(_as_one(rest[:many]) if many > 1 else rest[0])
        settings, rest = _below(settings, keys[-1]), rest[many:]
    return tuple(keys)


def _as_one(parts: Sequence[str | int]) -> str:
    return dotted(tuple(parts))


def _below(settings: Any, key: str | int) -> Any:
    if isinstance(settings, Mapping):
        return settings.get(key)
    return (
        settings[key] if isinstance(settings, list) and isinstance(key, int) and key < len(settings) else None
    )


def _with(settings: Any, keys: Keys, value: Any, option: str, above: Keys = ()) -> Any:
    """Settings with this value there. Raises ConfigError where a list lacks such an item, or what is above holds no others."""
    if not keys:
        return value
    key, here = keys[0], (*above, keys[0])
    if isinstance(key, int):
        if not isinstance(settings, list) or key >= len(settings):
            items = f"{len(settings)} items, counted from 0" if isinstance(settings, list) else "no items"
            raise ConfigError(
                f"{option} {dotted(here)}: {dotted(above)} has {items}; write it as a whole, as in topics=[a, b]"
            )
        return [*settings[:key], _with(settings[key], keys[1:], value, option, here), *settings[key + 1 :]]
    if settings is not None and not isinstance(settings, Mapping):
        raise ConfigError(
            f"{option} {dotted(here)}: {dotted(above)} has no settings below it; write it as a whole"
        )
    below = dict(settings or {})
    return {**below, key: _with(below.get(key), keys[1:], value, option, here)}


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


def parse(text: str, path: Path, outside: Outside) -> Document:
    """The text of this file as a document. Raises ConfigError where it is not YAML."""
    document = Document(path, filled=outside.filled)
    if (wrong := _fill(document, text, outside)) is not None:
        raise as_error(path, [wrong])
    return document


def _fill(document: Document, text: str, outside: Outside) -> Problem | None:
    """Read a text into a document; why it is no YAML, where it is none."""
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is not None:
            document.settings = _Reader(loader, document, outside).value(node, (), ())
    except yaml.MarkedYAMLError as error:
        return _syntax_problem(error)
    except yaml.reader.ReaderError as error:
        return _character_problem(text, error.position)
    except RecursionError:
        return Problem((), "lists or mappings are nested too deeply; write fewer into each other", _TOP)
    return None


class _Reader:
    """Turns YAML's nodes into plain values, noting where each was."""

    def __init__(self, loader: yaml.SafeLoader, document: Document, outside: Outside) -> None:
        self._loader = loader
        self._document = document
        self._outside = outside

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
            if key is None or self._runs_on(key_node, value_node, keys):
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

    def _runs_on(self, key: yaml.Node, value: yaml.Node, keys: Keys) -> bool:
        """Whether YAML takes all of a setting for its key, as between { and } without a blank behind the colon; it may end in a secret."""
        is_plain = isinstance(key, yaml.ScalarNode) and key.style is None
        found = _RUN_TOGETHER.match(key.value) if is_plain and value.value == "" else None
        if found is None:
            return False
        name = found[0][:-1].rstrip()
        self._document.complain((*keys, name), _BLANK, _place(key))
        return True

    def _scalar(self, node: yaml.Node, keys: Keys) -> Any:
        try:
            value = self._loader.construct_object(node)
        # A date that is none, a number with too many digits, or what a tag such as !!timestamp says of another text.
        except (ValueError, AttributeError, LookupError, OverflowError):
            self._document.complain(keys, "it looks like a date or a number but is none; put it in quotes")
            return None
        if not isinstance(value, str):
            return value
        text, kinds = fill_in(value, self._outside, lambda message: self._document.complain(keys, message))
        if kinds:
            self._document.from_environment.add(keys)
        if "command" in kinds:
            self._document.from_commands.add(keys)
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
    said = ", ".join(_QUOTED.sub(r"\1", part) for part in (error.context, error.problem) if part)
    remedy = "check indentation, quotes and the blank behind each colon, here and in the line before, and write ${VAR} in quotes between { and }"
    return Problem((), f"not YAML: {said}; {remedy}", place)
