"""Compares what a pipeline's tables hold with what was sent, with what the topics hold, and with what the pipeline itself says it did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from distributary.errors import ConfigError
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.columns.safe_names import BATCHES_TABLE, CHANGES_TABLE, QUARANTINE_TABLE
from distributary.ingest.erasure.record import RECORDS
from distributary.ingest.session import pipeline_session
from distributary.ingest.settings.model import Settings
from distributary.ingest.settings.source import librdkafka
from distributary.ingest.storage.opening import open_files
from distributary.ingest.upkeep.replayed import OUTCOMES
from distributary.producer_sim.truth.sent import Truth
from distributary.producer_sim.verify.commit_check import (
    check_changes,
    check_commits,
    check_given,
    check_logs,
    generations,
    newest_of_own,
)
from distributary.producer_sim.verify.coverage import Coverage
from distributary.producer_sim.verify.erased import gone_from, with_erased
from distributary.producer_sim.verify.kept.as_they_came import Kept, check_kept, survey_kept
from distributary.producer_sim.verify.kept.replayed import lacking_brought_back, with_replayed
from distributary.producer_sim.verify.lake import READ_ERRORS, Lake
from distributary.producer_sim.verify.ledger_check import (
    Batch,
    Held,
    changes_again,
    check_ledger,
    read_ledger,
)
from distributary.producer_sim.verify.log_check import LogNow, check_log, read_log
from distributary.producer_sim.verify.quarantine_survey import QuarantineSurvey, survey_quarantine
from distributary.producer_sim.verify.table_survey import Survey, holders, survey_table
from distributary.producer_sim.verify.topic_check import TopicsNow, check_topics, topics_now, unread
from distributary.producer_sim.verify.truth_check import Excused, against_truth
from distributary.producer_sim.verify.verdict import EXAMPLES, Difference, Verdict, listed, named

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class SurveyedSoFar:
    """How far a verification is: the table it turns to, and how many of all are done."""

    table: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Beside:
    """What there is to compare the tables with, beside a truth.

    checkpoint  the pipeline's, whose log says what was decided
    topics      what Kafka holds
    """

    checkpoint: Checkpoint | None = None
    topics: TopicsNow | None = None


def verify(
    settings: Settings,
    truth: Truth | None = None,
    on_progress: Callable[[SurveyedSoFar], None] | None = None,
    *,
    offline: bool = False,
) -> Verdict:
    """Whether a pipeline's tables, its quarantine and its ledger hold what was sent: once, and with its values.

    settings     the pipeline's
    truth        what `simulate` sent; without it the tables are held against the ledger, the checkpoint's log and the topics
    on_progress  told of each table before it is read
    offline      whether Kafka is left alone; with a truth, which knows more, it is in any case

    Returns the verdict; each difference in it has its kind, its place and its detail. What differs is no error here:
    `Verdict.check` makes it one. A run that is under way shows as a difference now and then: verify when it has ended.
    Raises ConfigError where the truth does not tell what the pipeline routes by, and BrokerUnavailable where Kafka gives no answer.

    >>> verdict = distributary.verify(settings, distributary.load_truth(Path("truth.json")))
    >>> verdict.holds
    True
    """
    with (
        pipeline_session(settings)
        if needs_spark(settings, truth, offline=offline)
        else nullcontext() as spark
    ):
        topics = None if offline or truth is not None else topics_now(settings, spark)
        checkpoint = Checkpoint(open_files(settings.checkpoint, settings.storage))
        return compare(Lake.of(settings), truth, on_progress, Beside(checkpoint, topics))


def needs_spark(settings: Settings, truth: Truth | None, *, offline: bool) -> bool:
    """Whether `verify` asks Spark: for an expression, or for a cluster that only Java's options reach."""
    if truth is not None:
        return settings.route.by == "expression"
    return not offline and not librdkafka.is_known(settings.source.kafka)


def compare(
    lake: Lake,
    truth: Truth | None = None,
    on_progress: Callable[[SurveyedSoFar], None] | None = None,
    beside: Beside | None = None,
) -> Verdict:
    """Reads every table once, a bounded number of rows at a time, and names all differences.

    With a truth: each event sent is in its game's table once and with its values, each corrupt record is in
    quarantine once and byte by byte, each tombstone is nowhere. With and without: no record is in two places,
    and the ledger's sums agree with each other and with the tables. Beside that, ledger and log, and ledger and topics, have come
    equally far, and no offset is left out.
    """
    beside, broken = beside or Beside(), list[Difference]()
    log = None if beside.checkpoint is None else read_log(beside.checkpoint, broken)
    lake = (lake if log is None else lake.of_generation(log.generation.id)).with_all()
    # Before the tables, which are asked about its generations.
    again = _or_broken(CHANGES_TABLE, lambda: changes_again(lake), broken)
    ledger = _or_broken(BATCHES_TABLE, lambda: read_ledger(lake, again or {}), broken)
    tables = Survey(generations(ledger or (), log))
    _survey(lake, tables, on_progress, checksums=truth is not None)
    quarantine = _or_broken(QUARANTINE_TABLE, lambda: survey_quarantine(lake, truth), broken)
    held = quarantine or QuarantineSurvey()
    kept = survey_kept(lake, ledger or (), tables.generations)
    tables.newest.update(kept.newest)
    readable = [table.name for table in tables.tables] + ([QUARANTINE_TABLE] if quarantine else [])
    if truth is not None and tables.merged.partitions():
        raise ConfigError(
            "a table with one row a key does not have each event that was sent: verify without a truth, by ledger, log and topics"
        )
    told = not any(difference.where in (BATCHES_TABLE, QUARANTINE_TABLE) for difference in broken)
    differences = [
        *tables.differences,
        *broken,
        *check_logs(lake),
        *_stray(held),
        *_twice(lake, readable, tables, held.coverage),
        *(_against_truth(lake, truth, tables, held, (ledger or (), kept)) if truth is not None else ()),
        *(_against_ledger(lake, ledger, tables, held, kept) if told else ()),
        *(_against_the_rest(lake, ledger or [], tables, log, beside) if told else ()),
        *(check_kept(lake, kept, ledger or ()) if told else ()),
    ]
    return Verdict(
        differences=tuple(differences),
        tables=tuple(tables.tables),
        rows_quarantined=held.rows,
        rows_dropped=sum(batch.rows.dropped for batch in ledger or ()),
        batches=len(ledger or ()),
        sent=None if truth is None else truth.records,
        unread=None if beside.topics is None else unread(beside.topics, ledger or [], log),
    )


