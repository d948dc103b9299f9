"""Tables that are parked: they could not take a batch's files, which wait with those since, while the others go on.

docs/adr/0019-parked-tables.md says why each step is where it is.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from distributary.errors import CommitImpossible, PipelineError
from distributary.ingest.batch.finish import Finisher
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import Generation
from distributary.ingest.checkpoint.manifest import Manifest, TableFiles
from distributary.ingest.checkpoint.manifests import finished_table, folders_of, partitions_told
from distributary.ingest.checkpoint.stuck import StuckCommits
from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.columns.widening import widenings
from distributary.ingest.commit_log.entries import NONE, Batch
from distributary.ingest.commit_log.followed import Followed
from distributary.ingest.commit_log.reading import CommitLog, KeptLog
from distributary.ingest.commit_log.writing import written
from distributary.ingest.evolution.rules import Parking, Rules
from distributary.ingest.kafka.columns import table_schema
from distributary.ingest.merge.rule import memory_folder, memory_schema
from distributary.ingest.pins import PinnedTable
from distributary.ingest.settings.groups import Columns
from distributary.ingest.spark.error_classes import named
from distributary.ingest.tables.change import create, evolve
from distributary.ingest.tables.commit import OF_ONE_TABLE, is_for_all
from distributary.ingest.tables.known import REMEMBERS_PROPERTY, TableBook
from distributary.ingest.tables.state import read_state
from distributary.values import without_logins

_log = logging.getLogger(__name__)

# Each entry of the log says what waits, batch by batch and table by table.
_MOST_WAITING = 10_000

_MOST_TOLD, _MOST_TOLD_OF_ONE = 2_000, 500

_FRAMES = re.compile(r"(?:\s+\d+: <\w+>)+")

_REMEDY = "put it right and start the pipeline anew, or let `distributary resolve` decide"

_TO_OPEN = (
    "Have what was done to it taken back, or restore it from a copy; or move its folder away, and let `distributary resolve` decide about the "
    "rows that wait then; or have the others go on without it (`policies.stuck_table: park`)"
)


@dataclass
class RunsParkedTables:
    """The parked tables of one run, whose log names what waits for them; and those that nobody can open, for which nothing may wait yet."""

    checkpoint: Checkpoint
    log: Followed
    tables: TableBook
    rules: Parking
    _pinned: dict[tuple[str, int], PinnedTable] = field(default_factory=dict, init=False)
    _unread: dict[str, str] = field(default_factory=dict, init=False)
    _known: Mapping[str, PinnedTable] = field(default_factory=dict, init=False)

    @property
    def parks(self) -> bool:
        """Whether the settings let further tables be parked."""
        return self.rules.parks

    @property
    def folders(self) -> frozenset[str]:
        """The folders of all tables that are left alone: parked ones, and those that nobody can open."""
        return self.unread.union(self.log.so_far.parked)

    @property
    def unread(self) -> frozenset[str]:
        """The folders of the tables that this run found nobody can open."""
        return frozenset(self._unread)

    def waits(self) -> dict[str, int]:
        """How many batches wait for each of these tables, by their folders in order."""
        parked = self.log.so_far.parked
        return {folder: len(parked.get(folder, ())) for folder in sorted(self.folders)}

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

    def unreadable(self, folders: Iterable[str]) -> dict[str, str]:
        """Which of these tables nobody can open, each asked alone, and why; none where the ledger cannot be opened either: then it is the place."""
        asked = list(dict.fromkeys(folders))
        found = dict(filter(_with_reason, self._asked(asked)))
        if found and not any(map(_with_reason, self._asked([BATCHES_TABLE]))):
            # Once more, as what keeps everybody from a store for a moment may be over by then.
            return {folder: why for folder, why in self._asked(list(found)) if why}
        return {}

    def _asked(self, folders: Sequence[str]) -> list[tuple[str, str]]:
        def why(folder: str) -> tuple[str, str]:
            try:
                self.tables.require_readable(folder)
            except OF_ONE_TABLE as error:
                if isinstance(error, (ConnectionError, TimeoutError)):
                    raise
                return folder, _why(error)
            return folder, ""

        with ThreadPoolExecutor(max(1, min(self.tables.threads, len(folders)))) as pool:
            return list(pool.map(why, folders))

    def pass_over(self, folders: Iterable[str], error: Exception) -> None:
        """From here on leave those of these tables of entities alone that nobody can open, as something met one with this error.

        Their files wait as those of tables that cannot take them. Raises the error where it came of something else, and PipelineError, which
        names the tables, where the settings let none be parked.
        """
        if is_for_all(error):
            raise error
        mine = set(folders) - self.unread
        asked = {name: folder for folder in sorted(mine) for name in (folder, memory_folder(folder))}
        found = {asked[name]: why for name, why in self.unreadable(asked).items()}
        if not found:
            raise error
        if not self.rules.parks:
            raise error if isinstance(error, CommitImpossible) else self._cannot_be_opened(found) from error
        self._unread |= found
        self.park_unread()

    def _cannot_be_opened(self, found: Mapping[str, str]) -> PipelineError:
        told = "; ".join(
            f"table {self.tables.place(one)} cannot be opened ({why})" for one, why in found.items()
        )
        return PipelineError(f"{told[:_MOST_TOLD]}. {_TO_OPEN}")

    def park_unread(self) -> None:
        """Have what comes wait for tables that nobody can open, behind the newest batch each of them has, as far as the log still names one."""
        parked = self.log.so_far.parked
        newest = self._newest_batches(self._unread.keys() - parked.keys())
        if not newest:
            return
        for number in sorted(set(newest.values())):
            tables = tuple(sorted(folder for folder, its in newest.items() if its == number))
            told = str(self._cannot_be_opened({folder: self._unread[folder] for folder in tables}))
            StuckCommits(self.checkpoint).add(number, CommitImpossible(told, tables))
        why = "; ".join(f"{folder} cannot be opened" for folder in sorted(newest))
        written(self.log).park({**parked, **{folder: (number,) for folder, number in newest.items()}}, why)
        for folder in sorted(newest):
            _log.warning(
                "table %s is parked, as nobody can open it (%s): %s", folder, self._unread[folder], _REMEDY
            )

    def _newest_batches(self, folders: Collection[str]) -> dict[str, int]:
        """The newest batch with files for each of these tables, of those that are not closed and not too old to be waited behind."""
        found = dict[str, int]()
        number, log = self.log.so_far.last, self.checkpoint.log
        first = max(log.closed() + 1, self.log.next - self.rules.most) if folders else 0
        while number is not None and number >= first and len(found) < len(folders):
            batch = log.entry(number)
            if not isinstance(batch, Batch):
                break
            for folder in folders_of(batch, log).keys() & set(folders):
                found.setdefault(folder, number)
            number = batch.so_far.last
        return found

    def mend(
        self, finisher: Finisher, generation: Generation, last: Manifest | None, folders: Iterable[str]
    ) -> set[str]:
        """Put right what a loss of power left of these tables' logs and of parked ones'; which of the former it took something from.

        A table of an entity that nobody can mend is left alone. Raises CheckpointMismatch, or what else keeps one from it, where the settings
        let none be parked.
        """
        parked = self.log.so_far.parked
        entities = {*parked, *(last.entities.values() if last else ())}
        owners = {name: folder for folder in entities for name in (folder, memory_folder(folder))}

        def passed_over(folder: str, error: Exception) -> None:
            table = owners.get(folder)
            if not self.rules.parks or table is None:
                raise (
                    error
                    if isinstance(error, PipelineError)
                    else self._cannot_be_opened({folder: str(error)})
                )
            _log.warning("table %s is left alone: %s", folder, error)
            self._unread[table] = str(error)

        there = set(self.tables.root.folders())
        if parked:
            finisher.mend(generation, sorted(parked.keys() & there), last, parked, passed_over)
        return finisher.mend(generation, set(folders) & there - parked.keys(), last, {}, passed_over)

    def leave_alone(self) -> None:
        """Have nothing decided by what parked tables are just now."""
        self.tables.parked = self.folders

    def remember(self, known: Mapping[str, PinnedTable]) -> None:
        """Take note of what the tables are: one that nobody can open by the next batch is laid out by that."""
        self._known = known

    def require_columns(self, folders: Collection[str]) -> None:
        """Raises CommitImpossible where one of these tables got records, and nobody can open it and nothing tells its columns."""
        unknown = self.folders.intersection(folders) - self.log.so_far.parked.keys()
        found = {
            folder: self._unread[folder]
            for folder in sorted(unknown)
            if folder not in self._known or not self._known[folder].layout.columns
        }
        if found:
            raise CommitImpossible(
                f"{self._cannot_be_opened(found)}. It got no record for so long that the log does not tell its columns any more, and there are some "
                "for it now: of these nothing is decided yet"
            )

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
        parked = self.log.so_far.parked
        each = [
            f"table {folder} is parked since batch {numbers[0]}, {len(numbers)} of its batches wait"
            for folder, numbers in sorted(parked.items())
        ]
        idle = [f"table {folder} cannot be opened" for folder in sorted(self._unread.keys() - parked.keys())]
        return "; ".join([*each, *idle])

    def pinned(self, entities: Mapping[str, str]) -> dict[str, PinnedTable]:
        """The parked tables as they will be once they have what waits, whatever became of them: what comes has to fit behind that."""
        waiting = self.log.so_far.parked
        parked = {folder: waiting[folder][-1] for folder in entities.values() if folder in waiting}
        names = {folder: entity for entity, folder in entities.items()}
        before = {folder: found.partitions for (folder, _), found in self._pinned.items()}
        self._pinned = {key: found for key, found in self._pinned.items() if key in parked.items()}
        for key in parked.items():
            if key not in self._pinned:
                last = finished_table(self.checkpoint.log, key[1], key[0])[0].table(key[0])
                by = last.partitions if last.files else before.get(key[0]) or self._partitions(key[0])
                self._pinned[key] = PinnedTable(names[key[0]], last.layout, frozenset(by), by)
        idle = names.keys() & (self._unread.keys() - waiting.keys())
        # With no columns where nothing tells them: once one gets records, the run stops by name.
        nothing = {folder: PinnedTable(names[folder], Layout(pa.schema([])), frozenset()) for folder in idle}
        known = {folder: self._known.get(folder, one) for folder, one in nothing.items()}
        return {**known, **{folder: found for (folder, _), found in self._pinned.items()}}

    def _partitions(self, folder: str) -> tuple[str, ...]:
        """What a parked table is partitioned by, which files tell that wait: a batch of deletes alone has none."""
        told = partitions_told(self.checkpoint.log, self.log.so_far.parked[folder], folder)
        if told is not None:
            return told
        # Where none waits that tells it, what is there now, if that is a table.
        with suppress(DeltaError, OSError, PipelineError):
            if (state := read_state(self.tables.place(folder))) is not None:
                return state.native_partitions
        return ()

    def bring_in(self, finisher: Finisher, rules: Rules) -> None:
        """Commit what waits to all tables that take it now, as a start does. Raises CommitImpossible where the settings let none be parked."""
        self.tables.parked = frozenset()
        parked, log = self.log.so_far.parked, KeptLog(self.checkpoint.log.files)
        left = {folder: numbers for folder, numbers in parked.items() if folder in self._unread}
        coming = {
            folder: bringing(
                Waiting(log, folder, numbers, rules.widens),
                finisher,
                self.tables,
                rules.columns,
                self.tables.spark,
            )
            for folder, numbers in parked.items()
            if folder not in left
        }
        due = dict.fromkeys(coming, NONE)
        while due:
            # Batch by batch, so that an entry is read once for all tables that wait with it.
            folder = min(due, key=due.__getitem__)
            try:
                due[folder] = next(coming[folder])
                continue
            except StopIteration:
                pass
            except (*OF_ONE_TABLE, Py4JError) as error:
                if not self.rules.parks or is_for_all(error):
                    raise
                _log.warning("table %s stays parked: %s", folder, named(error) or without_logins(str(error)))
                left[folder] = parked[folder]
            del due[folder]
        if left != parked:
            came = ", ".join(sorted(parked.keys() - left.keys()))
            written(self.log).park(left, f"{came}: what waited is in, or to be left out")
            _log.warning("no longer parked: %s", came)
            still = {number for numbers in left.values() for number in numbers}
            # One that was put back lacks a batch that waited for another one, perhaps.
            noted = StuckCommits(self.checkpoint).read()
            still |= {stuck.batch_id for stuck in noted if any(map(stuck.may_wait, left))}
            for number in {number for numbers in parked.values() for number in numbers} - still:
                finisher.cleared(number)


def _with_reason(one: tuple[str, str]) -> bool:
    return bool(one[1])


def _why(error: Exception) -> str:
    """Why a table cannot be opened, on one line and without what delta-rs tells of its own stack."""
    return named(error) or without_logins(" ".join(_FRAMES.sub("", str(error)).split())[:_MOST_TOLD_OF_ONE])


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for one table: the batches of a log, ascending.

    widens  whether an entity's table may get wider columns that it lacks, whichever of all batches brought them
    """

    log: CommitLog
    folder: str
    numbers: Sequence[int]
    widens: Callable[[str], bool] = lambda entity: False


