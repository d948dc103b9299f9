"""What tables and quarantine hold, against the truth about what was sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.pins import DELETE, ERASED, EXPECTATION, EXPECTATION_DROP, NO_ENTITY
from distributary.producer_sim.truth.checksum import Sum
from distributary.producer_sim.truth.sent import PartitionOffset, Truth
from distributary.producer_sim.verify.coverage import BLOCK, Coverage, Offsets, Partition
from distributary.producer_sim.verify.entities import Expected, expected
from distributary.producer_sim.verify.lake import Lake
from distributary.producer_sim.verify.ledger_check import Batch
from distributary.producer_sim.verify.quarantine_survey import QuarantineSurvey
from distributary.producer_sim.verify.table_survey import GroupKey, Survey
from distributary.producer_sim.verify.verdict import EXAMPLES, Difference, DifferenceKind, listed, named

# Beside those that have no entity, which the truth itself tells.
_KEPT_OUT = (ERASED, EXPECTATION_DROP, DELETE)


@dataclass(frozen=True, slots=True)
class Excused:
    """Records that need not be found where they were sent to.

    gone      where those come from that were erased, by the table that they were in
    kept_out  how many land nowhere as the settings say, by the ledger
    refused   how many went to quarantine as they do not meet an expectation, by the ledger
    purged    how many may be gone from quarantine by now, by the ledger
    erasures  how many of those kept out were erased: corrupt ones among them, by their keys
    """

    gone: Mapping[str, Coverage] = field(default_factory=dict)
    kept_out: int = 0
    refused: int = 0
    purged: int = 0
    erasures: int = 0

    @classmethod
    def by(cls, ledger: Iterable[Batch], gone: Mapping[str, Coverage]) -> Excused:
        """As a ledger tells, and what is kept of erasures."""
        rows = [batch.rows for batch in ledger]
        return cls(
            gone,
            sum(one.by_reason.get(reason, 0) for one in rows for reason in _KEPT_OUT),
            sum(one.by_reason.get(EXPECTATION, 0) for one in rows),
            sum(one.purged for one in rows),
            sum(one.by_reason.get(ERASED, 0) for one in rows),
        )

    def erased(self, table: str, topic: str, found: Coverage) -> int:
        """How many records of a topic were erased from a table, and are not found."""
        every = self.gone.get(table, ())
        return sum(
            len(found.lacking(partition, np.flatnonzero(counts) + number * BLOCK))
            for partition, number, counts in every
            if partition[0] == topic
        )

    def is_gone(self, partition: Partition, offset: int) -> bool:
        """Whether a record was erased from quarantine."""
        gone = self.gone.get(QUARANTINE_TABLE)
        return gone is not None and gone.count(partition, offset) > 0


NOTHING = Excused()


class _Short:
    """How many rows may be missing yet: of a table, as they were erased, and of all of them, as they were kept out."""

    def __init__(self, excused: Excused, topic: str, tables: Survey) -> None:
        self._erased = {table: excused.erased(table, topic, tables.coverage) for table in excused.gone}
        self._kept_out = excused.kept_out + excused.refused

    def may_be(self, table: str, rows: int) -> bool:
        """Whether so many of a table may be; they are none of the others then."""
        erased = min(rows, self._erased.get(table, 0))
        if rows - erased > self._kept_out:
            return False
        self._kept_out -= rows - erased
        if erased:
            self._erased[table] -= erased
        return True


def against_truth(
    lake: Lake, truth: Truth, tables: Survey, quarantine: QuarantineSurvey, excused: Excused = NOTHING
) -> Iterator[Difference]:
    """Everything in which tables and quarantine differ from what was sent. Raises ConfigError if the truth does not say enough.

    Of a group that lacks rows which are excused nobody can tell whether the others have their values.
    """
    where = expected(lake, truth)
    yield from _parts(where, truth.topic, tables, _Short(excused, truth.topic, tables))
    yield from _lost(truth, tables.coverage, quarantine.coverage, where.dropped, excused)
    yield from _corrupt(truth, tables.coverage, quarantine, excused)
    yield from _good_in_quarantine(where.quarantined, quarantine, excused, truth.topic)
    yield from _tombstones(truth, tables.coverage, quarantine.coverage)
    yield from _unsent(truth, tables.coverage, quarantine.coverage)


def _parts(where: Expected, topic: str, tables: Survey, short: _Short) -> Iterator[Difference]:
    """For each table, game and schema: rows and checksum as sent, there and in no other table."""
    found = {key: total for key, total in tables.groups.items() if key[1] == topic}
    there = {table.name for table in tables.tables}
    # Those without a schema id come last: they are what is left of a game once every id has its own.
    for part, sent in sorted(where.parts.items(), key=lambda item: item[0].schema_id is None):
        total = _taken(found, (part.table, topic, part.game), part.schema_id)
        schema = "any schema id" if part.schema_id is None else f"schema id {part.schema_id}"
        at = f"{part.table}, game {part.game!r}, {schema}"
        if total.rows < sent.rows and short.may_be(part.table, sent.rows - total.rows):
            continue
        if part.table not in there:
            yield Difference("table_missing", at, f"no such table, {sent.rows:,} rows sent")
        else:
            yield from _compared(at, total, Sum(sent.rows, sent.checksum))
    for (table, _, game, schema_id), total in found.items():
        at = f"{table}, game {game!r}, schema id {schema_id}"
        yield Difference("rows_surplus", at, f"{total.rows:,} rows found, none sent")


def _compared(at: str, found: Sum, sent: Sum) -> Iterator[Difference]:
    if found.rows != sent.rows:
        kind: DifferenceKind = "rows_missing" if found.rows < sent.rows else "rows_surplus"
        yield Difference(kind, at, f"{found.rows:,} rows found, {sent.rows:,} sent")
    elif found.checksum != sent.checksum:
        detail = f"the checksum of {sent.rows:,} rows is {found.checksum:016x}, sent was {sent.checksum:016x}"
        yield Difference("values_differ", at, detail)


def _taken(found: dict[GroupKey, Sum], of_game: tuple[str, str, str], schema_id: int | None) -> Sum:
    """What was found of a group, taken out of `found`; records that name no schema may have any id in the table."""
    if schema_id is not None:
        return found.pop((*of_game, schema_id), Sum())
    together = Sum()
    for key in [key for key in found if key[:3] == of_game]:
        rest = found.pop(key)
        together.add(rest.rows, rest.checksum)
    return together


def _lost(
    truth: Truth, tables: Coverage, quarantine: Coverage, dropped: int, excused: Excused
) -> Iterator[Difference]:
    """Good records that are nowhere; corrupt ones and tombstones have their own checks.

    As many as the settings drop may be nowhere. That they are the right ones follows from the tables' checksums, but for those that the
    ledger alone tells of.
    """
    nowhere = list(_nowhere(truth, tables, quarantine, excused))
    others = excused.kept_out + min(excused.purged, excused.refused)
    if sum(len(lost) for _, lost in nowhere) <= dropped + others:
        return
    and_dropped = f"; {dropped:,} in all have no entity and are dropped" if dropped else ""
    and_dropped += f"; {others:,} in all are kept out, as the settings say" if others else ""
    for number, lost in nowhere:
        detail = listed(lost.tolist(), len(lost)) + and_dropped
        yield Difference("record_lost", named((truth.topic, number)), detail)


def _nowhere(
    truth: Truth, tables: Coverage, quarantine: Coverage, excused: Excused
) -> Iterator[tuple[int, Offsets]]:
    """The offsets of good records that are nowhere, and were not erased, with their partitions."""
    elsewhere: dict[int, set[int]] = defaultdict(set)
    for place in (*truth.corrupt, *truth.tombstones):
        elsewhere[place.partition].add(place.offset)
    for number, runs in truth.offsets.items():
        partition = (truth.topic, number)
        for start, end in runs:
            nowhere = np.intersect1d(
                tables.missing(partition, start, end), quarantine.missing(partition, start, end)
            )
            lost = np.setdiff1d(nowhere, np.array(sorted(elsewhere[number]), np.int64))
            for gone in excused.gone.values():
                lost = gone.lacking(partition, lost)
            if len(lost):
                yield number, lost


def _corrupt(
    truth: Truth, tables: Coverage, quarantine: QuarantineSurvey, excused: Excused
) -> Iterator[Difference]:
    absent: dict[str, list[PartitionOffset]] = defaultdict(list)
    present: dict[str, list[PartitionOffset]] = defaultdict(list)
    for place, record in sorted(truth.corrupt.items()):
        partition = (truth.topic, place.partition)
        if not (
            quarantine.coverage.count(partition, place.offset) or excused.is_gone(partition, place.offset)
        ):
            absent[record.kind].append(place)
        if tables.count(partition, place.offset):
            present[record.kind].append(place)
    if sum(map(len, absent.values())) <= excused.purged + excused.erasures:
        absent.clear()
    for kind, places in absent.items():
        yield Difference("corrupt_not_quarantined", kind, _examples(places, len(places)))
    for kind, places in present.items():
        yield Difference("corrupt_in_table", kind, _examples(places, len(places)))
    if quarantine.altered:
        detail = f"not the bytes sent: {_examples(quarantine.altered, len(quarantine.altered))}"
        yield Difference("corrupt_bytes_differ", QUARANTINE_TABLE, detail)
    for (refused, reason), count in sorted(quarantine.misjudged.items()):
        yield Difference("reason_differs", refused, f"{count:,} records are in quarantine for {reason}")


def _good_in_quarantine(
    homeless: Sum, quarantine: QuarantineSurvey, excused: Excused, topic: str
) -> Iterator[Difference]:
    """Nothing wrong is with these but that they may have no entity, or not meet what their table expects."""
    gone = excused.erased(QUARANTINE_TABLE, topic, quarantine.coverage) + excused.purged
    if homeless.rows and not 0 < homeless.rows - quarantine.homeless.rows <= gone:
        yield from _compared(f"{QUARANTINE_TABLE}, events without an entity", quarantine.homeless, homeless)
    for reason, found in sorted(quarantine.unexpected.items(), key=lambda item: item[0]):
        if reason == EXPECTATION and found.rows <= excused.refused:
            continue
        if reason != NO_ENTITY.reason or not homeless.rows:
            detail = f"good records: {_examples(found.first, found.rows)}"
            yield Difference("good_in_quarantine", reason, detail)


def _tombstones(truth: Truth, tables: Coverage, quarantine: Coverage) -> Iterator[Difference]:
    for where, coverage in (("tables", tables), (QUARANTINE_TABLE, quarantine)):
        kept = [
            place
            for place in sorted(truth.tombstones)
            if coverage.count((truth.topic, place.partition), place.offset)
        ]
        if kept:
            yield Difference("tombstone_kept", where, _examples(kept, len(kept)))


def _unsent(truth: Truth, tables: Coverage, quarantine: Coverage) -> Iterator[Difference]:
    """Records of the topic that no simulation of this truth sent."""
    for where, coverage in (("the tables", tables), (QUARANTINE_TABLE, quarantine)):
        for partition in coverage.partitions():
            if partition[0] != truth.topic:
                continue
            runs = truth.offsets.get(partition[1], ())
            outside = coverage.total(partition) - sum(
                coverage.within(partition, start, end) for start, end in runs
            )
            if outside:
                detail = f"{outside:,} rows in {where} lie outside of the offsets sent"
                yield Difference("record_unsent", named(partition), detail)


def _examples(places: list[PartitionOffset], count: int) -> str:
    shown = ", ".join(f"{place.partition}/{place.offset}" for place in places[:EXAMPLES])
    more = f" and {count - EXAMPLES:,} more" if count > EXAMPLES else ""
    return f"{count:,} records, at partition/offset {shown}{more}"
