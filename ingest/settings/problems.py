"""What is wrong with settings: where, and what to write instead; all of it at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from distributary.errors import ConfigError
from distributary.values import Keys, dotted


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file, counted from 1; or the option by which something was given beside the file."""

    line: int
    column: int
    option: str = ""


def given_by(option: str) -> Place:
    """The place of what an option gives."""
    return Place(0, 0, option)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: at which setting, and a sentence that ends in the remedy."""

    keys: Keys
    message: str
    place: Place


def as_error(path: Path | None, problems: Sequence[Problem]) -> ConfigError:
    """One error that names every problem, in the file's order; without a path, problems of settings in no file."""
    ordered = sorted(problems, key=lambda problem: (problem.place.line, problem.place.column))
    lines = [_line(path, problem) for problem in ordered]
    if len(lines) == 1:
        return ConfigError(lines[0])
    where = "" if path is None else f" in {path}"
    return ConfigError("\n  ".join([f"{len(lines)} settings{where} cannot work:", *lines]))


def where(path: Path | None, place: Place) -> str:
    """A place as users are told it."""
    if place.option:
        return place.option
    return "settings" if path is None else f"{path}:{place.line}:{place.column}"


def _line(path: Path | None, problem: Problem) -> str:
    said = where(path, problem.place), dotted(problem.keys), problem.message
    return ": ".join(part for part in said if part)