def brought_in(
    waiting: Waiting,
    finisher: Finisher,
    tables: TableBook,
    columns: Columns,
    spark: SparkSession | None = None,
) -> None:
    """Commit to a table what waits for it, the oldest batch first. Raises as `bringing`."""
    for _ in bringing(waiting, finisher, tables, columns, spark):
        continue


def bringing(
    waiting: Waiting,
    finisher: Finisher,
    tables: TableBook,
    columns: Columns,
    spark: SparkSession | None = None,
) -> Iterator[int]:
    """The same batch by batch: the number of each before it is committed; what is in already is left alone.

    Raises CommitImpossible where the table still cannot take it, TableAhead where it has a batch of another log, PipelineError where
    nobody can tell what it has.
    """
    numbers = [number for number in waiting.numbers if not finisher.leaves_out(number, waiting.folder)]
    asked = numbers or waiting.numbers
    # One after the other: a table that still cannot take the first of a thousand has nobody read the others.
    oldest = finished_table(waiting.log, asked[0], waiting.folder)[0]
    first, any_wider = oldest.table(waiting.folder), any(map(waiting.widens, oldest.entities))
    last = finished_table(waiting.log, asked[-1], waiting.folder)[0].table(waiting.folder)
    try:
        newest = tables.newest_batch(waiting.folder, first.app_id)
    except PipelineError:
        if numbers:
            raise
        return  # of one that nobody can open, and that goes without all that waits
    if newest is not None and newest < waiting.numbers[0]:
        _require_not_put_back(waiting, finisher, tables, last)
    if not numbers:
        return
    # A run that died amid this left some in; the newest of them is held against the batch once more.
    behind = 0 if newest is None or newest not in numbers else numbers.index(newest)
    # What the batches brought while the table was left alone, one that it goes without included.
    parked_at = finished_table(waiting.log, waiting.numbers[0], waiting.folder)[0].table(waiting.folder)
    any_wider = any_wider or any(widenings(parked_at.layout.columns, last.layout.columns))
    schema, rule = table_schema(columns, last.layout), finisher.rule_of(last)

    def evolved(folder: str, wanted: pa.Schema, partitions: Sequence[str] = ()) -> None:
        if folder in tables.states([folder]):
            evolve(
                tables.place(folder),
                wanted,
                spark,
                widen=spark is not None and any_wider,
                partitions=partitions,
            )
            tables.changed(folder)

    by = partitions_told(waiting.log, numbers, waiting.folder) if last.merging else None
    evolved(waiting.folder, schema, by or ())
    if rule is not None and rule.deletes is not None:
        # So with what remembers its deletes, and with each record what a history has.
        folder, remembered = memory_folder(waiting.folder), memory_schema(rule, schema)
        if parked_at.merging is not None and parked_at.merging.deletes is not None:
            evolved(folder, remembered)
        else:
            # It began meanwhile; one that was there and is gone knew of others.
            create(tables.place(folder), remembered, {REMEMBERS_PROPERTY: waiting.folder})
            tables.changed(folder)
    for number in numbers[behind:]:
        yield number
        manifest, before = finished_table(waiting.log, number, waiting.folder)
        finisher.bring_in(manifest, waiting.folder, spark, before)


def _require_not_put_back(waiting: Waiting, finisher: Finisher, tables: TableBook, last: TableFiles) -> None:
    """Raises CommitImpossible for a table that lacks a batch which was in it before any waited: what comes would hide that.

    Whoever puts one right that nobody can open may have had an older copy of it alone.
    """
    batch, remembers = waiting.log.entry(waiting.numbers[0]), last.merging and last.merging.deletes
    folders = [waiting.folder, *([memory_folder(waiting.folder)] if remembers else [])]
    newest = {folder: tables.newest_batch(folder, last.app_id) for folder in folders}
    given = finisher.given(waiting.log)
    found = given.lacked(batch, newest, (), waited=True) if isinstance(batch, Batch) else None
    if found is not None:
        raise finisher.was_put_back(found.number, found, lacking=())
