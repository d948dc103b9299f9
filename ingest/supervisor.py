"""Runs the streaming query and starts it again, at once when a schema evolved and with back-off when something failed.

Either happens as often as its budget allows within a window; one more ends the run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from distributary.errors import (
    BrokerUnavailable,
    BudgetSpent,
    CredentialsRefused,
    DistributaryError,
    PipelineError,
    SetupError,
)
from distributary.ingest.batch.restart import RestartToEvolve
from distributary.ingest.batch.runner import BatchRunner, Done
from distributary.ingest.checkpoint.scratch import scratch_folder
from distributary.ingest.derived.in_runs import DerivedInRuns, Tell, tell_nobody
from distributary.ingest.interruptible import Stopped
from distributary.ingest.kafka.client import TopicMissing
from distributary.ingest.kafka.java_errors import is_outage
from distributary.ingest.kafka.offsets import Offsets
from distributary.ingest.kafka.source import Lost
from distributary.ingest.pipeline import Pipeline
from distributary.ingest.progress import Progress, Summary
from distributary.ingest.schemas.inferred_per_entity import schema_place
from distributary.ingest.schemas.subjects import inferred_subject
from distributary.ingest.spark.jvm import jvm_needed, stop_quietly
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.probe import were_away
from distributary.ingest.supervision.beginning_anew import CLOCK, COLUMNS, TOPICS, BeginsAnew
from distributary.ingest.supervision.budgets import Spending, of_outages
from distributary.ingest.supervision.changes import changes_in_place
from distributary.ingest.supervision.clocks import WallClock
from distributary.ingest.supervision.outcome import Outcome, Restart
from distributary.ingest.supervision.sentences import sentence
from distributary.ingest.upkeep.in_runs import UpkeepInRuns

# How often the query is looked at; an error ends the wait at once.
_LOOK_SECONDS = 0.5

# How often it is looked for topics that have come to fit a pattern.
_LOOK_FOR_TOPICS_SECONDS = 15.0


class Supervisor:
    """One run of one pipeline, through as many queries as it takes."""

    def __init__(
        self,
        open_pipeline: Callable[[], Pipeline],
        progress: Progress,
        stop: threading.Event,
        derived: Tell = tell_nobody,
    ) -> None:
        """`open_pipeline` opens the pipeline, in the place of the one that it opened before, with the topics that there are then; `derived` is told what became of derived tables."""
        self._open, self._pipeline, self._is_open = open_pipeline, open_pipeline(), True
        self._progress, self._stop = progress, stop
        settings, pipeline = self._pipeline.settings, self._pipeline
        self._failures = Spending(settings.supervisor.failures)
        self._outages = Spending(of_outages(settings.supervisor.failures))
        self._has_read, self._looked = False, time.monotonic()
        self._evolutions = Spending(settings.supervisor.evolutions)
        self._met: tuple[tuple[str, ...], float] | None = None
        self._attempt_began = 0.0
        # When a batch was begun that is not done yet, by the clock that budgets go by; and when reading was that has come to nothing yet.
        self._undone_since: float | None = None
        self._unread_since: float | None = None
        self._lock, self._busy = threading.Lock(), False
        # Held by a batch, and by what is done between two.
        self._turn = threading.Lock()
        self._held: BeginsAnew | None = None
        self._error: BaseException | None = None
        self._restarts: list[Restart] = []
        self._lost: list[Lost] = []
        self._remade = dict[str, None]()
        self._upkeep = UpkeepInRuns(settings, pipeline.run.checkpoint.files)
        self._derived = DerivedInRuns(settings, pipeline.topics.spark, stop.is_set, tell=derived)
        self._waiting: int | None = None
        self._partitions: Mapping[str, Sequence[int]] | None = None
        self._summary = Summary()

    def run(self) -> Outcome:
        """Until everything is ingested (`available_now`), the run is told to stop, or it cannot go on."""
        began = time.monotonic()
        self._waiting = self._pipeline.records_waiting() if self._is_bounded() else None
        self._progress.started(self._pipeline.settings.name, self._waiting)
        try:
            while not self._finished():
                continue
            self._wait_for_names()
            self._derive()
            self._wait_for_upkeep()
        finally:
            self._upkeep.close()
            self._summary = replace(self._summary, seconds=time.monotonic() - began)
            self._progress.finished(self._summary)
        waits = self._pipeline.run.parked.waits()
        remade = tuple(self._remade | self._pipeline.run.memory.remade)
        return Outcome(self._summary, tuple(self._restarts), waits, remade, tuple(self._lost))

    def _wait_for_names(self) -> None:
        """Who runs it once and then queries the tables finds them by their names."""
        names = self._pipeline.names
        if names is not None and self._is_bounded():
            names.close(wait=not self._stop.is_set(), stop=self._stop)

    def _derive(self) -> None:
        """Who runs it once finds the derived tables current, or is told by an error."""
        if self._is_bounded() and not self._stop.is_set():
            self._tell(self._derived.finish())
            self._derived.check()

    def _derive_meanwhile(self) -> None:
        """Where no batch comes none has derived tables made current; one that comes meanwhile waits, as behind another one."""
        if self._stop.is_set() or not self._turn.acquire(blocking=False):
            return
        try:
            self._tell(self._derived.meanwhile())
        finally:
            self._turn.release()

    def _tell(self, said: Sequence[str]) -> None:
        for one in said:
            self._progress.waiting(one, 0.0)

    def _wait_for_upkeep(self) -> None:
        if self._is_bounded():
            self._upkeep.finish(self._stop)
        self._tell_of_upkeep()

    def _tell_of_upkeep(self) -> None:
        self._tell(self._upkeep.told())

    def _is_bounded(self) -> bool:
        settings = self._pipeline.settings
        return settings.trigger.available_now or settings.source.until is not None

    def _finished(self) -> bool:
        """Run one query to its end; whether that was the end of the run."""
        try:
            # A dead JVM is fatal: no attempt within this process can do better.
            with jvm_needed():
                self._query_once()
            return True
        except Stopped:
            return True
        except BeginsAnew as why:
            self._progress.waiting(str(why), 0.0)
            wait = 0.0
        except RestartToEvolve as evolved:
            self._met = (evolved.changes, self._attempt_began)
            self._summary = replace(self._summary, evolutions=self._summary.evolutions + 1)
            # What records let grow is no deployment: it ends at decode.max_fields, and spends nothing.
            spends = evolved.deployed
            wait = self._spend(self._evolutions, "evolution restarts", evolved) if spends else 0.0
        except Exception as error:
            # One that fitted a pattern may be gone for good.
            is_gone = isinstance(error, TopicMissing) and self._pipeline.channels.look()
            if not is_gone and not self._may_pass(error):
                raise
            try:
                with jvm_needed():
                    wait = 0.0 if is_gone or self._pipeline.channels.look() else self._failed(error)
            except Stopped:
                return True
        return self._stop.wait(wait)

    def _may_pass(self, error: Exception) -> bool:
        """Whether another try may not meet the error. Who was let in before may be let in again, as when a token is renewed."""
        if not isinstance(error, DistributaryError) or not error.fatal:
            return True
        return self._has_read and isinstance(error, CredentialsRefused)

    def _failed(self, error: Exception) -> float:
        """How long to wait before another try. Raises BudgetSpent, and Stopped where the run is to end while Kafka is away."""
        try:
            wait = self._of_outage(error)
        except CredentialsRefused as refused:
            if not self._may_pass(refused):
                raise
            # Spark met it, too, and says so in words of its own.
            error, wait = refused, None
        except OSError:
            # A store that refuses who asks tells nothing of the error.
            wait = None
        if wait is None:
            self._summary = replace(self._summary, failures=self._summary.failures + 1)
            wait = self._spend(self._failures, "failures", error, self._fails_since)
            self._progress.failure(self._sentence(error), wait)
        return wait

    def _of_outage(self, error: Exception) -> float | None:
        """How long to wait where an error came of something that says nothing against the pipeline; None where it did not."""
        away = isinstance(error, BrokerUnavailable)
        told = isinstance(error, DistributaryError) and not isinstance(error, PipelineError)
        # As Kafka's below: nothing of the pipeline's can be the reason while one of its stores takes no file.
        if not told and were_away(self._places(), self._progress.waiting, self._stop):
            return 0.0
        if away or not isinstance(error, DistributaryError):
            # An outage is waited for however long it lasts, as the registry's is, and says nothing against the pipeline.
            if self._pipeline.channels.was_away():
                return 0.0
            # Records that go amid a query are recorded before the next one, where the settings say so. Met before a query, they are no reason.
            if (self._partitions is not None and self._pipeline.lost()[0]) or self._partitions_came():
                return 0.0
            # Over by now; yet an error that only looks like one would be met for ever.
            wait = self._outages.spend(self._fails_since) if away or is_outage(error) else None
            if wait is not None:
                self._progress.waiting(self._sentence(error), wait)
            return wait
        return None

    def _places(self) -> Iterator[Files]:
        """Where the run writes."""
        run, settings = self._pipeline.run, self._pipeline.settings
        yield from (run.root, run.checkpoint.files)
        if inferred_subject(settings.name, settings.decode) is not None:
            yield open_files(schema_place(settings.name, settings.decode), settings.storage)

    def _partitions_came(self) -> bool:
        """Whether there are others than the query was begun with: Spark begins with those that it is told, if they are all, or not at all."""
        begun_with, self._partitions = self._partitions, None
        return begun_with is not None and begun_with != self._pipeline.channels.partitions()

    @property
    def _fails_since(self) -> float | None:
        """Since when nothing succeeded that was begun; None where the run only waits for records."""
        return min((one for one in (self._undone_since, self._unread_since) if one is not None), default=None)

    def _has_looked(self) -> None:
        """One that waits for records is as it is to be; one that is to end is not until it has them."""
        if not self._is_bounded():
            self._unread_since = None

    def _spend(self, spending: Spending, what: str, error: Exception, since: float | None = None) -> float:
        wait = spending.spend(since)
        if wait is None:
            raise BudgetSpent(
                f"too many {what} ({spending}), the last one: {self._sentence(error)}"
            ) from error
        return wait

    def _sentence(self, error: BaseException) -> str:
        return sentence(error, self._pipeline.settings.source.kafka)

    def _query_once(self) -> None:
        self._error, self._partitions, self._held = None, None, None
        if self._unread_since is None:
            self._unread_since = time.monotonic()
        if self._are_others() or not self._is_open:
            self._open_anew()
        with scratch_folder() as spark:
            runner = self._pipeline.batch_runner(
                spark, self._progress, self._stop, self._batch_began, self._batch_done
            )
            with self._batch_under_way():
                runner.resume()
            self._pass_over_lost(runner)
            self._partitions = self._pipeline.channels.partitions()
            if self._pipeline.comes_to_an_end:
                self._read_to_the_end(runner)
                return
            query = self._pipeline.start(self._guarded(runner), spark)
            if query is None:
                self._read_on(runner)
            else:
                self._watch(query)

    def _open_anew(self) -> None:
        """Open the pipeline once more, by which the one before is closed, whatever comes of it. Raises ConnectionError where its store is away."""
        self._is_open = False
        self._remade |= self._pipeline.run.memory.remade
        try:
            self._pipeline, self._is_open = self._open(), True
        except SetupError as error:
            # Amid a run it is waited for; a start ends.
            raise error.__cause__ if isinstance(error.__cause__, ConnectionError) else error from None

    def _pass_over_lost(self, runner: BatchRunner) -> None:
        offsets, lost = self._pipeline.lost()
        if offsets:
            with self._batch_under_way():
                runner.pass_over(offsets)
            self._lost += lost
            for one in lost:
                self._progress.waiting(f"{one}; the ledger tells of it", 0.0)

    def _read_to_the_end(self, runner: BatchRunner) -> None:
        """Batch by batch, up to the very offsets: a stream of Spark's knows no end."""
        self._pipeline.require_next()
        self._progress.reading()
        self._has_read = True
        while offsets := self._pipeline.next_range():
            self._read_next(runner, offsets)

    def _read_next(self, runner: BatchRunner, offsets: Offsets) -> None:
        """Raises what begins reading anew where the schemas that are pinned do not say what comes."""
        if self._pipeline.learned(offsets):
            raise COLUMNS
        with self._batch_under_way():
            runner.read(offsets)

    def _read_on(self, runner: BatchRunner) -> None:
        """Batch by batch, as records come, of a source that is no stream of Spark's. Raises Stopped once the run is told to stop."""
        self._progress.reading()
        self._has_read = True
        while not self._stop.is_set():
            offsets = self._pipeline.next_range()
            self._has_looked()
            if offsets:
                self._read_next(runner, offsets)
            self._upkeep.look()
            self._tell_of_upkeep()
            self._derive_meanwhile()
            self._pipeline.channels.look()
            if self._are_others():
                raise TOPICS
            if not offsets:
                self._stop.wait(max(_LOOK_SECONDS, self._pipeline.settings.trigger.interval_seconds))

    def _watch(self, query: StreamingQuery) -> None:
        """Until the query ends."""
        self._progress.reading()
        self._has_read = True
        self._has_looked()
        clock, anew = WallClock(), None
        try:
            while not query.awaitTermination(_LOOK_SECONDS):  # type: ignore[arg-type] # it takes fractions too
                if self._stop.is_set() and self._no_batch_under_way():
                    query.stop()
                elif not self._is_bounded():
                    anew = anew or self._why_anew(clock)
                    if anew is not None and self._hold_batches(anew):
                        query.stop()
                    self._upkeep.look()
                    # Where no records come no batch would tell, and what fails is to be mended.
                    if self._no_batch_under_way():
                        self._tell_of_upkeep()
                    if anew is None:
                        self._derive_meanwhile()
        except StreamingQueryException:
            # It arrives here without its Python type; the callback kept it.
            if self._error is None:
                raise
        finally:
            stop_quietly(query)
        if self._error is not None:
            raise self._error
        if self._held is not None and not self._stop.is_set():
            raise self._held

    def _why_anew(self, clock: WallClock) -> BeginsAnew | None:
        """Why another query is to begin, as soon as no batch is under way."""
        # By it Spark tells how long records that fill no batch have waited: they would for as long as it was set back.
        if clock.was_set_back():
            return CLOCK
        if time.monotonic() - self._looked > _LOOK_FOR_TOPICS_SECONDS:
            self._pipeline.channels.look()
            self._looked = time.monotonic()
        return TOPICS if self._are_others() else None

    def _are_others(self) -> bool:
        """Whether other topics are to be read than the pipeline was opened with."""
        return self._pipeline.channels.names() != self._pipeline.settings.source.topics

    def _guarded(self, runner: BatchRunner) -> object:
        def process(records: DataFrame, batch_id: int) -> None:
            try:
                with self._batch_under_way():
                    runner(records, batch_id)
            except BaseException as error:
                self._error = error
                raise

        return process

    @contextmanager
    def _batch_under_way(self) -> Iterator[None]:
        with self._turn:
            # Whoever is told to stop finishes the batch under way: Spark cannot interrupt a Python callback cleanly.
            with self._lock:
                if self._stop.is_set():
                    raise Stopped
                if self._held is not None:
                    raise self._held
                self._busy = True
            try:
                yield
            finally:
                self._busy = False

    def _no_batch_under_way(self) -> bool:
        """Once the run is told to stop, no batch begins any more; so this stays true."""
        with self._lock:
            return not self._busy

    def _hold_batches(self, why: BeginsAnew) -> bool:
        """Have no batch begin any more, unless one is under way; whether none is."""
        with self._lock:
            self._held = None if self._busy else why
            return self._held is not None

    def _batch_began(self, batch_id: int) -> None:
        if self._undone_since is None:
            self._undone_since = time.monotonic()
        self._attempt_began = time.time()
        if self._met is not None:
            changes, met_at = self._met
            self._met = None
            self._restarts.append(Restart(changes, met_at, self._attempt_began))
            self._progress.evolution(changes, met_at, self._attempt_began)

    def _batch_done(self, done: Done) -> None:
        self._undone_since, self._unread_since = None, None
        counts, summary = done.manifest.counts, self._summary
        self._summary = replace(
            summary,
            batches=summary.batches + 1,
            rows=summary.rows + counts.total_read,
            written=summary.written + sum(counts.rows.values()),
            quarantined=summary.quarantined + sum(counts.quarantined.values()),
            dropped=summary.dropped + sum(counts.dropped.values()),
            tables=len(set(done.manifest.entities.values())),
        )
        changed = changes_in_place(done.changes)
        if changed:
            self._progress.evolution(changed, self._attempt_began, self._attempt_began)
        self._progress.batch_done(
            done.manifest.batch_id, counts.total_read, len(counts.rows), done.seconds, self._waiting
        )
        self._tell_of_upkeep()
        self._tell(self._derived.after_batch())
        if self._pipeline.names is not None:
            self._pipeline.names.take(done.manifest.entities)
        if told := self._pipeline.run.parked.told():
            self._progress.waiting(f"{told[:2000]}; `distributary resolve` lists and decides", 0.0)
