"""What a worker's task tells the driver: the files it wrote, what it counted, and the questions it could not answer."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from distributary.ingest.checkpoint.histories import join_met
from distributary.ingest.columns.layout import Layout
from distributary.ingest.kafka.places import Spans, join_spans
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.pins import Coordinates, RecordKey
from distributary.ingest.worker.sightings import Outgrown, Sightings, join, join_outgrown

# One binary column, one row a task.
REPORT_DDL = "report binary"


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file, the entity it is for (None: the quarantine) and the payload columns it holds."""

    entity: str | None
    file: DataFile
    layout: Layout


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


@dataclass
class TaskReport:
    """One task's account; adding two gives the account of both.

    spans        per topic and partition, what was read
    rows         rows on their way to each entity's table, by its folder
    decoded      records decoded, by schema id
    files        files written, none of them visible yet
    growths      layouts that grew in this task, or should have wider columns
    wishes       layouts that should have wider columns
    met          per record type, the tables that had not met it before, and the first record of it on its way there
    quarantined  rows sent to quarantine, by reason
    first        per reason, the first record sent to quarantine for it
    dropped      rows dropped because the settings say so, by reason
    already      rows left out because an earlier checkpoint committed them to their table
    aside        files of rows set aside
    questions    record types the pins do not cover, with the rows that wait for an answer
    key_questions  the same for the schemas of keys
    proposals    per record type whose schema was inferred: texts of schemas that would take what rows set aside bring
    stops        what met a policy that says `fail`
    unknown      fields that sampled records have and their schema lacks
    outgrown     records with fields that their inferred schema may not grow by any more
    retried      whether an earlier attempt at the task failed, which may have left files
    newcomers    entities beyond the task's allowance of new tables, with the rows that wait
    unmet        entities that have no inferred schema of their own yet: texts of schemas that would take their rows
    """

    spans: Spans = field(default_factory=dict)
    rows: Counter[str] = field(default_factory=Counter)
    decoded: Counter[int] = field(default_factory=Counter)
    files: list[WrittenFile] = field(default_factory=list)
    growths: list[Growth] = field(default_factory=list)
    wishes: list[Wish] = field(default_factory=list)
    met: dict[RecordKey, dict[str, Coordinates]] = field(default_factory=dict)
    quarantined: Counter[str] = field(default_factory=Counter)
    first: dict[str, Coordinates] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    already: int = 0
    aside: list[str] = field(default_factory=list)
    aside_rows: int = 0
    questions: Counter[RecordKey] = field(default_factory=Counter)
    key_questions: Counter[RecordKey] = field(default_factory=Counter)
    proposals: dict[RecordKey, set[str]] = field(default_factory=dict)
    newcomers: Counter[str] = field(default_factory=Counter)
    unmet: dict[str, set[str]] = field(default_factory=dict)
    stops: list[str] = field(default_factory=list)
    unknown: Sightings = field(default_factory=dict)
    outgrown: Outgrown = field(default_factory=dict)
    retried: bool = False

    def add(self, other: TaskReport) -> None:
        """Take another account into this one."""
        join_spans(self.spans, other.spans)
        self.rows += other.rows
        self.decoded += other.decoded
        self.files += other.files
        self.growths += other.growths
        self.wishes += other.wishes
        join_met(self.met, other.met)
        self.quarantined += other.quarantined
        for reason, place in other.first.items():
            self.first[reason] = min(place, self.first.get(reason, place))
        self.dropped += other.dropped
        self.already += other.already
        self.aside += other.aside
        self.aside_rows += other.aside_rows
        self.questions += other.questions
        self.key_questions += other.key_questions
        for key, texts in other.proposals.items():
            self.proposals.setdefault(key, set()).update(texts)
        self.newcomers += other.newcomers
        for entity, texts in other.unmet.items():
            self.unmet.setdefault(entity, set()).update(texts)
        self.stops += other.stops
        join(self.unknown, other.unknown)
        join_outgrown(self.outgrown, other.outgrown)
        self.retried |= other.retried

    def no_longer_aside(self) -> None:
        """Forget what was set aside: the next pass takes it up."""
        self.aside, self.aside_rows = [], 0
        self.questions.clear()
        self.key_questions.clear()
        self.proposals.clear()
        self.newcomers.clear()
        self.unmet.clear()


def to_batch(report: TaskReport) -> pa.RecordBatch:
    """The report as the one row that a task yields."""
    return pa.RecordBatch.from_arrays([pa.array([pickle.dumps(report)], pa.binary())], ["report"])


def total(rows: Iterable[bytes]) -> TaskReport:
    """All tasks' reports as one. The bytes come from our own workers only."""
    whole = TaskReport()
    for row in rows:
        whole.add(pickle.loads(row))  # noqa: S301
    return whole
