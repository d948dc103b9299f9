"""What a derived table's commits say of themselves: of what it was made, at which versions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from distributary.ingest.origins.plans import Origin
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.log import commit_info, entry, newest_version

TOLD = "distributary.derived"
"""What of a commit has the rest."""

# By which somebody has a table be what it was. What its log remembers beside the rows, as up to when these go, stays what it is now.
_PUT_BACK = "RESTORE"

# Between two of ours there may be those of upkeep.
_LOOKED_BACK = 1000


@dataclass(frozen=True, slots=True)
class Input:
    """A table at a version.

    id       tells it from another one in its place
    version  the version
    entry    tells the version's log entry from another one in its place, as a backup that was restored has; empty where there is none any more
    columns  tells the columns that were read, with their types, from others
    """

    id: str
    version: int
    entry: str = ""
    columns: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """What a derived table has.

    definition  what decided it, as a digest
    inputs      what it was made of, by the names of the tables
    pipeline    whose it is; empty in those of before
    columns     of which columns of its inputs each of its own is, as far as that is known; none in those of before
    at          the version that says so; none of what is yet to be said
    """

    definition: str
    inputs: Mapping[str, Input] = field(default_factory=dict)
    pipeline: str = ""
    columns: Mapping[str, Sequence[Origin]] = field(default_factory=dict)
    at: int | None = None

    def by(self, definition: str) -> Told | None:
        """The same where this decided it; None otherwise."""
        return self if self.definition == definition else None

    def text(self) -> str:
        """As a commit has it."""
        said = asdict(self)
        del said["at"]
        return json.dumps(said, sort_keys=True)


@dataclass(frozen=True, slots=True)
class Transaction:
    """What a table's log remembers of an application: the newest number that it gave."""

    app: str
    number: int


def told_by(place: Files) -> tuple[int | None, Told | None]:
    """The newest version of a derived table, and what it has; None of the latter where its log does not tell (any more).

    One that was put back to an earlier version has what no settings have decided.
    """
    newest = newest_version(place)
    if newest is None:
        return None, None
    for version in range(newest, max(newest - _LOOKED_BACK, -1), -1):
        try:
            actions = entry(place, version)
        except FileNotFoundError:
            break
        info = commit_info(actions)
        if TOLD in info:
            return newest, _read(info[TOLD], version)
        if info.get("operation") == _PUT_BACK:
            return newest, Told("")
        if any(_changes(one) for one in actions):
            # Somebody else's rows are in it.
            break
    return newest, None


def _changes(action: Mapping[str, Any]) -> bool:
    return any(action.get(kind, {}).get("dataChange") for kind in ("add", "remove"))


def _read(text: str, version: int) -> Told | None:
    try:
        found = json.loads(text)
        inputs = {
            name: Input(one["id"], one["version"], one["entry"], one["columns"])
            for name, one in found["inputs"].items()
        }
        columns = {
            name: tuple(Origin(one["table"], one["column"], one["how"]) for one in of)
            for name, of in found.get("columns", {}).items()
        }
        return Told(found["definition"], inputs, str(found.get("pipeline", "")), columns, version)
    except (ValueError, KeyError, TypeError, AttributeError):
        # A later version's, or no text of ours.
        return None
