"""Whether the ledger's sums agree with each other and with what the tables hold."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from distributary.ingest.columns.safe_names import BATCHES_TABLE, CHANGES_TABLE
from distributary.ingest.tables.ledger import MERGED_ROWS, batches_of
from distributary.producer_sim.truth.sent import joined
from distributary.producer_sim.verify.coverage import Coverage, Partition
from distributary.producer_sim.verify.lake import Lake, batches
from distributary.producer_sim.verify.verdict import Difference, named

# Generation and batch id.
BatchKey = tuple[str, int]

NOTHING_TWICE: Mapping[BatchKey, int] = MappingProxyType({})

# What makes a change in the ledger that very change; earlier versions told less of each.
_CHANGE = ("table", "schema_id", "old_schema_id", "kind", "column", "before", "after")


@dataclass(frozen=True, slots=True)
class Rows:
    """How many rows a batch had, and where they went; the ledger's columns are called so after `rows_`.

    purged  those of quarantine that may be gone by now
    kept    those that were kept as they came, beside where they went
    by_reason  of those in quarantine and dropped how many for which reason
    """

    read: int
    tables: int
    quarantined: int
    dropped: int
    already: int
    purged: int = 0
    kept: int = 0
    by_reason: Mapping[str, int] = field(default_factory=dict)

    @property
    def placed(self) -> int:
        """Those of which the ledger says where they are."""
        return self.tables + self.quarantined + self.dropped + self.already


_REASONS, _ADDED = "rows_by_reason", "rows_added"

SUMS = {one.name: f"rows_{one.name}" for one in fields(Rows) if one.name != "by_reason"}


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as the ledger tells it; `ranges` are the offsets it covers, `gaps` those of them without a record.

    `changes_again` counts what the ledger of changes tells of it more often than once, `merged` the rows of tables with one row a key; None where
    nobody says. Of old batches one may stand for others before it, from `first_id` on.
    """

    generation: str
    batch_id: int
    rows: Rows
    ranges: Mapping[Partition, tuple[int, int]]
    gaps: int
    changes_again: int = 0
    merged: int | None = None
    first_id: int | None = None

    def __str__(self) -> str:
        number = str(self.batch_id) if self.first_id is None else f"{self.first_id} to {self.batch_id}"
        return f"batch {number} of generation {self.generation}"


@dataclass(frozen=True, slots=True)
class Held:
    """What was found outside of the ledger: offsets in tables and in quarantine, and quarantined rows by batch.

    merged  offsets in tables with one row a key
    added   those of rows that were made again from bronze
    out     those of records that were decoded again and have no row in a table for it
    generations  those in quarantine by whose batch or replay put them there
    """

    tables: Coverage
    quarantine: Coverage
    quarantined: Counter[BatchKey]
    merged: Coverage = field(default_factory=Coverage)
    added: Coverage = field(default_factory=Coverage)
    out: Coverage = field(default_factory=Coverage)
    generations: dict[str, Coverage] = field(default_factory=dict)


def read_ledger(lake: Lake, again: Mapping[BatchKey, int] = NOTHING_TWICE) -> list[Batch] | None:
    """All batches of the pipeline in their order; None if there is no ledger. `again` is what `changes_again` found."""
    table = lake.open(BATCHES_TABLE)
    if table is None:
        return None
    there = {part.name for part in table.schema().fields}
    # Ledgers of earlier versions lack these columns.
    later = [*SUMS.values(), _REASONS, *MERGED_ROWS, _ADDED, "first_batch_id"]
    wanted = [
        "pipeline",
        "generation",
        "batch_id",
        "offsets",
        "gaps",
        *(name for name in later if name in there),
    ]
    others = generations_of_others(lake)
    every = (row for batch in batches(table, wanted) for row in batch.to_pylist())
    rows = [row for row in every if row["generation"] not in others]
    found = [
        Batch(
            generation=row["generation"],
            batch_id=row["batch_id"],
            rows=_rows(row),
            ranges={
                (topic, int(number)): (start, end)
                for topic, partitions in json.loads(row["offsets"]).items()
                for number, (start, end) in partitions.items()
            },
            gaps=sum(sum(found.values()) for found in json.loads(row["gaps"] or "{}").values()),
            changes_again=sum(
                again.get((row["generation"], number), 0)
                for number in batches_of(row["batch_id"], row.get("first_batch_id"))
            ),
            merged=_merged(row),
            first_id=row.get("first_batch_id"),
        )
        for row in rows
    ]
    return sorted(found, key=lambda batch: (batch.generation, batch.batch_id))


