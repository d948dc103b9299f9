"""Tables that are parked: they could not take a batch's files, which wait with those since, while the others go on.

docs/adr/0019-parked-tables.md says why each step is where it is.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from distributary.errors import CheckpointMismatch, CommitImpossible, PipelineError
from distributary.ingest.batch.finish import Finisher
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import Generation
from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.checkpoint.manifests import finished_table
from distributary.ingest.columns.widening import widenings
from distributary.ingest.commit_log.entries import Standing
from distributary.ingest.commit_log.followed import Followed
from distributary.ingest.commit_log.reading import CommitLog
from distributary.ingest.commit_log.writing import written
from distributary.ingest.evolution.rules import Parking
from distributary.ingest.kafka.columns import table_schema
from distributary.ingest.merge.rule import memory_folder, memory_schema
from distributary.ingest.pins import PinnedTable
from distributary.ingest.settings.groups import Columns
from distributary.ingest.spark.error_classes import named
from distributary.ingest.tables.change import create, evolve
from distributary.ingest.tables.known import REMEMBERS_PROPERTY, TableBook
from distributary.ingest.tables.state import read_state
from distributary.values import without_logins

_log = logging.getLogger(__name__)

# Each entry of the log says what waits, batch by batch and table by table.
_MOST_WAITING = 10_000

_MOST_TOLD = 2_000

_REMEDY = "put it right and start the pipeline anew, or let `distributary resolve` decide"


@dataclass
class RunsParkedTables:
    """The parked tables of one run, whose log names what waits for them."""

    checkpoint: Checkpoint
    log: Followed
    tables: TableBook
    rules: Parking
    _pinned: dict[tuple[str, int], PinnedTable] = field(default_factory=dict, init=False)
    _broken: set[str] = field(default_factory=set, init=False)

    @property
    def parks(self) -> bool:
        """Whether the settings let further tables be parked."""
        return self.rules.parks

    @property
    def folders(self) -> frozenset[str]:
        """The folders of all parked tables."""
        return frozenset(self.log.so_far.parked)

    def waiting(self, batch_id: int) -> frozenset[str]:
        """The folders of the tables for which the batch's files wait."""
        return self.log.so_far.waiting(batch_id)

    def park(self, batch_id: int, error: CommitImpossible) -> bool:
        """Let the batch's files wait for the tables that cannot take them; whether the settings say so.

        The log says so before the ledger does that the batch is complete: whoever comes after a crash in between knows of both. Raises
        Fenced, AnswerLost and OSError as every decision does.
        """
        if not self.rules.parks:
            return False
        parked = self.log.so_far.parked
        more = {folder: (*parked.get(folder, ()), batch_id) for folder in error.tables}
        written(self.log).park({**parked, **more}, str(error))
        _log.warning("batch %s is parked for %s: %s", batch_id, ", ".join(error.tables), _REMEDY)
        return True

    def mend(self, finisher: Finisher, generation: Generation, last: Manifest | None) -> None:
        """Put right what a loss of power left of parked tables' logs, as of all others; one whose log nobody can read stays parked.

        Raises CheckpointMismatch where the settings let none be parked.
        """
        parked = self.log.so_far.parked
        for folder in sorted(parked.keys() & set(self.tables.root.folders())) if parked else ():
            try:
                finisher.mend(generation, [folder], last, parked)
            except CheckpointMismatch as error:
                if not self.rules.parks:
                    raise
                _log.warning("table %s stays parked: %s", folder, error)
                self._broken.add(folder)

    def leave_alone(self) -> None:
        """Have nothing decided by what parked tables are just now."""
        self.tables.parked = self.folders

    def require_room(self) -> None:
        """Raises CommitImpossible where files have waited for so long that the settings let no further batch be decided."""
        so_far = self.log.so_far
        oldest, waits = so_far.oldest_parked, sum(map(len, so_far.parked.values()))
        long = oldest is not None and self.log.next - oldest > self.rules.most
        if not long and waits <= _MOST_WAITING:
            return
        told = self.told()[:_MOST_TOLD]
        bound = (
            f"as long as policies.parked_batches ({self.rules.most}) allows"
            if long
            else "more than the log keeps"
        )
        raise CommitImpossible(
            f"{told}. That is {bound}, so the run stops: {_REMEDY}", tuple(sorted(self.folders))
        )

    def told(self) -> str:
        """Which tables are parked, and since when, in words; empty where none is."""
        each = [
            f"table {folder} is parked since batch {numbers[0]}, {len(numbers)} of its batches wait"
            for folder, numbers in sorted(self.log.so_far.parked.items())
        ]
        return "; ".join(each)

    def pinned(self, entities: Mapping[str, str]) -> dict[str, PinnedTable]:
        """The parked tables as they will be once they have what waits, whatever became of them: what comes has to fit behind that."""
        parked = {
            folder: self.log.so_far.parked[folder][-1]
            for folder in entities.values()
            if folder in self.folders
        }
        names = {folder: entity for entity, folder in entities.items()}
        before = {folder: found.partitions for (folder, _), found in self._pinned.items()}
        self._pinned = {key: found for key, found in self._pinned.items() if key in parked.items()}
        for key in parked.items():
            if key not in self._pinned:
                last = finished_table(self.checkpoint.log, key[1], key[0])[0].table(key[0])
                by = last.partitions if last.files else before.get(key[0]) or self._partitions(key[0])
                self._pinned[key] = PinnedTable(names[key[0]], last.layout, frozenset(by), by)
        return {folder: found for (folder, _), found in self._pinned.items()}

    def _partitions(self, folder: str) -> tuple[str, ...]:
        """What a parked table is partitioned by, which files tell that wait: a batch of deletes alone has none."""
        for number in reversed(self.log.so_far.parked[folder]):
            waits = finished_table(self.checkpoint.log, number, folder)[0].table(folder)
            if waits.files:
                return waits.partitions
        # Where none waits that tells it, what is there now, if that is a table.
        with suppress(DeltaError, OSError, PipelineError):
            if (state := read_state(self.tables.place(folder))) is not None:
                return state.native_partitions
        return ()

    def bring_in(self, finisher: Finisher, columns: Columns) -> None:
        """Commit what waits to all tables that take it now, as a start does. Raises CommitImpossible where the settings let none be parked."""
        self.tables.parked = frozenset()
        parked, left = self.log.so_far.parked, {}
        for folder, numbers in parked.items():
            if folder in self._broken:
                left[folder] = numbers
                continue
            try:
                waiting = Waiting(self.checkpoint.log, folder, numbers)
                brought_in(waiting, finisher, self.tables, columns, self.tables.spark)
            except (PipelineError, DeltaError, OSError, Py4JError, PySparkException) as error:
                if not self.rules.parks or is_for_all(error):
                    raise
                _log.warning("table %s stays parked: %s", folder, named(error) or without_logins(str(error)))
                left[folder] = numbers
        if left != parked:
            came = ", ".join(sorted(parked.keys() - left.keys()))
            written(self.log).park(left, f"{came}: what waited is in, or to be left out")
            _log.warning("no longer parked: %s", came)
            still = {number for numbers in left.values() for number in numbers}
            for number in {number for numbers in parked.values() for number in numbers} - still:
                finisher.cleared(number)


