"""What upkeep did to tables, as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distributary.views.terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distributary.ingest.upkeep.compaction import Size
    from distributary.ingest.upkeep.maintain import TableUpkeep, Upkeep
    from distributary.ingest.upkeep.record import RecordUpkeep


def lines(upkeep: Upkeep) -> Iterator[str]:
    """One for each table, one for each thing that was left, and the sums."""
    would = "would be " if upkeep.dry_run else ""
    for table in upkeep.tables:
        if table.before.files or not (table.left or table.failed):
            yield one_line(f"{table.table}: {_done(table, would)}")
        for why in table.left:
            yield one_line(f"{table.table}: {why}")
        if table.failed is not None:
            yield one_line(f"{table.table}: failed: {table.failed}")
    yield from _record(upkeep.record, would)
    yield one_line(
        f"{upkeep.pipeline}: {_files(upkeep.compacted)} {would}compacted into {upkeep.made:,}, {_sized(upkeep.deleted)} {would}deleted in "
        f"{len(upkeep.tables):,} table{'' if len(upkeep.tables) == 1 else 's'}"
    )


def _record(record: RecordUpkeep, would: str) -> Iterator[str]:
    done = [
        f"{count:,} {what}"
        for count, what in (
            (record.batches, f"rows fewer {would}tell of old batches"),
            (record.changes, f"old changes {would}deleted"),
            (record.quarantined, f"old records {would}deleted from quarantine"),
            (record.resolved, f"rows {would}deleted that told what became of such"),
        )
        if count
    ]
    if done:
        yield one_line(f"the record: {', '.join(done)}")
    for why in record.left:
        yield one_line(f"the record: {why}")
    if record.failed is not None:
        yield one_line(f"the record: failed: {record.failed}")


def _done(table: TableUpkeep, would: str) -> str:
    parts = [_sized(table.before)]
    if table.after != table.before:
        parts[0] += f" before, {_sized(table.after)} now"
    if table.compacted:
        parts.append(f"{_files(table.compacted)} {would}compacted into {table.made:,}")
    if table.deleted.files:
        parts.append(f"{_sized(table.deleted)} {would}deleted")
    if len(parts) == 1:
        parts.append("nothing done" if table.left or table.failed else "nothing to do")
    return "; ".join(parts)


def _sized(size: Size) -> str:
    return f"{_files(size.files)} ({_bytes(size.bytes)})"


def _files(count: int) -> str:
    return f"{count:,} file{'' if count == 1 else 's'}"


def _bytes(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"
