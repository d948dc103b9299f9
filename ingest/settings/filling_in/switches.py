"""What one file says for several environments and for trials: `{name}`, `{env}` and `{topic}` in names and places, and a suffix that keeps a trial apart."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributary.errors import ConfigError
from distributary.ingest.settings.patterns import is_pattern
from distributary.ingest.settings.problems import Place
from distributary.ingest.settings.yaml_file import Document, Told
from distributary.values import Keys

VARIABLE = "DISTRIBUTARY_ENV"
"""The environment variable that says which environment it is."""

PLACES: Mapping[Keys, str | None] = {
    ("sink", "root"): None,
    ("checkpoint",): "checkpoints/{name}",
    ("decode", "schema_location"): "schemas/{name}",
    ("registry", "cache"): None,
    ("catalog", "metastore"): "metastore",
    ("derive", "sink", "files", "path"): None,
    ("source", "files", "archive_to"): None,
    ("lineage", "file"): None,
}
"""Where a pipeline writes, each with where that is by default: a trial does it elsewhere."""

READ: tuple[Keys, ...] = (("source", "files", "path"), ("source", "delta", "paths"))
"""Places that a pipeline reads, and a trial as well."""

DATABASE: Keys = ("catalog", "database")

SENT_TO: tuple[Keys, ...] = (
    ("derive", "sink", "kafka", "topic"),
    ("derive", "sink", "kafka", "subject"),
)
"""Where rows of derived tables go in Kafka, and what their schemas are registered under: of a trial they are others."""

JOBS: Keys = ("lineage", "namespace")
"""By which data catalogues know a pipeline's runs: a trial is another job, of other tables."""

NAME: Keys = ("name",)

TOPICS: Keys = ("source", "topics")

BY_TOPIC: tuple[Keys, ...] = (
    ("source", "partitions"),
    ("source", "starting_offsets"),
    ("source", "until"),
)
"""What may be said of each topic by its name."""

NAMES: tuple[Keys, ...] = (
    ("source", "kafka", "bootstrap.servers"),
    ("source", "kafka", "group.id"),
    ("source", "kinesis", "stream"),
    ("registry", "url"),
    ("registry", "subjects"),
    ("registry", "ca_file"),
    ("registry", "certificate_file"),
    ("registry", "key_file"),
    ("route", "table"),
    DATABASE,
    ("catalog", "name"),
    ("policies", "no_entity", "table"),
    ("bronze", "table"),
    ("lineage", "url"),
    JOBS,
    *SENT_TO,
)
"""What is no place, and may be called by `{name}`, `{env}` or `{topic}` too."""

# What else stands in braces there, and is filled in elsewhere, once for each table.
_THEIRS: Mapping[Keys, tuple[str, ...]] = {
    ("route", "table"): ("entity",),
    ("catalog", "name"): ("entity", "topic", "table"),
    ("bronze", "table"): ("topic",),
    **dict.fromkeys(SENT_TO, ("entity",)),
}

# By default.
_NAMESPACE = "distributary"

_BRACES = re.compile(r"\{\{|\}\}|\{(?P<name>[^{}]*)\}")

_WORD = re.compile(r"[A-Za-z0-9_-]{1,50}")

_SUFFIX = re.compile(r"[A-Za-z0-9_]{1,50}")