def _survey(
    lake: Lake, tables: Survey, on_progress: Callable[[SurveyedSoFar], None] | None, *, checksums: bool
) -> None:
    names = lake.entity_tables()
    for done, name in enumerate(names):
        if on_progress is not None:
            on_progress(SurveyedSoFar(name, done, len(names)))
        survey_table(lake, name, tables, checksums=checksums)


def _or_broken(name: str, read: Callable[[], Read], broken: list[Difference]) -> Read | None:
    try:
        return read()
    except READ_ERRORS as error:
        broken.append(Difference("table_unreadable", name, str(error)))
        return None


def _stray(quarantine: QuarantineSurvey) -> Iterator[Difference]:
    if quarantine.strays:
        detail = f"{quarantine.strays:,} rows have no topic, partition or offset"
        yield Difference("record_without_coordinates", QUARANTINE_TABLE, detail)


def _twice(lake: Lake, names: list[str], tables: Survey, quarantine: Coverage) -> Iterator[Difference]:
    """Records in several places, or several times in one; only for these the tables are read again."""
    merged = tables.merged.partitions()
    for partition in sorted({*tables.coverage.partitions(), *quarantine.partitions(), *merged}):
        offsets = tables.coverage.more_than_once(partition, beside=quarantine)
        if merged:
            beside = (tables.merged.more_than_once(partition, one) for one in (tables.coverage, quarantine))
            offsets = np.unique(np.concatenate([offsets, *beside]))
        if len(offsets):
            found = holders(lake, names, partition, offsets[:EXAMPLES])
            detail = f"{listed(offsets.tolist(), len(offsets))}, found in {', '.join(found)}"
            yield Difference("record_twice", named(partition), detail)


def _against_truth(
    lake: Lake,
    truth: Truth,
    tables: Survey,
    quarantine: QuarantineSurvey,
    told: tuple[Sequence[Batch], Kept],
) -> Iterator[Difference]:
    """By what is told beside the tables: by the ledger, and of records that were kept as they came."""
    ledger, kept = told
    try:
        gone = gone_from(lake, kept.tables)
    except (*READ_ERRORS, ValueError, KeyError, TypeError):
        # Told where the ledger is looked at.
        gone = {}
    yield from against_truth(lake, truth, tables, quarantine, Excused.by(ledger, gone))


def _against_ledger(
    lake: Lake, ledger: list[Batch] | None, tables: Survey, quarantine: QuarantineSurvey, kept: Kept
) -> Iterator[Difference]:
    if ledger is not None:
        # The last to look at where records are: from here on each counts where the ledger says that its batch put it.
        quarantine.coverage.join(quarantine.resolved)
        held = Held(
            tables.coverage,
            quarantine.coverage,
            quarantine.by_batch,
            tables.merged,
            generations=quarantine.by_generation,
        )
        try:
            # The last to look at where records are: from here on erased ones count as if they were there.
            held = with_erased(lake, held, kept.tables)
        except (*READ_ERRORS, ValueError, KeyError, TypeError) as error:
            yield Difference("table_unreadable", RECORDS, f"what is kept of erasures: {error}")
        try:
            held, lacking = with_replayed(lake, held, quarantine.again)
            yield from lacking
        except (*READ_ERRORS, ValueError, KeyError, TypeError) as error:
            yield Difference("table_unreadable", OUTCOMES, f"what is kept of replays: {error}")
        yield from lacking_brought_back(held, quarantine.to, tables.keyed)
        for found in (held.tables, held.merged):
            found.leave_out(quarantine.moved)
        yield from check_ledger(ledger, held)
    elif tables.tables or quarantine.rows:
        yield Difference("ledger_missing", BATCHES_TABLE, "there are rows, but no ledger that tells of them")


def _against_the_rest(
    lake: Lake, ledger: list[Batch], tables: Survey, log: LogNow | None, beside: Beside
) -> Iterator[Difference]:
    """The ledger against all that it does not tell of itself: the log, the tables' own transactions, the topics."""
    newest = {**tables.newest, **newest_of_own(lake, tables.generations)}
    if log is not None:
        yield from check_log(ledger, log)
    yield from check_commits(newest, ledger, log)
    if log is not None and beside.checkpoint is not None:
        given = list(check_given(lake, newest, ledger, beside.checkpoint, log))
        yield from given
        if all(one.where != CHANGES_TABLE for one in given):
            yield from check_changes(lake, ledger)
    if beside.topics is not None:
        yield from check_topics(beside.topics, ledger, log)
