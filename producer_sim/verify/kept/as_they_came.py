"""Whether what keeps records as they came has each record that the ledger says, once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from distributary.ingest.bronze.rule import KEEPS_PROPERTY
from distributary.ingest.erasure.record import RECORDS, all_gone
from distributary.producer_sim.verify.commit_check import newest_of
from distributary.producer_sim.verify.coverage import Coverage
from distributary.producer_sim.verify.lake import READ_ERRORS, Lake, batches
from distributary.producer_sim.verify.ledger_check import Batch
from distributary.producer_sim.verify.table_survey import count_offsets
from distributary.producer_sim.verify.verdict import EXAMPLES, Difference, listed, named

_PLACE = ("kafka_topic", "kafka_partition", "kafka_offset")


@dataclass(slots=True)
class Kept:
    """What was found in the tables that keep records as they came.

    newest  the newest batch of each generation, by table
    """

    tables: list[str] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)
    newest: dict[str, dict[str, int]] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)


def survey_kept(lake: Lake, ledger: Iterable[Batch], generations: Collection[str]) -> Kept:
    """Reads the pipeline's tables that keep records as they came; none is looked for where no batch of the ledger has kept any."""
    kept = Kept()
    if not any(batch.rows.kept for batch in ledger):
        return kept
    for name in lake.root.folders():
        if name in lake.others:
            continue
        try:
            _read(lake, name, generations, kept)
        except READ_ERRORS as error:
            if name in kept.tables:
                kept.differences.append(Difference("table_unreadable", name, str(error)))
    return kept


def _read(lake: Lake, name: str, generations: Collection[str], kept: Kept) -> None:
    table = lake.open(name)
    if table is None or KEEPS_PROPERTY not in table.metadata().configuration:
        return
    kept.tables.append(name)
    kept.newest[name] = newest_of(table, name, generations)
    strays = 0
    for batch in batches(table, _PLACE):
        topics, partitions, offsets = (batch.column(one) for one in _PLACE)
        strays += count_offsets(topics, partitions, offsets, kept.coverage)
    if strays:
        detail = f"{strays:,} rows have no topic, partition or offset"
        kept.differences.append(Difference("record_without_coordinates", name, detail))


def check_kept(lake: Lake, kept: Kept, ledger: Iterable[Batch]) -> Iterator[Difference]:
    """Records that are not there as often as the ledger says; those of which an erasure tells count as if they were there."""
    yield from kept.differences
    where = ", ".join(kept.tables) or "the tables that keep records as they came"
    for partition in kept.coverage.partitions():
        offsets = kept.coverage.more_than_once(partition, beside=Coverage())
        if len(offsets):
            detail = f"{listed(offsets[:EXAMPLES].tolist(), len(offsets))}, in {where}"
            yield Difference("record_twice", named(partition), detail)
    try:
        _with_erased(lake, kept)
    except (*READ_ERRORS, ValueError, KeyError, TypeError) as error:
        yield Difference("table_unreadable", RECORDS, f"what is kept of erasures: {error}")
    for batch in ledger:
        rows = sum(
            kept.coverage.within(partition, start, end) for partition, (start, end) in batch.ranges.items()
        )
        # Beside its own there may be those that an earlier checkpoint kept.
        if batch.rows.kept and not batch.rows.kept <= rows <= batch.rows.read:
            detail = f"its offsets have {rows:,} records in {where}, and the ledger says {batch.rows.kept:,} were kept as they came"
            yield Difference("ledger_rows", str(batch), detail)


def _with_erased(lake: Lake, kept: Kept) -> None:
    for table, gone in all_gone(lake.root, lake.me) if lake.me is not None else ():
        if table not in kept.tables:
            continue
        for (_, _, topic, partition), offsets in gone.parts.items():
            lacking = kept.coverage.lacking((topic, partition), offsets)
            kept.coverage.add((topic, partition), lacking)