_ALL_OF_A_BUCKET = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*/*")


def switches(
    env: str | None, debug_suffix: str | None, options: tuple[str, str] = ("--env", "--debug-suffix")
) -> list[str]:
    """The same as what is given instead of what a file says, for `load`, by these options. Raises ConfigError for what is empty."""
    told = list[str]()
    for name, value, option in zip(("env", "debug_suffix"), (env, debug_suffix), options, strict=True):
        if value == "":
            # A variable of the shell that is not set: a trial would be none, and write to the real places.
            raise ConfigError(f"{option} is empty; give it a value, or leave it out")
        if value is not None:
            told.append(Told(f"{name}={json.dumps(value)}", option))
    return told


def switch(document: Document, variables: Mapping[str, str]) -> None:
    """Fill in `{name}`, `{env}` and `{topic}` where a document has them, and put its `debug_suffix` behind all that a run writes to.

    Which environment it is says what is given beside the file, or else the variable, or else the file.
    """
    if not isinstance(document.settings, Mapping):
        return
    document.settings = dict(document.settings)
    _Switching(document, _environment(document, variables)).all()


def _environment(document: Document, variables: Mapping[str, str]) -> str | None:
    """Which environment it is; where that is wrong, the document says so."""
    told, where = document.settings.get("env"), "it"
    given = document.values.get(("env",))
    if not (given and given.option) and variables.get(VARIABLE):
        told, where = variables[VARIABLE], VARIABLE
        document.settings["env"] = told
        document.values.setdefault(("env",), Place(1, 1))
    if not isinstance(told, str) or not told:
        return None
    if not _WORD.fullmatch(told):
        document.complain(
            ("env",), f"{where} names no environment; write up to 50 of a-z, A-Z, 0-9, _ and -, such as dev"
        )
        return None
    return told


@dataclass(frozen=True, slots=True)
class _Switching:
    """One document, and which environment it is for."""

    document: Document
    env: str | None

    def all(self) -> None:
        """Fill in whatever may be filled in, then what the suffix is for."""
        known: dict[str, str | None] = {"env": self.env}
        self._fill(NAME, known)
        name = self._at(NAME)
        known["name"] = name if isinstance(name, str) else None
        self._fill(TOPICS, known)
        for keys in BY_TOPIC:
            self._fill_keys(keys, known)
        topics = self._at(TOPICS)
        several = isinstance(topics, list | tuple) and (len(topics) != 1 or _is_pattern(topics[0]))
        known["topic"] = (
            topics[0]
            if isinstance(topics, list | tuple) and not several and isinstance(topics[0], str)
            else None
        )
        for keys in (*PLACES, *READ, *NAMES):
            self._fill(keys, known, several=several)
        suffix = self.document.settings.get("debug_suffix")
        if isinstance(suffix, str) and _SUFFIX.fullmatch(suffix):
            self._apart(suffix, str(name))

    def _fill(self, keys: Keys, known: Mapping[str, str | None], *, several: bool = False) -> None:
        for here in self._spots(keys):
            value = self._at(here)
            if isinstance(value, list | tuple):
                filled = [self._filled((*here, n), keys, one, known, several) for n, one in enumerate(value)]
                if filled != list(value):
                    self._put(here, filled)
            elif (text := self._filled(here, keys, value, known, several)) != value:
                self._put(here, text)

    def _fill_keys(self, keys: Keys, known: Mapping[str, str | None]) -> None:
        value = self._at(keys)
        if isinstance(value, Mapping):
            by_name = {
                self._filled((*keys, one), TOPICS, one, known, several=False): of for one, of in value.items()
            }
            self._put(keys, by_name)

    def _filled(
        self, here: Keys, keys: Keys, value: Any, known: Mapping[str, str | None], several: bool
    ) -> Any:
        """One value with what stands in its braces."""
        if not isinstance(value, str) or not ("{" in value or "}" in value):
            return value
        theirs, pattern = _THEIRS.get(keys, ()), keys == TOPICS and _is_pattern(value)

        def replacement(match: re.Match[str]) -> str:
            name = match["name"]
            if name is None:
                # Where others look for braces they see them as they are.
                return match[0] if theirs or pattern else match[0][0]
            # In an expression braces say how often something comes.
            if name in theirs or (pattern and name not in known):
                return match[0]
            if name not in known:
                self._tell_unknown(here, name, tuple(dict.fromkeys((*theirs, *known))), is_text=not theirs)
                return match[0]
            found = known[name]
            if found is None:
                self._lacks(here, name, several)
                return match[0]
            return found

        return _BRACES.sub(replacement, value)

    def _tell_unknown(self, here: Keys, name: str, known: Sequence[str], *, is_text: bool) -> None:
        """Say that nothing stands for a name; of what came from outside, which may be a secret, nothing is quoted."""
        there = ", ".join(f"{{{one}}}" for one in known)
        if here in self.document.from_environment:
            self.document.complain(here, f"what is in its braces stands for nothing; there are {there}")
            return
        text = f"; for the text {{{name}}} write {{{{{name}}}}}" if is_text else ""
        self.document.complain(here, f"{{{name}}} stands for nothing; there are {there}{text}")

    def _lacks(self, here: Keys, name: str, several: bool) -> None:
        """Say why nothing stands for a name; where that is told already, of what it is, nothing is."""
        if name == "env" and not self.document.settings.get("env"):
            self.document.complain(
                here, f"{{env}} stands for nothing yet; give --env dev, export {VARIABLE}, or write env: dev"
            )
        if name == "topic" and several:
            self.document.complain(
                here,
                "{topic} stands for the topic of a pipeline that has one, and this may have several; write {name}",
            )
        if name == "topic" and any(self._at(("source", other)) for other in ("delta", "files", "kinesis")):
            self.document.complain(
                here, "{topic} stands for a topic of Kafka's, and none is read; write {name}"
            )

    def _apart(self, suffix: str, name: str) -> None:
        """Put the suffix behind each place that is written to, and behind the database."""
        for keys, default in self._places():
            value = self._at(keys)
            if value in (None, "") and default is not None and self._has_group(keys):
                value = default.replace("{name}", name)
            if value in (None, ""):
                continue
            if (apart := _suffixed(str(value), suffix)) is None:
                self.document.complain(
                    keys,
                    "debug_suffix is put behind a folder's name, and this is a whole bucket, or has no name; write a folder by its name",
                )
            else:
                # A path that is a URL is refused as one.
                self._put(keys, Path(apart) if isinstance(value, Path) else apart)
        if isinstance(self._at(JOBS[:-1]), Mapping):
            self._put(JOBS, self._at(JOBS) or _NAMESPACE)
        for keys in (one for names in (DATABASE, JOBS, *SENT_TO) for one in self._spots(names)):
            called = self._at(keys)
            if isinstance(called, str):
                self._put(keys, called + suffix)

    def _places(self) -> Iterator[tuple[Keys, str | None]]:
        for keys, default in PLACES.items():
            for here in self._spots(keys):
                yield here, default

    def _spots(self, keys: Keys) -> list[Keys]:
        """Where a setting is: of one within a list, in each of its items."""
        spots: list[Keys] = [()]
        for key in keys:
            items = [
                (*spot, place)
                for spot in spots
                for value in (self._at(spot),)
                for place in (range(len(value)) if isinstance(value, list | tuple) else ())
            ]
            spots = [(*spot, key) for spot in items or spots]
        return spots

    def _has_group(self, keys: Keys) -> bool:
        """Whether what is around a setting is there, or may be made."""
        return keys[0] != "catalog" or isinstance(self.document.settings.get("catalog"), Mapping)

    def _at(self, keys: Keys) -> Any:
        found: Any = self.document.settings
        for key in keys:
            if isinstance(found, list | tuple) and isinstance(key, int):
                found = found[key]
            elif isinstance(found, Mapping):
                found = found.get(key)
            else:
                return None
        return found

    def _put(self, keys: Keys, value: Any) -> None:
        """Put a value there, groups around it being made anew: what a program gave is not changed."""
        inside: Any = self.document.settings
        for number, key in enumerate(keys[:-1]):
            below = self._at(keys[: number + 1])
            if isinstance(below, list | tuple):
                inside[key] = list(below)
            elif below is None or isinstance(below, Mapping):
                inside[key] = dict(below or {})
            else:
                return
            inside = inside[key]
        inside[keys[-1]] = value


def _is_pattern(topic: Any) -> bool:
    """Whether it is an expression that topics' names fit, rather than the name of one."""
    return isinstance(topic, str) and is_pattern(topic)


def _suffixed(place: str, suffix: str) -> str | None:
    """A folder beside this one; None where it has no name that a suffix could stand behind."""
    if _ALL_OF_A_BUCKET.fullmatch(place):
        return None
    folder = place.rstrip("/")
    last = folder.rpartition("/")[2]
    return None if last in ("", ".", "..") or (folder.startswith("~") and folder == last) else folder + suffix
