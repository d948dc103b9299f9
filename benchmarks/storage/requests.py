"""What batches asked of a store, a table: its data files, its entries, and now and then a checkpoint of its log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from distributary.ingest.checkpoint.folder import LEASE


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests of some batches, all their tables together; a table counts once for each batch that writes to it.

    tables       how many there were
    data_files   requests that put data files
    checkpoints  how many logs got a checkpoint, or were looked at for one
    at_those     requests for those tables but for data files: a log is read to write its checkpoint
    at_others    requests for the other tables but for data files
    beside       requests for no table in particular
    """

    tables: int = 0
    data_files: int = 0
    checkpoints: int = 0
    at_those: int = 0
    at_others: int = 0
    beside: int = 0

    def __add__(self, other: Requests) -> Requests:
        return Requests(
            self.tables + other.tables,
            self.data_files + other.data_files,
            self.checkpoints + other.checkpoints,
            self.at_those + other.at_those,
            self.at_others + other.at_others,
            self.beside + other.beside,
        )

    @property
    def a_table(self) -> float:
        """Requests a batch and table, data files and checkpoints of logs apart."""
        return self.at_others / (self.tables - self.checkpoints)

    @property
    def checkpoints_a_table(self) -> float:
        """What checkpoints of logs add to that, on average."""
        return (self.at_those - self.a_table * self.checkpoints) / self.tables


def of_batch(asked: Iterable[str], root: str) -> Requests:
    """The requests of one batch. The lease's are none of them: they go by time.

    `asked`: each request, its method, a space, and its target; `root`: the place of the tables, such as "/lake/1/lake"
    """
    data: Counter[str] = Counter()
    others: Counter[str] = Counter()
    written: set[str] = set()
    checkpointed: set[str] = set()
    for line in asked:
        method, _, target = line.partition(" ")
        path = _path(target)
        if f"/{LEASE}/" in path:
            continue
        table, *rest = _below(path, root)
        if method in ("PUT", "POST") and len(rest) == 1 and rest[0].endswith(".parquet"):
            data[table] += 1
            continue
        others[table] += 1
        if len(rest) > 1 and rest[0] == "_delta_log":
            if rest[-1] == "_last_checkpoint":
                checkpointed.add(table)
            elif method == "PUT":
                written.add(table)
    # A checkpoint may be written when its batch is over.
    return Requests(
        tables=len(written | checkpointed),
        data_files=sum(data[table] for table in written),
        checkpoints=len(checkpointed),
        at_those=sum(others[table] for table in checkpointed),
        at_others=sum(others[table] for table in written - checkpointed),
        beside=sum(number for table, number in others.items() if table not in written | checkpointed),
    )


def _path(target: str) -> str:
    """What is asked about: a file, or what the names in a listing begin with."""
    parts = urlsplit(target)
    query = parse_qs(parts.query)
    return f"{unquote(parts.path)}/{query['prefix'][0]}" if "prefix" in query else unquote(parts.path)


def _below(path: str, root: str) -> Sequence[str]:
    """The parts of a path below the root; one empty part where it is not there."""
    inside = path.removeprefix(f"{root}/")
    return [part for part in inside.split("/") if part] or [""] if inside != path else [""]