def _rows(row: Mapping[str, Any]) -> Rows:
    counts = {name: row.get(column) or 0 for name, column in SUMS.items()}
    return Rows(**counts, by_reason=json.loads(row.get(_REASONS) or "{}"))


def _merged(row: Mapping[str, Any]) -> int | None:
    told = [row[name] for name in MERGED_ROWS if row.get(name) is not None]
    if not told and row.get(_ADDED) is not None:
        # What became of them no commit said by then; all others were to be added.
        return int(row["rows_tables"] - row[_ADDED])
    return sum(told) if told else None


def generations_of_others(lake: Lake) -> frozenset[str]:
    """The generations of other pipelines that the ledger has: a pipeline may share it that has no table of its own."""
    table = lake.open(BATCHES_TABLE)
    if table is None:
        return frozenset()
    told = {
        (row["pipeline"], row["generation"])
        for batch in batches(table, ["pipeline", "generation"])
        for row in batch.to_pylist()
    }
    return frozenset(generation for _, generation in told) - _mine(lake, told)


def _mine(lake: Lake, told: Collection[tuple[str | None, str]]) -> frozenset[str]:
    """The generations that are the pipeline's own, by the names that the ledger tells of each."""
    if lake.me is None:
        others = set(lake.others.values())
        return frozenset(generation for name, generation in told if name not in others)
    return frozenset(generation for name, generation in told if lake.me.has(name, generation))


def check_ledger(ledger: list[Batch], held: Held) -> Iterator[Difference]:
    """Everything in which the ledger disagrees with itself or with what the tables hold."""
    for batch in ledger:
        yield from _check_sums(batch)
        yield from _check_rows(batch, held)
    yield from _check_repeats(ledger)
    yield from _check_succession(ledger)
    yield from _check_holes(ledger)
    yield from _check_rest(ledger, held)


def reached(ledger: Iterable[Batch]) -> dict[Partition, int]:
    """Where the newest of these batches end, partition by partition."""
    ends: dict[Partition, int] = {}
    for batch in ledger:
        for partition, (_, end) in batch.ranges.items():
            ends[partition] = max(end, ends.get(partition, end))
    return ends


def _check_sums(batch: Batch) -> Iterator[Difference]:
    rows = batch.rows
    if rows.placed != rows.read:
        detail = (
            f"{rows.read:,} rows read, but {rows.tables:,} in tables, {rows.quarantined:,} "
            f"in quarantine, {rows.dropped:,} dropped and {rows.already:,} there already"
        )
        yield Difference("ledger_sum", str(batch), detail)
    if batch.changes_again:
        detail = f"the ledger of changes repeats {batch.changes_again:,} of its rows"
        yield Difference("ledger_sum", str(batch), detail)
    covered = sum(end - start for start, end in batch.ranges.values())
    if covered - batch.gaps != rows.read:
        detail = f"{rows.read:,} rows read from {covered:,} offsets, of which {batch.gaps:,} without a record"
        yield Difference("ledger_sum", str(batch), detail)


def changes_again(lake: Lake) -> Counter[BatchKey]:
    """Per batch, how many rows of the ledger of changes repeat another one."""
    table = lake.open(CHANGES_TABLE)
    if table is None:
        return Counter()
    there = {part.name for part in table.schema().fields}
    wanted = ["generation", "batch_id", *(name for name in _CHANGE if name in there)]
    told = Counter(
        tuple(row[name] for name in wanted) for batch in batches(table, wanted) for row in batch.to_pylist()
    )
    again: Counter[BatchKey] = Counter()
    for (generation, batch_id, *_), count in told.items():
        again[generation, batch_id] += count - 1
    return again


def _check_rows(batch: Batch, held: Held) -> Iterator[Difference]:
    """Rows that an earlier generation had committed lie in the same offsets and count as well."""
    in_tables, in_quarantine = _within(held.tables, batch), _within(held.quarantine, batch)
    rows, in_merged = batch.rows, _within(held.merged, batch)
    said = rows.tables + rows.quarantined + rows.already
    # What the settings of then let go, those of a later replay may have given a row, and the other way round.
    more, fewer = max(0, min(_within(held.added, batch), rows.dropped)), _within(held.out, batch)
    # What an earlier generation had committed may be in those tables, too, where this batch brought nothing to them.
    merged = held.merged.partitions() if batch.merged is None else batch.merged or rows.already
    if merged:
        yield from _check_merged(batch, in_tables, in_merged, (more, fewer))
    elif rows.already and not said - rows.purged - fewer <= in_tables + in_quarantine <= said + more:
        detail = f"its offsets have {in_tables + in_quarantine:,} rows, the ledger says {said:,}"
        yield Difference("ledger_rows", str(batch), detail)
    elif not rows.already and not rows.tables - fewer <= in_tables <= rows.tables + more:
        detail = f"its offsets have {in_tables:,} rows in the tables, the ledger says {rows.tables:,}"
        yield Difference("ledger_rows", str(batch), detail)
    numbers = batches_of(batch.batch_id, batch.first_id)
    quarantined = sum(held.quarantined[batch.generation, number] for number in numbers)
    if not rows.quarantined - rows.purged <= quarantined <= rows.quarantined:
        detail = f"{quarantined:,} rows in quarantine are its own, the ledger says {rows.quarantined:,}"
        yield Difference("ledger_rows", str(batch), detail)


