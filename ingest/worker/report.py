"""What a worker's task tells the driver: the files it wrote, what it counted, and the questions it could not answer."""

from __future__ import annotations

import operator
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from distributary.ingest.checkpoint.histories import join_met
from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.safe_names import MEMORY_SUFFIX
from distributary.ingest.kafka.offset_spans import Spans, join_spans
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.pins import Coordinates, RecordKey
from distributary.ingest.worker.fields_seen import (
    LackedFields,
    Outgrown,
    Unrouted,
    join,
    join_outgrown,
    join_unrouted,
)

if TYPE_CHECKING:
    from typing_extensions import Self

# One binary column, one row a task.
REPORT_DDL = "report binary"


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file, the entity it is for (None: its table is no entity's) and the payload columns that its table has.

    remembers  whether it is for what remembers the deletes of that table
    """

    entity: str | None
    file: DataFile
    layout: Layout
    remembers: bool = False

    @property
    def table(self) -> str:
        """The folder of the entity's table."""
        return self.file.table.removesuffix(MEMORY_SUFFIX) if self.remembers else self.file.table


@dataclass(frozen=True, slots=True)
class Growth:
    """A table met a record type that brings columns it lacks, first seen at these coordinates."""

    table: str
    key: RecordKey
    schema_id: int
    first: Coordinates


@dataclass(frozen=True, slots=True)
class Wish:
    """A table met a record type for which columns of it are too narrow: the payload columns that it should have."""

    table: str
    entity: str
    key: RecordKey
    layout: Layout


class _Part:
    """A part of an account. Each field says how two of it become one; a part cannot be added without that."""

    def add(self, other: Self) -> None:
        """Take another's part into this one."""
        for one in fields(self):  # type: ignore[arg-type] # every part is a dataclass
            mine = one.metadata["join"](getattr(self, one.name), getattr(other, one.name))
            setattr(self, one.name, mine)


def _by(join: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """What a field is added by: a function of its value and another's that gives both as one."""
    return {"join": join}


def _in_place(join: Callable[[Any, Any], None]) -> dict[str, Any]:
    """The same with a function that takes the other into the first."""

    def joined(mine: Any, other: Any) -> Any:
        join(mine, other)
        return mine

    return _by(joined)


_SUM = _by(operator.add)

_GATHERED = _by(operator.iadd)


def _join_first(mine: dict[str, Coordinates], other: Mapping[str, Coordinates]) -> None:
    for reason, place in other.items():
        mine[reason] = min(place, mine.get(reason, place))


def _join_texts(mine: dict[Any, set[str]], other: Mapping[Any, set[str]]) -> None:
    for key, texts in other.items():
        mine.setdefault(key, set()).update(texts)


@dataclass
class Counts(_Part):
    """How many records came to which end.

    spans        per topic and partition, what was read
    rows         rows on their way to each entity's table, by its folder
    decoded      records decoded, by schema id
    quarantined  rows sent to quarantine, by reason
    first        per reason, the first record sent to quarantine for it
    dropped      rows dropped because the settings say so, by reason
    already      rows left out because an earlier checkpoint committed them to their table
    """

    spans: Spans = field(default_factory=dict, metadata=_in_place(join_spans))
    rows: Counter[str] = field(default_factory=Counter, metadata=_GATHERED)
    decoded: Counter[int] = field(default_factory=Counter, metadata=_GATHERED)
    quarantined: Counter[str] = field(default_factory=Counter, metadata=_GATHERED)
    first: dict[str, Coordinates] = field(default_factory=dict, metadata=_in_place(_join_first))
    dropped: Counter[str] = field(default_factory=Counter, metadata=_GATHERED)
    already: int = field(default=0, metadata=_SUM)


@dataclass
class Files(_Part):
    """What was written, none of it visible yet, and how tables change by it.

    written   the files
    growths   layouts that grew in this task, or should have wider columns
    wishes    layouts that should have wider columns
    requests  to the object store that the files are in
    kept      records as they came, by the folder of the table that keeps them; those that an earlier checkpoint kept by `ALREADY`
    """

    written: list[WrittenFile] = field(default_factory=list, metadata=_GATHERED)
    growths: list[Growth] = field(default_factory=list, metadata=_GATHERED)
    wishes: list[Wish] = field(default_factory=list, metadata=_GATHERED)
    requests: int = field(default=0, metadata=_SUM)
    kept: Counter[str] = field(default_factory=Counter, metadata=_GATHERED)


@dataclass
class Questions(_Part):
    """Rows that have no place yet, and what the driver is asked because of them. The next pass takes them up.

    aside      names of files of rows set aside
    waiting    how many rows those are
    records    record types the pins do not cover, with the rows that wait for an answer
    keys       the same for the schemas of keys
    proposals  per record type whose schema was inferred: texts of schemas that would take what rows set aside bring
    newcomers  entities beyond the task's allowance of new tables, with the rows that wait
    unmet      entities that have no inferred schema of their own yet: texts of schemas that would take their rows
    untold     whether there was no room to tell of all of either
    """

    aside: list[str] = field(default_factory=list, metadata=_GATHERED)
    waiting: int = field(default=0, metadata=_SUM)
    records: Counter[RecordKey] = field(default_factory=Counter, metadata=_GATHERED)
    keys: Counter[RecordKey] = field(default_factory=Counter, metadata=_GATHERED)
    proposals: dict[RecordKey, set[str]] = field(default_factory=dict, metadata=_in_place(_join_texts))
    newcomers: Counter[str] = field(default_factory=Counter, metadata=_GATHERED)
    unmet: dict[str, set[str]] = field(default_factory=dict, metadata=_in_place(_join_texts))
    untold: bool = field(default=False, metadata=_by(operator.or_))


@dataclass
class Sightings(_Part):
    """What was met on the way, for people to know.

    met       per record type, the tables that had not met it before, and the first record of it on its way there
    unknown   fields that sampled records have and their schema lacks
    outgrown  records with fields that their inferred schema may not grow by any more
    unrouted  records whose types the routing expression does not go with
    expected  per table's folder, expectation and whether it is met, the records that were held against it
    """

    met: dict[RecordKey, dict[str, Coordinates]] = field(default_factory=dict, metadata=_in_place(join_met))
    unknown: LackedFields = field(default_factory=dict, metadata=_in_place(join))
    outgrown: Outgrown = field(default_factory=dict, metadata=_in_place(join_outgrown))
    unrouted: Unrouted = field(default_factory=dict, metadata=_in_place(join_unrouted))
    expected: Counter[tuple[str, str, bool]] = field(default_factory=Counter, metadata=_GATHERED)


_PART = _in_place(_Part.add)


@dataclass
class TaskReport(_Part):
    """One task's account; adding two gives the account of both.

    stops    what met a policy that says `fail`
    retried  whether an earlier attempt at the task failed, which may have left files
    large    whether records were kept back for being large (ingest/kafka/portions.py), and so nothing here is of any use
    """

    counts: Counts = field(default_factory=Counts, metadata=_PART)
    files: Files = field(default_factory=Files, metadata=_PART)
    questions: Questions = field(default_factory=Questions, metadata=_PART)
    sightings: Sightings = field(default_factory=Sightings, metadata=_PART)
    stops: list[str] = field(default_factory=list, metadata=_GATHERED)
    retried: bool = field(default=False, metadata=_by(operator.or_))
    large: bool = field(default=False, metadata=_by(operator.or_))


def to_batch(report: TaskReport) -> pa.RecordBatch:
    """The report as the one row that a task yields."""
    return pa.RecordBatch.from_arrays([pa.array([pickle.dumps(report)], pa.binary())], ["report"])


def total(rows: Iterable[bytes]) -> TaskReport:
    """All tasks' reports as one. The bytes come from our own workers only."""
    whole = TaskReport()
    for row in rows:
        whole.add(pickle.loads(row))  # noqa: S301
    return whole
