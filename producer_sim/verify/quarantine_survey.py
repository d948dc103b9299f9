"""One pass over the quarantine: where its records came from, by which batch, whether their bytes are the ones sent, and which were brought back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from distributary.ingest.columns.safe_names import QUARANTINE_TABLE, RESOLVED_TABLE
from distributary.ingest.commit_log.owners import Whose
from distributary.ingest.pins import NO_ENTITY
from distributary.ingest.quarantine.resolved import IDENTITY
from distributary.ingest.quarantine.rows import TEXT, identities, is_of
from distributary.ingest.upkeep.replayed import replays_of
from distributary.ingest.upkeep.resolved import MOVED, TO_TABLE
from distributary.ingest.upkeep.resolved import again as again_before
from distributary.ingest.upkeep.resolved import moved as moved_before
from distributary.producer_sim.formats.corruption import value_digest
from distributary.producer_sim.truth.checksum import Sum
from distributary.producer_sim.truth.sent import PartitionOffset, Truth
from distributary.producer_sim.verify.coverage import Coverage
from distributary.producer_sim.verify.lake import READ_ERRORS, Lake, batches
from distributary.producer_sim.verify.ledger_check import generations_of_others
from distributary.producer_sim.verify.table_survey import count_offsets
from distributary.producer_sim.verify.verdict import EXAMPLES

COORDINATES = ("kafka_topic", "kafka_partition", "kafka_offset")


@dataclass(slots=True)
class Unexpected:
    """Good records in quarantine for one reason: how many, and the first of them."""

    rows: int = 0
    first: list[PartitionOffset] = field(default_factory=list)

    def add(self, place: PartitionOffset) -> None:
        """One more."""
        self.rows += 1
        if len(self.first) < EXAMPLES:
            self.first.append(place)


@dataclass(slots=True)
class Resolved:
    """Where records are from that were brought back.

    resolved  those that are in quarantine still, where their batch put them
    moved     those of batches that a replay gave a row in a table, whether they are in quarantine still or not
    again     those that a replay had refused and that got a row since
    to        all that got one by the table's folder, as far as that is told
    by_generation  where all records in quarantine are from, by whose batch or replay put them there
    """

    resolved: Coverage = field(default_factory=Coverage)
    moved: Coverage = field(default_factory=Coverage)
    again: Coverage = field(default_factory=Coverage)
    to: dict[str, Coverage] = field(default_factory=dict)
    by_generation: dict[str, Coverage] = field(default_factory=dict)


@dataclass(slots=True)
class QuarantineSurvey(Resolved):
    """What the quarantine holds.

    rows        those that wait there: the ones that were brought back are counted where they are by now
    coverage    where these are from
    by_batch    all rows by generation and batch id
    altered     corrupt records of the truth whose bytes are not the ones sent
    misjudged   records of the truth that are there for another reason than they may be, by what they are and that reason
    unexpected  records that the truth holds for good, by reason
    homeless    those of them that have no entity, with the sum of the digests of their values
    """

    rows: int = 0
    strays: int = 0
    coverage: Coverage = field(default_factory=Coverage)
    by_batch: Counter[tuple[str, int]] = field(default_factory=Counter)
    altered: list[PartitionOffset] = field(default_factory=list)
    misjudged: Counter[tuple[str, str]] = field(default_factory=Counter)
    unexpected: dict[str, Unexpected] = field(default_factory=dict)
    homeless: Sum = field(default_factory=Sum)


def survey_quarantine(lake: Lake, truth: Truth | None) -> QuarantineSurvey:
    """Reads the pipeline's part of the quarantine; one that is not there is empty."""
    survey = QuarantineSurvey()
    table = lake.open(QUARANTINE_TABLE)
    if table is None:
        return survey
    own = _Own.of(lake)
    done = _resolved(lake, own, survey)
    wanted = [*COORDINATES, "generation", "batch_id", "value", "reason"]
    for every in batches(table, own.columns(table, wanted)):
        mine = own.rows(every)
        pairs = zip(mine["generation"].to_pylist(), mine["batch_id"].to_pylist(), strict=True)
        survey.by_batch.update(pairs)
        for generation in mine["generation"].drop_null().unique().to_pylist():
            of = survey.by_generation.setdefault(generation, Coverage())
            _counted(mine.filter(pc.equal(mine["generation"], generation)), of)
        batch = _open(mine, done, survey.resolved, own)
        survey.rows += batch.num_rows
        survey.strays += _counted(batch, survey.coverage)
        if truth is not None:
            _compare(batch, truth, survey)
    return survey