def _check_merged(
    batch: Batch, in_tables: int, in_merged: int, moved: tuple[int, int]
) -> Iterator[Difference]:
    """Of a batch with rows for tables with one row a key those are there to which nothing newer came."""
    rows, (more, fewer) = batch.rows, moved
    # What an earlier generation had committed is where each row is added, or was and has made room for a newer one.
    more += rows.already
    before = f", and {rows.already:,} there already" if rows.already else ""
    # Where the commits did not say (any more) what became of theirs, all that is known is how many there were.
    added = rows.tables - (batch.merged or 0)
    if batch.merged is not None and not added - fewer <= in_tables <= added + more:
        detail = f"its offsets have {in_tables:,} rows in tables to which each is added, the ledger says {added:,}{before}"
        yield Difference("ledger_rows", str(batch), detail)
    if in_tables + in_merged > rows.tables + more:
        detail = f"its offsets have {in_tables + in_merged:,} rows in the tables, the ledger says {rows.tables:,}{before}"
        yield Difference("ledger_rows", str(batch), detail)


def _check_repeats(ledger: list[Batch]) -> Iterator[Difference]:
    for (generation, number), count in Counter((b.generation, b.batch_id) for b in ledger).items():
        if count > 1:
            where = f"batch {number} of generation {generation}"
            yield Difference("ledger_sum", where, f"the ledger has it {count} times")


# The stretches of a partition that batches read, one after the other.
_Steps = list[tuple[int, int, Batch]]


def _history(ledger: list[Batch]) -> dict[tuple[str, Partition], _Steps]:
    """What each generation read of each partition."""
    history: dict[tuple[str, Partition], _Steps] = defaultdict(list)
    for batch in ledger:
        for partition, (start, end) in batch.ranges.items():
            history[batch.generation, partition].append((start, end, batch))
    return history


def _check_succession(ledger: list[Batch]) -> Iterator[Difference]:
    """Within a generation each batch goes on where the one before it ended."""
    for (_, partition), steps in _history(ledger).items():
        for (_, end, before), (start, _, after) in pairwise(steps):
            if start != end:
                what = "skips" if start > end else "repeats"
                detail = f"{after} begins at {start}, {before} ended at {end}: it {what} {abs(start - end):,} offsets"
                yield Difference("ledger_offsets", named(partition), detail)


def _check_holes(ledger: list[Batch]) -> Iterator[Difference]:
    """From one generation to the next nothing may be left out; what one of them leaves out itself is told above."""
    read: dict[Partition, list[tuple[int, int]]] = defaultdict(list)
    for (_, partition), steps in _history(ledger).items():
        read[partition].append((min(start for start, _, _ in steps), max(end for _, end, _ in steps)))
    for partition, spans in sorted(read.items()):
        for (_, end), (start, _) in pairwise(joined(spans)):
            detail = (
                f"no batch read offsets {end:,} to {start - 1:,}, which lie between those of two checkpoints"
            )
            yield Difference("ledger_offsets", named(partition), detail)


def _check_rest(ledger: list[Batch], held: Held) -> Iterator[Difference]:
    """No row may lie where no batch read."""
    covered: dict[Partition, list[tuple[int, int]]] = defaultdict(list)
    for batch in ledger:
        for partition, span in batch.ranges.items():
            covered[partition].append(span)
    for what, coverage in (
        ("the tables", held.tables),
        ("quarantine", held.quarantine),
        ("tables with one row a key", held.merged),
    ):
        for partition in coverage.partitions():
            spans = joined(covered[partition])
            inside = sum(coverage.within(partition, start, end) for start, end in spans)
            outside = coverage.total(partition) - inside
            if outside:
                detail = f"{outside:,} rows in {what} lie at offsets that no batch in the ledger read"
                yield Difference("ledger_rows", named(partition), detail)


def _within(coverage: Coverage, batch: Batch) -> int:
    return sum(coverage.within(partition, start, end) for partition, (start, end) in batch.ranges.items())
