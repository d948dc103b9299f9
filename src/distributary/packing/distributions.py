"""What a worker's environment is made of: the installed files of distributary, of all it needs, and of packages that are named."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import distributary
from distributary.errors import SetupError

OURS = "distributary"

# Workers get them from the Spark that they are part of; any other copy would take its place.
SPARKS_OWN = frozenset({"pyspark", "py4j"})

# What tools for those who work on distributary need.
_NOT_FOR_USERS = frozenset({"dev"})

# Never imported, and an eighth of all bytes.
_LEFT_OUT = frozenset({"tests"})


def needed(named: Iterable[str] = ()) -> list[Distribution]:
    """The installed distributions of an environment: distributary's and those of `named`, with all that they need, but for Spark.

    Of distributary's extras those that are installed. Raises SetupError for a named one that is not installed.
    """
    ours = distribution(OURS)
    extras = frozenset(ours.metadata.get_all("Provides-Extra") or ()) - _NOT_FOR_USERS
    met: dict[str, frozenset[str]] = {}
    found: dict[str, Distribution] = {}
    todo = [(OURS, extras), *((name, frozenset[str]()) for name in map(_installed, named))]
    while todo:
        name, wanted = todo.pop()
        if name in SPARKS_OWN or (name in met and wanted <= met[name]):
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            # For another platform or Python, or of an extra that nobody installed.
            continue
        met[name] = met.get(name, frozenset()) | wanted
        todo += _requirements(found[name], met[name])
    return [found[name] for name in sorted(found)]


def files_of(one: Distribution) -> Iterator[tuple[str, Path]]:
    """The files of a distribution, each with its path below `site-packages`. Raises SetupError for one in place of which there is a link."""
    editable = _is_editable(one)
    if canonicalize_name(one.name) == OURS:
        yield from _own_files()
    elif editable:
        raise SetupError(
            f"{one.name} is installed as an editable package, of which no copy can be taken; install it whole (pip install .)"
        )
    for path in one.files or ():
        # Programs are beside site-packages, and hold the path of their interpreter.
        if ".." in path.parts or _LEFT_OUT & {*path.parts} or (editable and not _is_metadata(path.parts)):
            continue
        file = Path(str(one.locate_file(path)))
        if file.is_file():
            yield str(path), file


def _installed(name: str) -> str:
    try:
        return canonicalize_name(distribution(name).name)
    except PackageNotFoundError:
        raise SetupError(f"{name} is not installed here; install it, then package it along") from None


def _requirements(one: Distribution, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for text in one.requires or ():
        wanted = Requirement(text)
        ways = ({"extra": extra} for extra in ("", *extras))
        if wanted.marker is None or any(map(wanted.marker.evaluate, ways)):
            yield canonicalize_name(wanted.name), frozenset(wanted.extras)


def _is_editable(one: Distribution) -> bool:
    told = one.read_text("direct_url.json")
    return told is not None and bool(json.loads(told).get("dir_info", {}).get("editable"))


def _is_metadata(parts: tuple[str, ...]) -> bool:
    # direct_url.json would tell of this machine's folders.
    return parts[0].endswith(".dist-info") and parts[-1] != "direct_url.json"


def _own_files() -> Iterator[tuple[str, Path]]:
    """Our own, from where they are imported: in a checkout four folders are links."""
    package = Path(str(distributary.__file__)).parent
    for folder, below, names in os.walk(package, followlinks=True):
        below[:] = sorted(set(below) - {"__pycache__"})
        for name in sorted(names):
            file = Path(folder, name)
            yield str(Path(OURS, file.relative_to(package))), file
