"""Which files of a clustered table are to be written anew together, so that each byte is few times, however many batches come.

What is written together is a cube: files that share no part of the curve. Loose files, of batches and the like, make a cube,
and with them those that are not much larger than what has come together so far. So the cubes of a table are each larger than the ones after
it, some ten of them after a year, and what is in one that is as large as may be is not written any more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from distributary.ingest.columns.clustering import Path
from distributary.ingest.merge.live_files import Action

PROVIDER = "distributary"
"""By what name files say who has clustered them; those of others are left to them.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#writer-requirements-for-clustered-table
"""

CUBE = "distributary.cube"
"""A tag of files: with which others they were written."""

BY = "distributary.clusteredBy"
"""A tag of files: by which columns."""

_SIZE = "size"

# How many files of the size that a table's are to have a cube has at the most.
_FILES = 64

# By so much a cube may be larger than what has come together so far: written anew, the same rows may take more bytes.
_LARGER = 1.5

# Where so many of a file's rows are marked, it is written anew without them.
_MARKED = 0.25

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Portion:
    """Files that are to be written anew together, by their names."""

    files: Mapping[str, Action] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Of all of them."""
        return sum(add[_SIZE] for add in self.files.values())


def portions(live: Iterable[tuple[str, Action]], by: Sequence[Path], target: int) -> list[Portion]:
    """What is to be written anew of a table that is clustered by these columns; of one that is by none, what is small.

    target  how large a file is to be
    """
    mine = {name: add for name, add in live if add.get("clusteringProvider") in (None, PROVIDER)}
    if not by:
        return small_or_worn(mine, target)
    loose = {name: add for name, add in mine.items() if _is_loose(add, told(by))}
    if not loose:
        return []
    most = _FILES * target
    found = _split(loose, most)
    cubes: dict[str, dict[str, Action]] = {}
    for name, add in mine.items():
        if name not in loose:
            cubes.setdefault(add["tags"][CUBE], {})[name] = add
    together = found[-1]
    for cube in sorted(map(Portion, cubes.values()), key=lambda one: one.bytes):
        if cube.bytes > _LARGER * together.bytes or together.bytes + cube.bytes > most:
            break
        together = Portion({**cube.files, **together.files})
    return [*found[:-1], together]


def small_or_worn(files: Mapping[str, Action], target: int) -> list[Portion]:
    """Those of some files, by their names, that fit one of the target's size together, and each other of which too many rows are marked as gone."""
    small = [Portion(dict(some)) for some in bins(files.items(), lambda one: int(one[1][_SIZE]), target)]
    together = {name for one in small for name in one.files}
    worn = (Portion({name: add}) for name, add in files.items() if is_worn(add) and name not in together)
    return [*small, *worn]


def told(by: Sequence[Path]) -> str:
    """Columns as the tag has them."""
    return json.dumps([list(path) for path in by], separators=(",", ":"), ensure_ascii=False)


def bins(items: Iterable[_Item], size_of: Callable[[_Item], int], target: int) -> list[list[_Item]]:
    """The items that fit one of the target's size together; those that fit none with another are left out."""
    found: list[list[_Item]] = []
    room = 0
    for item in sorted((one for one in items if size_of(one) < target), key=size_of):
        if size_of(item) > room or not found:
            found.append([])
            room = target
        found[-1].append(item)
        room -= size_of(item)
    return [one for one in found if len(one) > 1]


def _is_loose(add: Action, by: str) -> bool:
    tags: Mapping[str, str] = add.get("tags") or {}
    if add.get("clusteringProvider") is None or CUBE not in tags or tags.get(BY) != by:
        return True
    return is_worn(add)


def is_worn(add: Action) -> bool:
    """Whether so many of a file's rows are marked as gone that it is written anew without them."""
    vector: Mapping[str, Any] | None = add.get("deletionVector")
    if vector is None:
        return False
    rows = json.loads(add.get("stats") or "{}").get("numRecords")
    return rows is not None and int(vector["cardinality"]) >= _MARKED * int(rows)


def _split(files: Mapping[str, Action], most: int) -> list[Portion]:
    """The files in their order, in as few portions as may be."""
    found: list[dict[str, Action]] = []
    room = 0
    for name, add in files.items():
        if add[_SIZE] > room:
            found.append({})
            room = most
        found[-1][name] = add
        room -= add[_SIZE]
    return [Portion(some) for some in found]
