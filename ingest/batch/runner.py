"""One micro-batch from Kafka's records to commits in all its tables: what `foreachBatch` calls."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from distributary.errors import CheckpointMismatch, PipelineError, TableAhead
from distributary.ingest import failpoints
from distributary.ingest.batch.attempt import Attempts, Decided
from distributary.ingest.batch.decide import Before
from distributary.ingest.batch.finish import Finisher
from distributary.ingest.batch.rewrite import Rewriter
from distributary.ingest.batch.sweep import sweep
from distributary.ingest.checkpoint.change_log import ChangeLog
from distributary.ingest.checkpoint.folder import RESETS, going
from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.checkpoint.manifests import manifest_of, names_of
from distributary.ingest.checkpoint.put_back import ahead
from distributary.ingest.checkpoint.spark_files import SparkFiles, batch_offsets
from distributary.ingest.columns.safe_names import BATCHES_TABLE, OUR_NAMES, RESERVED_TABLES
from distributary.ingest.commit_log.entries import Batch, Rewritten
from distributary.ingest.commit_log.writing import Writer, written
from distributary.ingest.kafka.offsets import Offsets
from distributary.ingest.merge.rule import memory_folder, with_memories
from distributary.ingest.source.contract import Reading
from distributary.ingest.tables.change import PlannedChange
from distributary.ingest.tables.commit import OF_ONE_TABLE, is_for_all

_log = logging.getLogger(__name__)

_NEWEST_COPY = "Restore the newest one into an empty folder, not over this one, or go on with a new checkpoint and `start: from_tables`"

_NEWEST_TABLES = "Restore the newest one, or go on with a new checkpoint and `start: from_tables`"


@dataclass(frozen=True, slots=True)
class Done:
    """A finished batch. `resumed`: an earlier attempt had decided it. `changes` are those of tables known before."""

    manifest: Manifest
    seconds: float
    resumed: bool
    changes: Sequence[PlannedChange] = ()


@dataclass
class BatchRunner:
    """Brings the batches of one query to their end.

    spark     the files that Spark keeps of the query
    reading   how records come from the topics
    on_start  told the number of each batch that is begun
    on_done   told of each that is finished
    """

    attempts: Attempts
    finisher: Finisher
    rewriter: Rewriter
    spark: SparkFiles
    reading: Reading
    on_start: Callable[[int], None]
    on_done: Callable[[Done], None]
    _last: Manifest | None = field(default=None, init=False)

    @property
    def _log(self) -> Writer:
        """The run's, which it writes."""
        return written(self.attempts.run.log)

    def resume(self) -> None:
        """Finish what was decided and not finished, and once a run delete what was written and never decided.

        Raises CheckpointMismatch where the tables are ahead of the log, or too far behind it, TablesOfAnotherRun where they are
        those of another log, PipelineError where a table cannot be opened and the settings let none be parked.
        """
        while True:
            try:
                return self._resumed()
            except OF_ONE_TABLE as error:
                # Each time without a table more, or not at all.
                self._pass_over(error)

    def _pass_over(self, error: Exception) -> None:
        """Leave tables alone that nobody can open; raises the error where it did not come of that."""
        entities = {} if self._last is None else self._last.entities
        self.attempts.run.parked.pass_over(entities.values(), error)

    def _resumed(self) -> None:
        run = self.attempts.run
        self._log.look()
        batch, rewritten = run.log.last()
        is_new = self._log.settled < self._log.start.number
        if is_new and any(True for _ in going(run.checkpoint.files, RESETS)):
            _log.warning(
                "a reset was begun and is not done, so tables lack rows that are kept as they came: say `distributary reset` with `--layer silver` "
                "again once this run has ended"
            )
        if batch is not None:
            self._last = manifest_of(batch, run.checkpoint.log)
        if is_new:
            run.owners.adopt(set(self._last.entities.values()) if self._last else ())
        mended = self._mend() if is_new else set()
        reached = self._reached(batch) if is_new else None
        # Not before the ledger was read, which tells that this is no old copy of the log.
        run.parked.park_unread()
        lacking: list[str] = []
        if is_new and self._last is not None:
            # The next batch would open all of them in any case.
            # What is parked is held against the log where what waits for it is brought in.
            asked = {*RESERVED_TABLES, *self._last.keeping, *self._last.entities.values()}
            asked -= run.parked.folders
            newest = self._require_not_ahead((asked | self._remembering(asked)) - {BATCHES_TABLE})
            lacking = self.finisher.given(run.checkpoint.log).lacks(self._last, newest, mended)
            self._require_not_put_back(batch, newest, lacking)
        if self._last is not None and batch is not None and self._log.settled < batch.number:
            if batch.number != reached:
                self._resume_unless_done(batch, self._last, rewritten, reached)
            elif lacking:
                _log.warning(
                    "batch %s is not in %s any more, and is put there again", reached, ", ".join(lacking)
                )
                self._resume(batch, self._last, rewritten)
        # Without the ledger nobody says that this is no old copy of the log: what it does not name may be committed.
        if is_new and (reached is not None or batch is None or batch.so_far.last is None):
            self._sweep()
        if is_new and run.parked.folders:
            with self._ahead_or_overtaken():
                run.parked.bring_in(self.finisher, run.rules.changes)

    def __call__(self, records: DataFrame, spark_batch: int) -> None:
        """Bring the next batch to its end."""
        offsets = batch_offsets(self.spark, spark_batch)
        if not _is_empty(offsets):  # Spark begins each query with a batch, whether anything is new or not
            self._through(records, offsets)

    def read(self, offsets: Offsets) -> None:
        """Have a batch of exactly these offsets, which come next. Raises what a batch raises."""
        self._through(self.reading.range(offsets), offsets)

    def pass_over(self, lost: Offsets) -> None:
        """Have a batch of no records for offsets that come next and that Kafka has no more, each partition's: so log and ledger tell of them.

        Raises what a batch raises.
        """
        nothing: Offsets = {
            topic: {number: (end, end) for number, (_, end) in ranges.items()}
            for topic, ranges in lost.items()
        }
        self._through(self.reading.range(nothing), lost, gone=True)

    def _through(self, records: DataFrame, offsets: Offsets, *, gone: bool = False) -> None:
        run = self.attempts.run
        self.on_start(run.log.next)
        began = time.monotonic()
        run.workers.prepare(records.sparkSession)
        with self._ahead_or_overtaken(), self._begun_anew_without():
            if self._last is not None and self.finisher.is_overwritten(self._last):
                self.finisher.finish(self._last, records.sparkSession, parked=run.parked)
            batch = self.reading.through(
                records,
                offsets,
                lambda readable: self.attempts.decided(readable, offsets, self._last, gone=gone),
            )
        self._last = batch.manifest
        self._finish(batch, records.sparkSession)
        self._log.settle(batch.manifest.batch_id)
        self._close()
        self.on_done(Done(batch.manifest, time.monotonic() - began, resumed=False, changes=batch.planned))

    @contextmanager
    def _begun_anew_without(self) -> Iterator[None]:
        """Inside, a table that nobody can open any more has the batch begun anew, which then leaves it alone."""
        try:
            yield
        except OF_ONE_TABLE as error:
            self._pass_over(error)
            told = self.attempts.run.parked.told()
            raise PipelineError(f"{told}: this batch is begun anew without it") from error

    def _close(self) -> None:
        """Let go of what no batch needs any more; what cannot be deleted goes the next time."""
        run = self.attempts.run
        if (through := self._log.close()) is not None:
            with suppress(OSError):
                ChangeLog(run.checkpoint).forget(through)

    def _reached(self, last: Batch | None) -> int | None:
        """The newest batch in the ledger.

        A copy of the checkpoint may have other batches under the numbers of this one, so they are held against each other by offsets.
        """
        run = self.attempts.run
        reached = self.finisher.reached(run.generation)
        if self._last is not None and self._last.batch_id == reached:
            with self._ahead_or_overtaken():
                self.finisher.require_in_ledger(self._last)
        if reached is not None and (last is None or last.number < reached):
            # Tables are ahead of a run that stands still, too, once another one goes on.
            run.log.confirm()
            known = "no batch" if last is None else f"batch {last.number} as the newest one"
            raise CheckpointMismatch(
                f"the tables in {run.root} have batch {reached}, and the log in {run.checkpoint} knows {known}: the checkpoint "
                f"was put back from an older copy. {_NEWEST_COPY}"
            )
        if last is not None:
            self._require_not_behind(last, reached)
        return reached

    def _mend(self) -> set[str]:
        """The tables that a loss of power took something from, of those that may be this pipeline's."""
        run = self.attempts.run
        if run.root.remote:
            return set()
        mine = {*OUR_NAMES, *run.owners.mine(), *(self._last.entities.values() if self._last else ())}
        mine |= {memory_folder(folder) for folder in mine}
        return run.parked.mend(self.finisher, run.generation, self._last, mine)

    def _require_not_ahead(self, folders: Iterable[str]) -> dict[str, int | None]:
        """The newest batch of each of these tables. Raises TableAhead for a table that has a batch which the log has not come to: what is committed there is no garbage."""
        run = self.attempts.run
        newest = self.finisher.newest(run.generation, list(folders))
        if found := ahead(newest, self._last):
            run.log.confirm()
            raise TableAhead(
                f"table {found[0]} in {run.root} has a batch that the log in {run.checkpoint.folder} does not: the checkpoint "
                f"was put back from an older copy. {_NEWEST_COPY}"
            )
        return newest

    def _require_not_put_back(
        self, last: Batch | None, newest: Mapping[str, int | None], lacking: Container[str]
    ) -> None:
        """Raises CommitImpossible for a table that lacks a batch which was in it: what comes would hide that."""
        run = self.attempts.run
        given = self.finisher.given(run.checkpoint.log)
        found = None if last is None else given.lacked(last, newest, lacking)
        if last is not None and found is not None:
            run.log.confirm()
            raise self.finisher.was_put_back(last.number, found, lacking)

    def _remembering(self, tables: Collection[str]) -> frozenset[str]:
        """What remembers deletes of these tables, and is there."""
        run = self.attempts.run
        if not run.rules.workers.tables.remembers:
            return frozenset()
        return with_memories(tables).intersection(run.root.folders())

    def _require_not_behind(self, last: Batch, reached: int | None) -> None:
        """Every batch but the newest is in all its tables, or the next one would not have been decided."""
        before = last.so_far.last
        if before is None or not self.finisher.is_behind(last, reached):
            return
        if reached is None and self._is_in_others(before, last):
            return  # the ledger was dropped
        run = self.attempts.run
        run.log.confirm()
        known = "no batch" if reached is None else f"batch {reached} as the newest one"
        raise CheckpointMismatch(
            f"the ledger in {run.root} has {known}, and batch {before} was in all its tables, as the log in {run.checkpoint} "
            f"says: the tables were put back from an older copy. {_NEWEST_TABLES}"
        )

    def _is_in_others(self, number: int, last: Batch) -> bool:
        """Whether any table but the ledger says that it has a batch: the tables were not put back then."""
        log = self.attempts.run.checkpoint.log
        given = self.finisher.given(log)
        # It may be closed by now, and which tables it had be gone with it: those of the newest one are asked in any case.
        known = [one for one in (log.newest_batch(number), last) if one is not None]
        waits = self.attempts.run.parked.folders
        return any(any(given.others(manifest_of(one, log), number, waits)) for one in known)

    def _is_in_all_others(self, manifest: Manifest) -> bool:
        parked = self.attempts.run.parked
        waits = parked.waiting(manifest.batch_id) | parked.unread
        given = self.finisher.given(self.attempts.run.checkpoint.log)
        return all(given.others(manifest, manifest.batch_id, waits))

    def _resume_unless_done(
        self, batch: Batch, manifest: Manifest, rewritten: Sequence[Rewritten], reached: int | None
    ) -> None:
        run = self.attempts.run
        given = self.finisher.given(run.checkpoint.log)
        if reached is None and given.lost_its_row(manifest) and self._is_in_all_others(manifest):
            _log.warning(
                "the ledger in %s was dropped; batch %s is in all its other tables, and the next batch makes the ledger anew",
                run.root,
                manifest.batch_id,
            )
            return
        waits = run.parked.waiting(manifest.batch_id) | run.parked.unread
        if given.lost_in_all(manifest, waits):
            run.log.confirm()
            raise CheckpointMismatch(
                f"the lake in {run.root} has none of batch {manifest.batch_id}, whose files were in it, as the log in {run.checkpoint} says: "
                f"the tables were put back from an older copy, or its files deleted, as by VACUUM, before a table had them. {_NEWEST_TABLES}"
            )
        self._resume(batch, manifest, rewritten)

    def _resume(self, batch: Batch, manifest: Manifest, rewritten: Sequence[Rewritten]) -> None:
        run, number = self.attempts.run, manifest.batch_id
        self.on_start(number)
        began, records = time.monotonic(), self.reading.range(manifest.offsets)
        run.workers.prepare(records.sparkSession)
        pins = self.attempts.first_pins(number, manifest.offsets, Before({}, {}, {}))
        restored = self.reading.through(
            records,
            manifest.offsets,
            lambda readable: self.rewriter.restored(
                manifest, rewritten, readable, pins, self.attempts.still_as_read, run.parked.unread
            ),
        )
        self._finish(
            Decided(restored, batch.before, planned=(), retried=True, resumed=True), records.sparkSession
        )
        if self._log.start.number < number:
            self._log.settle(number)
        self.on_done(Done(restored, time.monotonic() - began, resumed=True))

    def _finish(self, batch: Decided, spark: SparkSession) -> None:
        run, manifest = self.attempts.run, batch.manifest
        with self._ahead_or_overtaken():
            self.finisher.finish(manifest, spark, batch.before, fresh=not batch.resumed, parked=run.parked)
        # A run's own attempts that came to nothing; of an earlier run's all is swept together.
        if self._log.start.number < manifest.batch_id and (
            batch.retried or manifest.pins.decisions["guarded"]
        ):
            number = manifest.batch_id
            made_for = [range(number, number + 1)]
            self._sweep_all(made_for, manifest.file_names(), batch.touched)
        failpoints.reach(failpoints.BEFORE_SPARK_COMMIT, manifest.batch_id)

    @contextmanager
    def _ahead_or_overtaken(self) -> Iterator[None]:
        """Of a run that stood still while others went on it is to be expected that tables are ahead, and that its files were swept."""
        try:
            yield
        except (TableAhead, FileNotFoundError):
            self.attempts.run.log.confirm()
            raise

    def _sweep(self) -> None:
        """What an earlier run left, all together."""
        run = self.attempts.run
        unsettled = self._log.unsettled()
        named = names_of(unsettled, run.checkpoint.log)
        self._sweep_all(unsettled.numbers, named)
        self._log.settle(self._log.start.number)
        self._close()

    def _sweep_all(
        self, made_for: Iterable[range], named: Container[str], within: Collection[str] | None = None
    ) -> None:
        """Delete what was made for these numbers and is not named; of parked tables as far as anybody can tell what they have."""
        run, parked = self.attempts.run, self.attempts.run.parked.folders
        if parked:
            within = run.root.folders() if within is None else within
        numbers = list(made_for)

        def swept(folders: Collection[str] | None) -> None:
            sweep(run.root, run.generation.id, numbers, named, self._require_not_ahead, within=folders)

        swept(within and set(within) - parked)
        for folder in parked.intersection(within or ()):
            try:
                swept([folder])
            except OF_ONE_TABLE as error:
                if is_for_all(error):
                    raise
                _log.warning("table %s is parked, and is not swept: %s", folder, error)


def _is_empty(offsets: Offsets) -> bool:
    return all(start == end for ranges in offsets.values() for start, end in ranges.values())