def is_for_all(error: Exception) -> bool:
    """Whether an error that a parked table met ends the run: it is not of that table alone."""
    return getattr(error, "fatal", False) and not isinstance(error, CommitImpossible)


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for one table: the batches of a log, ascending."""

    log: CommitLog
    folder: str
    numbers: Sequence[int]


def brought_in(
    waiting: Waiting,
    finisher: Finisher,
    tables: TableBook,
    columns: Columns,
    spark: SparkSession | None = None,
) -> None:
    """Commit to a table what waits for it, the oldest batch first; what is in already is left alone.

    Raises CommitImpossible where it still cannot take it, TableAhead where it has a batch of another log, PipelineError where nobody
    can tell what it has.
    """
    numbers = [number for number in waiting.numbers if not finisher.leaves_out(number, waiting.folder)]
    if not numbers:
        return
    # One after the other: a table that still cannot take the first of a thousand has nobody read the others.
    first = finished_table(waiting.log, numbers[0], waiting.folder)[0].table(waiting.folder)
    newest = tables.newest_batch(waiting.folder, first.app_id)
    # A run that died amid this left some in; the newest of them is held against the batch once more.
    behind = 0 if newest is None or newest not in numbers else numbers.index(newest)
    last = finished_table(waiting.log, numbers[-1], waiting.folder)[0].table(waiting.folder)
    # What the batches brought while the table was left alone.
    wider = spark is not None and any(widenings(first.layout.columns, last.layout.columns))
    schema, rule = table_schema(columns, last.layout), finisher.rule_of(last)

    def evolved(folder: str, wanted: pa.Schema) -> None:
        if folder in tables.states([folder]):
            evolve(tables.place(folder), wanted, spark, widen=wider)
            tables.changed(folder)

    evolved(waiting.folder, schema)
    if rule is not None and rule.deletes is not None:
        # So with what remembers its deletes, and with each record what a history has.
        folder, remembered = memory_folder(waiting.folder), memory_schema(rule, schema)
        parked_at = finished_table(waiting.log, waiting.numbers[0], waiting.folder)[0].table(waiting.folder)
        if parked_at.merging is not None and parked_at.merging.deletes is not None:
            evolved(folder, remembered)
        else:
            # It began meanwhile; one that was there and is gone knew of others.
            create(tables.place(folder), remembered, {REMEMBERS_PROPERTY: waiting.folder})
            tables.changed(folder)
    for number in numbers[behind:]:
        manifest, before = finished_table(waiting.log, number, waiting.folder)
        finisher.bring_in(manifest, waiting.folder, spark, before)


@dataclass(frozen=True, slots=True)
class StayParked:
    """What is parked in a log that is handed over; nothing is parked there any more."""

    so_far: Standing
    parks: bool = False

    def waiting(self, batch_id: int) -> frozenset[str]:
        """The folders of the tables for which a batch's files wait."""
        return self.so_far.waiting(batch_id)

    def park(self, batch_id: int, error: CommitImpossible) -> bool:
        """Never: what a table cannot take is told."""
        return False
