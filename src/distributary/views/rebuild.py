"""What was made again from bronze, as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distributary.views.terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distributary.ingest.rebuild.reset import Was
    from distributary.ingest.rebuild.silver import Replayed


def replayed(done: Replayed) -> Iterator[str]:
    """A line a table, and the sum."""
    for table in sorted({**done.tables, **done.left}):
        rows, left = done.tables.get(table, 0), done.left.get(table, 0)
        if done.dry_run:
            yield one_line(f"{table}: {_count(left, 'row')} would make room for what comes")
        else:
            yield one_line(f"{table}: {_count(rows, 'row')}{f' in the place of {left:,}' if left else ''}")
    for reason, rows in sorted(done.refused.items()):
        yield one_line(f"in quarantine, {reason}: {_count(rows, 'record')}")
    for reason, rows in sorted(done.kept.items()):
        yield one_line(f"would be in quarantine, {reason}: {_count(rows, 'record')} with the row of before")
    if done.dropped:
        yield one_line(f"let go by the settings, or deletes: {_count(done.dropped, 'record')}")
    what = "would be decoded again" if done.dry_run else "decoded again"
    yield one_line(f"{done.pipeline}: {done.lacking:,} of {_count(done.records, 'record')} {what}")


def rebuilt(done: Was) -> Iterator[str]:
    """A line for what was emptied, and those of what was made again."""
    what = "emptied, as an earlier call had begun" if done.resumed else "emptied"
    yield one_line(f"{what}: {', '.join(done.emptied) or 'no table'}")
    if done.replayed is not None:
        yield from replayed(done.replayed)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
