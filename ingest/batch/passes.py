"""Steps 3 and 4 of docs/explanation/how-a-batch-commits.md: passes over it until every record has its place, all in files that nobody sees yet."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias, cast

from py4j.protocol import Py4JError
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame, SparkSession

from distributary.errors import PipelineError
from distributary.ingest.batch.objections import Objections
from distributary.ingest.batch.schema_answers import SchemaAnswers
from distributary.ingest.batch.spark_decode import spark_decoded
from distributary.ingest.batch.waiting_records import emptied, waiting_records
from distributary.ingest.batch.written_layouts import layouts
from distributary.ingest.bronze.rule import ALREADY
from distributary.ingest.columns.growth import Change, changes
from distributary.ingest.columns.layout import NO_COLUMNS, Layout
from distributary.ingest.kafka.kept_records import KeptRecords
from distributary.ingest.kafka.portions import (
    ROWS_AT_ONCE,
    Portions,
    large_kept_back,
    of_any_columns,
    unbounded,
)
from distributary.ingest.kafka.records import worker_columns
from distributary.ingest.pins import (
    CONSTRAINT,
    Coordinates,
    PinnedTable,
    Pins,
    SentPins,
    Verdict,
    for_workers,
)
from distributary.ingest.spark.error_classes import worker_died
from distributary.ingest.storage import contract as storage
from distributary.ingest.tables.change import PlannedChange
from distributary.ingest.tables.known import TableBook
from distributary.ingest.tables.rows import offenders
from distributary.ingest.worker.demux import demultiplex
from distributary.ingest.worker.gathering import SHIPPED_DDL, gather
from distributary.ingest.worker.report import REPORT_DDL, Files, Questions, TaskReport, total

_log = logging.getLogger(__name__)

Records: TypeAlias = DataFrame | KeptRecords
"""A batch's."""

# Each pass answers all questions of the one before; more are needed only where answers bring new questions.
MOST_PASSES = 8


@dataclass(frozen=True)
class Settled:
    """A batch whose records all have their place: the report, what decided it, and each table's payload columns.

    touched  the folders that files were written to, by passes that were begun again, too
    """

    report: TaskReport
    pins: Pins
    layouts: Mapping[str, Layout]
    touched: frozenset[str] = frozenset()

    @property
    def kept(self) -> list[str]:
        """The folders of the tables that it has records as they came for."""
        return sorted(self.report.files.kept.keys() - {ALREADY})