def _resolved(lake: Lake, own: _Own, survey: Resolved) -> pa.Array:
    """Which records were brought back, or need not be; those that got a row are counted in `moved`, and where in `to`."""
    table, found = lake.open(RESOLVED_TABLE), [pa.chunked_array([], TEXT)]
    wanted = [*IDENTITY, "outcome", "table"]
    for every in () if table is None else batches(table, own.columns(table, wanted)):
        mine = own.rows(every)
        found.append(identities(pa.Table.from_batches([mine])))
        rows = mine.filter(pc.equal(mine["outcome"], TO_TABLE))
        _counted(own.of_batches(rows), survey.moved)
        _counted(rows.filter(pc.is_in(rows["generation"], own.replays)), survey.again)
        for folder in rows["table"].drop_null().unique().to_pylist():
            _counted(rows.filter(pc.equal(rows["table"], folder)), survey.to.setdefault(folder, Coverage()))
    try:
        for partition, offsets in moved_before(lake.root, own.whose):
            survey.moved.add(partition, survey.moved.lacking(partition, offsets))
        for partition, offsets in again_before(lake.root, own.whose):
            survey.again.add(partition, survey.again.lacking(partition, offsets))
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(f"{MOVED}: what is kept of records that were brought back: {error}") from error
    return pa.chunked_array([chunk for one in found for chunk in one.chunks], TEXT).combine_chunks()


def _open(batch: pa.RecordBatch, done: pa.Array, resolved: Coverage, own: _Own) -> pa.RecordBatch:
    """The rows that were not brought back; the others of batches are counted in `resolved`."""
    if not len(done):
        return batch
    there = pc.is_in(identities(pa.Table.from_batches([batch])), done).combine_chunks()
    _counted(own.of_batches(batch.filter(there)), resolved)
    return batch.filter(pc.invert(there))


def _counted(batch: pa.RecordBatch, coverage: Coverage) -> int:
    """Counts where rows are from; how many do not say."""
    topics, partitions, offsets = (batch.column(name) for name in COORDINATES)
    return count_offsets(topics, partitions, offsets, coverage)


@dataclass(frozen=True, slots=True)
class _Own:
    """What tells a pipeline's rows from those of others, also such as a replay of theirs refused: by that alone the ledger knows none.

    replays  those of its own
    """

    whose: Whose | None
    others: pa.Array
    replays: pa.Array

    @classmethod
    def of(cls, lake: Lake) -> _Own:
        try:
            others = sorted(generations_of_others(lake))
        except READ_ERRORS:  # a ledger that cannot be read is told of where it is read
            others = []
        try:
            replays = [] if lake.me is None else sorted(replays_of(lake.root, lake.me))
        except (*READ_ERRORS, ValueError, KeyError, TypeError):  # so are replays
            replays = []
        return cls(lake.me, pa.array(others, pa.string()), pa.array(replays, pa.string()))

    def of_batches(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Those that batches put there: what a replay refused the ledger has where it was before."""
        return rows.filter(pc.invert(pc.is_in(rows["generation"], self.replays)))

    @staticmethod
    def columns(table: DeltaTable, wanted: Sequence[str]) -> list[str]:
        """With the name of each row's pipeline, which tables of earlier versions lack."""
        there = {part.name for part in table.schema().fields}
        return [*wanted, *({"pipeline"} & there)]

    def rows(self, every: pa.RecordBatch) -> pa.RecordBatch:
        """The pipeline's own of some rows."""
        mine = every.filter(pc.invert(pc.is_in(every["generation"], self.others)))
        if self.whose is None or "pipeline" not in every.schema.names:
            return mine
        return mine.filter(is_of(pa.Table.from_batches([mine]), self.whose).combine_chunks())


def _compare(batch: pa.RecordBatch, truth: Truth, survey: QuarantineSurvey) -> None:
    columns = [batch[name].to_pylist() for name in (*COORDINATES, "value", "reason")]
    for topic, partition, offset, value, reason in zip(*columns, strict=True):
        if topic != truth.topic:
            continue
        place = PartitionOffset(partition, offset)
        corrupt = truth.corrupt.get(place)
        if corrupt is None:
            survey.unexpected.setdefault(reason, Unexpected()).add(place)
            if reason == NO_ENTITY.reason:
                survey.homeless.add(1, 0 if value is None else int(value_digest(value), 16))
            continue
        if value is None or value_digest(value) != corrupt.digest:
            survey.altered.append(place)
        if corrupt.reasons and reason not in corrupt.reasons:
            survey.misjudged[corrupt.kind, reason] += 1
