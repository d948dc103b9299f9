"""Up to which version of a derived table a sink has its rows: numbered files in the checkpoint, of which the last one counts."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace

from distributary.ingest.derived.told import Input
from distributary.ingest.storage.contract import Files

FOLDER = "sent"
"""Where in a checkpoint they are, by the names of the tables."""

_NAME = re.compile(r"\d{20}\.json")


@dataclass(frozen=True, slots=True)
class Mark:
    """What a sink has.

    sink     tells it, by a digest, from one that has other rows or in another form
    id       of the table, as an input has it
    version  the version of which the sink has all rows
    entry    as an input has it
    topic    the topic's UUID, which tells it from one that was made anew; empty from a broker without any, and in marks of before
    ends     where each partition of the topic ended behind what it was sent; nothing where nobody knows, and in marks of before
    begun    of one that is put before anything is sent, with no `sink` yet: what tells the sink
    anywhere tells the sink, too, by all but the addresses of its brokers; empty in marks of before
    undone   whether somebody sent behind it who took all of it back, and nobody since
    """

    sink: str
    id: str
    version: int
    entry: str
    topic: str = ""
    ends: Mapping[int, int] = field(default_factory=dict)
    begun: str = ""
    anywhere: str = ""
    undone: bool = False

    @classmethod
    def of(cls, sink: str, table: Input, topic: str = "", ends: Mapping[int, int] | None = None) -> Mark:
        """That a sink has a table as it is at a version."""
        return cls(sink, table.id, table.version, table.entry, topic, ends or {})

    def has(self, sink: str, table: Input) -> bool:
        """Whether this sink has the table as it is at this version."""
        return (self.sink, self.id, self.version, self.entry) == (sink, table.id, table.version, table.entry)

    def is_at(self, ends: Mapping[int, int]) -> bool:
        """Whether nothing came to the topic since, and nothing went, by where its partitions end; so it is where nobody knows."""
        return not self.ends or not ends or dict(self.ends) == dict(ends)

    def tells_all(self, ends: Mapping[int, int]) -> bool:
        """Whether the topic, which ends so, has nothing that readers see beside what this tells of, as far as brokers say."""
        return bool(self.sink and self.ends and ends) and (self.undone or self.is_at(ends))

    def is_of(self, topic: str) -> bool:
        """Whether it may be of this very topic; of a UUID that nobody knows it may."""
        return not self.topic or not topic or self.topic == topic


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of one derived table."""

    files: Files
    table: str

    def last(self) -> tuple[int, Mark | None]:
        """The last one and its number; 0 and None where there is none that can be read."""
        newest = max(self._names(), default=None)
        if newest is None:
            return 0, None
        number = int(newest.partition(".")[0])
        try:
            found = json.loads(self.files.read(f"{self._folder}/{newest}"))
            told = Mark(found["sink"], found["id"], found["version"], found["entry"])
            ends = {int(name): int(end) for name, end in found.get("ends", {}).items()}
            topic, begun, anywhere = (str(found.get(name, "")) for name in ("topic", "begun", "anywhere"))
            told = replace(told, topic=topic, ends=ends, begun=begun, anywhere=anywhere)
            return number, replace(told, undone=found.get("undone") is True)
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            # Somebody else's or a later version's: all is sent again.
            return number, None

    def put(self, number: int, mark: Mark) -> bool:
        """Whether this one has the number; another one that has it is of somebody who sent later."""
        text = json.dumps({**asdict(mark), "writer": uuid.uuid4().hex})
        if not self.files.put_new(self._name(number), text.encode()):
            return False
        self.files.delete(f"{self._folder}/{name}" for name in self._names() if name < f"{number - 1:020d}")
        return True

    def put_behind(self, number: int, mark: Mark) -> None:
        """Have this one counted, as long as nobody who sent later has put one: of a table's versions the later sender has the newer one, or the same."""
        while not self.put(number + 1, mark):
            number, other = self.last()
            alike = other is not None and (other.sink, other.id) == (mark.sink, mark.id)
            # Of the same version the later one's is that behind which a topic has more.
            if other is None or not alike or _order(other) >= _order(mark):
                return

    def _names(self) -> Iterator[str]:
        """Those of marks: what else lies there is somebody else's."""
        return (name for name in self.files.names(self._folder) if _NAME.fullmatch(name))

    @property
    def _folder(self) -> str:
        return f"{FOLDER}/{self.table}"

    def _name(self, number: int) -> str:
        return f"{self._folder}/{number:020d}.json"


def _order(mark: Mark) -> tuple[int, int]:
    return mark.version, sum(mark.ends.values())