class Spread:
    """Where rows go, which nobody knows before they are read: each task has a file for each of these."""

    def __init__(self) -> None:
        self.places = 0

    def note(self, report: TaskReport) -> None:
        """Take note of a pass. What one had is forgotten slowly, as the pass behind it may be one over a few records that waited."""
        found = {(one.file.table, one.file.partition) for one in report.files.written}
        self.places = max(len(found), self.places // 2)


@dataclass(frozen=True, slots=True)
class Workers:
    """Spark's workers.

    slots       how many tasks run at once
    headers     the record headers they read, by the columns those become
    arrow_rows  how many rows a worker is given at once
    most_files  where more may come, the rows of a table are brought together before they are written
    portions    who bounds the bytes that they are given at once
    spread      over how many tables, and partitions of them, batches were lately
    """

    slots: int
    headers: Mapping[str, str]
    arrow_rows: int
    most_files: int = 2_000
    portions: Portions = field(init=False)
    spread: Spread = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "portions", Portions(self.arrow_rows))
        object.__setattr__(self, "spread", Spread())

    def prepare(self, session: SparkSession) -> None:
        """The query's own session, so that the settings hold in one that a caller brought, and nowhere else in it."""
        session.conf.set(ROWS_AT_ONCE, str(self.arrow_rows))

    def columns(self, records: Records, pins: Pins) -> Records:
        """What workers need of a batch as Spark's Kafka source gives it, or as it is kept in files."""
        if isinstance(records, KeptRecords):
            reading = replace(
                records.reading,
                rows=self.arrow_rows,
                headers=self.headers,
                beside=pins.rules.tables.beside,
            )
            return replace(records, reading=reading)
        return worker_columns(records, len(pins.rules.topics), self.headers, pins.rules.tables.beside)

    def run_small(self, records: Records, pins: Pins) -> TaskReport | None:
        """The same as `run`, over a batch as Spark's Kafka source gives it that is taken for one of small records.

        None where that is not to be tried; a report that says `large` where there were others.
        """
        # Elsewhere what Spark is to bound is more than the records, or nothing.
        if pins.rules.decoding.engine == "spark" or self.ships(pins) or isinstance(records, KeptRecords):
            return None
        largest = self.portions.largest(records.sparkSession)
        if largest is None:
            return None
        whole = pins.rules.tables.beside.every_header
        small = self.columns(large_kept_back(records, largest, whole_headers=whole), pins)
        report = unbounded(records.sparkSession, self.arrow_rows, lambda: self.run(small, pins))
        if report.large:
            self.portions.met_large()
        return report

    def ships(self, pins: Pins) -> bool:
        """Whether the rows of a table are brought together before they are written."""
        return max(len(pins.tables.known), self.spread.places) * self.slots > self.most_files

    def run(self, todo: Records, pins: Pins) -> TaskReport:
        """One Spark job over records, as many tasks as there are slots: each writes few, large files."""
        pins, session = for_workers(pins), todo.sparkSession
        with sent(session, pins) as given, _watched(session, self.ships(pins)) as done_again:
            frame = self._job(todo.coalesce(self.slots), pins, given)
            by_spark = pins.rules.decoding.engine == "spark"
            rows = of_any_columns(session, self.arrow_rows, frame.collect) if by_spark else frame.collect()
        report = total(bytes(row.report) for row in rows)
        self.spread.note(report)
        # Whoever lost against a copy of himself is asked for no report.
        speculates = session.conf.get("spark.speculation", "false") == "true"
        report.retried = report.retried or speculates or done_again()
        return report

    def _job(self, records: Records, pins: Pins, given: Pins) -> DataFrame:
        """The reports of tasks that are given pins as `given`."""
        if pins.rules.decoding.engine == "spark" and not isinstance(records, KeptRecords):
            records = spark_decoded(records, pins, given)
        if not self.ships(pins):
            return records.mapInArrow(demultiplex(given), REPORT_DDL)
        shipped = records.mapInArrow(demultiplex(given, ships=True), SHIPPED_DDL)
        return shipped.repartition(self.slots, "folder").mapInArrow(gather(given), REPORT_DDL)


# From twice as many on Spark puts what tasks are given into a file by itself, and leaves that there for as long as its session lives.
_INLINE_BYTES = 2**19


@contextmanager
def sent(session: SparkSession, pins: Pins) -> Iterator[Pins]:
    """The pins as tasks of jobs within the block are given them: large ones are handed out once, and taken back behind it.

    Schemas are megabytes, and each pass of each batch would leave a copy of them on the driver's disk.
    """
    pickled: bytes = CloudPickleSerializer().dumps(pins)  # type: ignore[no-untyped-call]
    if len(pickled) <= _INLINE_BYTES:
        yield cast("Pins", SentPins(pickled))
        return
    handed_out = session.sparkContext.broadcast(pickled)
    try:
        yield cast("Pins", SentPins(handed_out))
    finally:
        # Where the JVM is gone, that is what the error on its way says.
        with suppress(Py4JError, OSError):
            handed_out.destroy()


