"""Delta tables as a source, as users write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from distributary.ingest.settings.places import AnyPlace
from distributary.ingest.storage.place import Place
from distributary.values import Group, Wrong

VERSION_BITS = 32
"""An offset is the table's version, with so many bits behind it for the row within that version."""


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


class DeltaTables(Group):
    """Delta tables that are read as streams: what each of their versions adds, or changes."""

    paths: Annotated[tuple[AnyPlace, ...], BeforeValidator(_listed), Field(min_length=1)]
    """The tables: a folder or a store's URL, or a list of them. A table is a topic, called as the last part of its path."""
    read: Literal["appends", "changes"] = "appends"
    """What of a table is read: `appends`, the rows that are added, where a version that deletes or replaces rows ends the run, which names it; `changes`, every row that was inserted, deleted, or became what an update made of it, with the field `_change_type` (`insert`, `update_postimage`, `delete`), by the change data feed where the table has one."""
    preimages: Literal["leave_out", "delete"] = "leave_out"
    """What becomes of what a row was before an update, where a change data feed tells it: `leave_out`, nothing; `delete`, it is a `delete` ahead of what the update made of it, as it is without a feed. `delete` it has to be where an update may change what the tables have as a row's key, or what records are routed by."""
    starting_version: Annotated[int, Field(ge=0)] | None = None
    """The first version that is read of each table, by a new checkpoint; by default what `source.starting_offsets` says, which takes `earliest`, `latest` and a point in time."""

    def topics(self) -> dict[str, Place]:
        """The tables by the names of their topics."""
        return {topic_of(place): place for place in self.paths}

    def starting_offsets(self) -> dict[str, dict[int, int]]:
        """Where the first version begins in each table; empty where none is given."""
        if self.starting_version is None:
            return {}
        return {topic: {0: self.starting_version << VERSION_BITS} for topic in self.topics()}

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        if self.preimages == "delete" and self.read == "appends":
            yield ("preimages",), "what updates changed is not read; write read: changes, or leave it out"
        names = [topic_of(place) for place in self.paths]
        for number, name in enumerate(names):
            if name in names[:number]:
                yield (
                    ("paths", number),
                    f"another table's path ends in {name}, too, and topics are called so; keep one",
                )


def topic_of(place: Place) -> str:
    """What a table's topic is called."""
    return str(place).rstrip("/").rpartition("/")[2]
