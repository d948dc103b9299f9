"""Up to which version of a derived table a sink has its rows: numbered files in the checkpoint, of which the last one counts."""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass

from distributary.ingest.derived.told import Input
from distributary.ingest.storage.contract import Files

FOLDER = "sent"
"""Where in a checkpoint they are, by the names of the tables."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a sink has.

    sink     tells it, by a digest, from one that has other rows or in another form
    id       of the table, as an input has it
    version  the version of which the sink has all rows
    entry    as an input has it
    """

    sink: str
    id: str
    version: int
    entry: str

    @classmethod
    def of(cls, sink: str, table: Input) -> Mark:
        """That a sink has a table as it is at a version."""
        return cls(sink, table.id, table.version, table.entry)


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of one derived table."""

    files: Files
    table: str

    def last(self) -> tuple[int, Mark | None]:
        """The last one and its number; 0 and None where there is none that can be read."""
        newest = max(self.files.names(self._folder), default=None)
        if newest is None:
            return 0, None
        number = int(newest.partition(".")[0])
        try:
            found = json.loads(self.files.read(f"{self._folder}/{newest}"))
            return number, Mark(found["sink"], found["id"], found["version"], found["entry"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            # Somebody else's or a later version's: all is sent again.
            return number, None

    def put(self, number: int, mark: Mark) -> bool:
        """Whether this one has the number; another one that has it is of somebody who sent later."""
        text = json.dumps({**asdict(mark), "writer": uuid.uuid4().hex})
        if not self.files.put_new(self._name(number), text.encode()):
            return False
        self.files.delete(
            f"{self._folder}/{name}" for name in self.files.names(self._folder) if name < f"{number - 1:020d}"
        )
        return True

    @property
    def _folder(self) -> str:
        return f"{FOLDER}/{self.table}"

    def _name(self, number: int) -> str:
        return f"{self._folder}/{number:020d}.json"