@contextmanager
def _watched(session: SparkSession, shuffles: bool) -> Iterator[Callable[[], bool]]:
    """Asked behind the block: whether Spark did a whole stage of a job in it again, as where a machine is gone with what it had shuffled.

    The tasks of that count their attempts from the beginning.
    """
    context, tag = session.sparkContext, f"distributary-{uuid.uuid4().hex}"

    def done_again() -> bool:
        if not shuffles:
            return False
        tracker = context.statusTracker()
        # Of an older Spark that cannot be asked, and then what is left over goes with Delta's VACUUM.
        with suppress(Py4JError, TypeError):
            jobs = [tracker.getJobInfo(job) for job in context._jsc.sc().statusTracker().getJobIdsForTag(tag)]
            stages = [
                tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds
            ]
            return any(stage is not None and stage.currentAttemptId > 0 for stage in stages)
        return False

    if shuffles:
        context.addJobTag(tag)
    try:
        yield done_again
    finally:
        # Where the JVM is gone, that is what the error on its way says.
        with suppress(Py4JError, OSError):
            if shuffles:
                context.removeJobTag(tag)


@dataclass(frozen=True, slots=True)
class Again:
    """The whole batch once more, what was written thrown away."""

    pins: Pins


@dataclass(frozen=True, slots=True)
class GoOn:
    """With the rows that were set aside, beside what was written."""

    pins: Pins


class Settling:
    """Passes over one batch. Gives up without a trace: files of an attempt that failed are removed."""

    def __init__(
        self,
        spark: SparkSession,
        tables: TableBook,
        objections: Objections,
        answers: SchemaAnswers,
        workers: Workers,
    ) -> None:
        self._spark, self._tables, self._workers = spark, tables, workers
        self._objections, self._answers = objections, answers
        self._total = TaskReport()
        self._touched: set[str] = set()

    def settle(self, records: Records, pins: Pins) -> Settled:
        """`records` is the batch as Spark's Kafka source gives it, or as it is kept in files. Raises RestartToEvolve and PipelineErrors."""
        try:
            return self._settle(records, pins)
        except BaseException:
            _tried(lambda: discard(pins.batch.root, self._total))
            raise
        finally:
            _tried(lambda: emptied(pins.batch.aside))

    def _settle(self, whole: Records, pins: Pins) -> Settled:
        waiting: DataFrame | None = None
        for turn in range(MOST_PASSES):
            report, pins = self._survive(whole, waiting, pins)
            self._total.add(report)
            self._touched.update(written.file.table for written in report.files.written)
            found = self._judged(pins, last=turn >= MOST_PASSES - 2)
            if isinstance(found, Settled):
                return found
            if isinstance(found, Again):
                waiting, pins = None, self._from_the_beginning(found.pins)
            else:
                names, pins = self._total.questions.aside, found.pins
                waiting = waiting_records(self._spark, pins.batch.aside, names)
                self._total.questions = Questions()
        raise PipelineError(
            f"batch {pins.batch.id}: after {MOST_PASSES} passes there are records without a place; nothing became "
            "visible. This is a defect of distributary: keep the checkpoint and report it"
        )

    def _judged(self, pins: Pins, *, last: bool) -> Again | GoOn | Settled:
        """What follows from all that was reported. Raises RestartToEvolve and PipelineErrors."""
        again = self._objections.objection(self._total, pins)
        if again is not None:
            return Again(again)
        if self._total.questions.aside:
            # An empty list asks for no column, but belongs in the one that another record's list asked for.
            grew = bool(self._total.questions.proposals)
            pins = self._objections.new_tables.admitted(self._total, pins, last=last)
            pins = self._answers.answered(self._total.questions, pins, last=last)
            return Again(pins) if grew else GoOn(pins)
        again = self._without_offenders(pins)
        if again is not None:
            return Again(again)
        self._objections.check_policies(self._total, pins)
        return Settled(self._total, pins, layouts(self._total, pins), frozenset(self._touched))

    def _from_the_beginning(self, pins: Pins) -> Pins:
        discard(pins.batch.root, self._total)
        # Layouts that are pinned from here on do not grow again, and somebody will ask what made them.
        # So do those of tasks that were done more than once, of whose files nobody tells.
        growths, retried = self._total.files.growths, self._total.retried
        self._total = TaskReport(files=Files(growths=growths), retried=retried)
        return replace(pins, turn=replace(pins.turn, count_input=True))

    def _survive(self, whole: Records, waiting: DataFrame | None, pins: Pins) -> tuple[TaskReport, Pins]:
        """One pass over what waits, or all; where a payload kills its worker, once more with each tried in a child process first."""
        try:
            return self._passed(whole, waiting, pins), pins
        except Exception as error:
            if pins.turn.guarded or not worker_died(error):
                raise
        guarded = replace(pins, turn=replace(pins.turn, guarded=True))
        return self._passed(whole, waiting, guarded), guarded

    def _passed(self, whole: Records, waiting: DataFrame | None, pins: Pins) -> TaskReport:
        if waiting is not None:
            return self._workers.run(waiting, pins)
        report = None if pins.turn.guarded else self._workers.run_small(whole, pins)
        if report is not None and not report.large:
            return report
        again = self._workers.columns(whole, pins)
        if report is None:
            return self._workers.run(again, pins)
        discard(pins.batch.root, report)
        self._touched.update(written.file.table for written in report.files.written)
        self._total.retried = self._total.retried or report.retried
        return self._workers.run(again, pins)

    def _without_offenders(self, pins: Pins) -> Pins | None:
        """The pins with the records that a table's own constraints refuse; None where there are none."""
        rejected: dict[Coordinates, Verdict] = {}
        files = [written.file for written in self._total.files.written if written.entity is not None]
        for folder, state in self._tables.states(file.table for file in files).items():
            if not state.conditions.checks:
                continue
            mine = [file for file in files if file.table == folder]
            for found in offenders(self._spark, mine, state, self._place(pins)):
                rejected[found.topic, found.partition, found.offset] = Verdict(CONSTRAINT, found.detail)
        if not rejected:
            return None
        return replace(pins, turn=replace(pins.turn, rejected={**pins.turn.rejected, **rejected}))

    @staticmethod
    def _place(pins: Pins) -> tuple[str, str, str]:
        columns = pins.rules.columns
        return columns.kafka_topic, columns.kafka_partition, columns.kafka_offset


