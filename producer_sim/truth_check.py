"""What tables and quarantine hold, against the truth about what was sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from distributary.ingest.ledger import QUARANTINE_TABLE
from distributary.producer_sim.checksum import Sum
from distributary.producer_sim.coverage import Coverage
from distributary.producer_sim.lake import Lake
from distributary.producer_sim.quarantine_survey import QuarantineSurvey
from distributary.producer_sim.table_survey import GroupKey, Survey
from distributary.producer_sim.truth import Group, Place, Sent, Truth
from distributary.producer_sim.verdict import EXAMPLES, Difference, Kind, listed, named


def against_truth(
    lake: Lake, truth: Truth, tables: Survey, quarantine: QuarantineSurvey
) -> Iterator[Difference]:
    """Everything in which tables and quarantine differ from what was sent."""
    yield from _groups(lake, truth, tables)
    yield from _lost(truth, tables.coverage, quarantine.coverage)
    yield from _corrupt(truth, tables.coverage, quarantine)
    yield from _tombstones(truth, tables.coverage, quarantine.coverage)
    yield from _unsent(truth, tables.coverage, quarantine.coverage)


def _groups(lake: Lake, truth: Truth, tables: Survey) -> Iterator[Difference]:
    """For each game and schema: rows and checksum as sent, in the game's table and in no other."""
    found = {key: total for key, total in tables.groups.items() if key[1] == truth.topic}
    there = {table.name for table in tables.tables}
    # Those without a schema id come last: they are what is left of a game once every id has its own.
    for group, sent in sorted(truth.sent.items(), key=_nameless_last):
        table = lake.table_of(group.game)
        total = _taken(found, (table, truth.topic, group.game), group.schema_id)
        schema = "any schema id" if group.schema_id is None else f"schema id {group.schema_id}"
        where = f"{table}, game {group.game!r}, {schema}"
        if table not in there:
            yield Difference("table_missing", where, f"no such table, {sent.rows:,} rows sent")
        elif total.rows != sent.rows:
            kind: Kind = "rows_missing" if total.rows < sent.rows else "rows_surplus"
            yield Difference(kind, where, f"{total.rows:,} rows found, {sent.rows:,} sent")
        elif total.checksum != sent.checksum:
            detail = (
                f"the checksum of {sent.rows:,} rows is {total.checksum:016x}, sent was {sent.checksum:016x}"
            )
            yield Difference("values_differ", where, detail)
    for (table, _, game, schema_id), total in found.items():
        where = f"{table}, game {game!r}, schema id {schema_id}"
        yield Difference("rows_surplus", where, f"{total.rows:,} rows found, none sent")


def _nameless_last(item: tuple[Group, Sent]) -> tuple[bool, tuple[str, int]]:
    group, _ = item
    return group.schema_id is None, group.order


def _taken(found: dict[GroupKey, Sum], of_game: tuple[str, str, str], schema_id: int | None) -> Sum:
    """What was found of a group, taken out of `found`; records that name no schema may have any id in the table."""
    if schema_id is not None:
        return found.pop((*of_game, schema_id), Sum())
    together = Sum()
    for key in [key for key in found if key[:3] == of_game]:
        rest = found.pop(key)
        together.add(rest.rows, rest.checksum)
    return together


def _lost(truth: Truth, tables: Coverage, quarantine: Coverage) -> Iterator[Difference]:
    """Good records that are nowhere; corrupt ones and tombstones have their own checks."""
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
            if len(lost):
                yield Difference("record_lost", named(partition), listed(lost.tolist(), len(lost)))


def _corrupt(truth: Truth, tables: Coverage, quarantine: QuarantineSurvey) -> Iterator[Difference]:
    absent: dict[str, list[Place]] = defaultdict(list)
    present: dict[str, list[Place]] = defaultdict(list)
    for place, record in sorted(truth.corrupt.items()):
        partition = (truth.topic, place.partition)
        if not quarantine.coverage.count(partition, place.offset):
            absent[record.kind].append(place)
        if tables.count(partition, place.offset):
            present[record.kind].append(place)
    for kind, places in absent.items():
        yield Difference("corrupt_not_quarantined", kind, _examples(places, len(places)))
    for kind, places in present.items():
        yield Difference("corrupt_in_table", kind, _examples(places, len(places)))
    if quarantine.altered:
        detail = f"not the bytes sent: {_examples(quarantine.altered, len(quarantine.altered))}"
        yield Difference("corrupt_bytes_differ", QUARANTINE_TABLE, detail)
    for (refused, reason), count in sorted(quarantine.misjudged.items()):
        yield Difference("reason_differs", refused, f"{count:,} records are in quarantine for {reason}")
    for reason, count in sorted(quarantine.unexpected.items()):
        detail = f"good records: {_examples(quarantine.examples[reason], count)}"
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


def _examples(places: list[Place], count: int) -> str:
    shown = ", ".join(f"{place.partition}/{place.offset}" for place in places[:EXAMPLES])
    more = f" and {count - EXAMPLES:,} more" if count > EXAMPLES else ""
    return f"{count:,} records, at partition/offset {shown}{more}"
