"""What became of rows that were to be erased, as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distributary.views.terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distributary.ingest.erasure.outcome import Erasure, TableErasure


def lines(erasure: Erasure) -> Iterator[str]:
    """One for each table, one for each thing that was left, and the sum."""
    would = "would be " if erasure.dry_run else ""
    for table in erasure.tables:
        if table.files or not (table.left or table.failed):
            yield one_line(f"{table.table}: {_done(table, would)}")
        for why in table.left:
            yield one_line(f"{table.table}: {why}")
        if table.failed is not None:
            yield one_line(f"{table.table}: failed: {table.failed}")
    if erasure.undecided:
        yield one_line(
            f"{erasure.pipeline}: {_count(erasure.undecided, 'batch', 'es')} may yet bring such rows to a table that is parked; say it again once they are in"
        )
    count = len(erasure.tables)
    yield one_line(
        f"{erasure.pipeline}: {_count(erasure.rows, 'row')} {would}erased in {_count(count, 'table')}{_final(erasure)}"
    )


def _final(erasure: Erasure) -> str:
    if erasure.final_at is None:
        return ""
    kept = "" if erasure.record is None else f"; kept as {erasure.record}"
    return f"; older versions have them until `distributary maintain` is run after {erasure.final_at:%Y-%m-%d %H:%M} UTC{kept}"


def _done(table: TableErasure, would: str) -> str:
    if not table.rows:
        return "no such row"
    hidden = f" ({table.hidden:,} that no reader saw any more)" if table.hidden else ""
    return f"{_count(table.rows, 'row')}{hidden} {would}erased, {_count(table.files, 'file')} {would}written anew"


def _count(number: int, noun: str, more: str = "s") -> str:
    return f"{number:,} {noun}{'' if number == 1 else more}"