def discard(
    root: storage.Files, report: TaskReport, keep: Callable[[str], bool] = lambda table: False
) -> None:
    """Remove the files of an attempt, those of the tables to keep excepted; no log names any of them."""
    gone = [written.file for written in report.files.written if not keep(written.file.table)]
    root.delete(f"{file.table}/{file.name}" for file in gone)
    for folder in {file.table for file in gone}:
        # Only a table that was not to be has nothing else in its folder, not even a log.
        root.remove_folder(folder)


def _tried(remove: Callable[[], None]) -> None:
    """What cannot be removed is swept by a later attempt or the next start; it must not hide why we are here."""
    try:
        remove()
    except OSError as error:
        _log.warning("files of a batch that is given up stay for now: %s", error)


def planned_changes(settled: Settled, known: Mapping[str, PinnedTable]) -> list[PlannedChange]:
    """What becomes of the tables that this batch writes to; nothing where every column is there already."""
    entities = {
        written.table: written.entity
        for written in settled.report.files.written
        if written.entity is not None
    }
    growths = {growth.table: growth for growth in settled.report.files.growths}
    found = []
    added: dict[tuple[Layout, Layout], tuple[Change, ...]] = {}
    for folder, layout in settled.layouts.items():
        before = known[folder].layout if folder in known else NO_COLUMNS
        key = (before, layout)
        if key not in added:
            added[key] = tuple(changes(before.columns, layout.columns))
        if folder in known and not added[key]:
            continue
        growth = growths.get(folder)
        found.append(
            PlannedChange(
                folder,
                entities[folder],
                folder not in known,
                added[key],
                growth.schema_id if growth else None,
                growth.first if growth else None,
            )
        )
    return found
