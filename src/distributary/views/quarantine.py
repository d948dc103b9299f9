"""What waits in quarantine, and what became of it, as lines."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from distributary.views.terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distributary.ingest.quarantine.contents import Contents, Found, Group, Moment, Record
    from distributary.ingest.quarantine.purging import Purged
    from distributary.ingest.replay.bring_back import BroughtBack


def listed(found: Contents) -> Iterator[str]:
    """One line for each group, and the sum."""
    for group in found.groups:
        yield one_line(_group(group))
    yield one_line(
        f"{found.pipeline}: {_count(found.open, 'record')} in quarantine{_resolved(found.resolved)}"
    )


def _group(one: Group) -> str:
    schema = "" if one.schema is None else f", schema {one.schema}"
    when = "" if one.first is None or one.last is None else f", {_at(one.first)} to {_at(one.last)} UTC"
    return f"{one.reason}{schema}, {one.topic}: {one.open:,} open{_resolved(one.resolved)}{when}"


def _resolved(number: int) -> str:
    return f", {number:,} resolved" if number else ""


def _at(at: Moment) -> str:
    return f"{at} microseconds since 1970" if isinstance(at, int) else f"{at:%Y-%m-%d %H:%M:%S}"


def shown(found: Found) -> Iterator[str]:
    """What there is to tell of each record, a line a column, and how many more there are."""
    for record in found.records:
        yield from _record(record)
    more = found.total - len(found.records)
    if more or not found.records:
        yield f"{more:,} more" if found.records else "no such record is in quarantine"


def _record(one: Record) -> Iterator[str]:
    told = one.told
    yield one_line(f"{told['kafka_topic']}/{told['kafka_partition']} offset {told['kafka_offset']}")
    for name, value in told.items():
        if value is not None and name not in ("kafka_topic", "kafka_partition", "kafka_offset"):
            yield one_line(f"  {name}: {_value(name, value)}")
    if one.resolved is not None:
        where = "" if one.resolved["table"] is None else f" {one.resolved['table']}"
        yield one_line(f"  resolved: {one.resolved['outcome']}{where}, by replay {one.resolved['replay']}")
    for name, data in (one.payload or {}).items():
        yield f"  {name}: {'null' if data is None else base64.b64encode(data).decode()}"


def _value(name: str, value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return _at(value) if name == "kafka_ts" and isinstance(value, int) else str(value)


def replayed(done: BroughtBack) -> Iterator[str]:
    """What became of the records, a line a table and a reason, and the sum."""
    for one in done.replays:
        became, again = one.became, " (begun before)" if one.resumed else ""
        for table, rows in sorted(became.tables.items()):
            yield one_line(f"{table}: {_count(rows, 'record')}")
        if became.already:
            yield f"in their tables before: {_count(became.already, 'record')}"
        if became.dropped:
            yield f"dropped as the settings say, or deletes: {_count(became.dropped, 'record')}"
        for reason, rows in sorted(became.refused.items()):
            yield one_line(f"{reason}: {_count(rows, 'record')} stay in quarantine")
        for why, rows in one.left.items():
            yield one_line(f"left alone: {_count(rows, 'record')} {why}")
        yield one_line(
            f"replay {one.id}{again}: {became.resolved:,} of {_count(one.records, 'record')} resolved"
        )
    total = sum(one.records for one in done.replays)
    yield one_line(
        f"{done.pipeline}: {done.resolved:,} of {_count(total, 'record')} brought back"
        if done.replays
        else f"{done.pipeline}: no such record is open in quarantine"
    )


def purged(done: Purged) -> Iterator[str]:
    """What was deleted."""
    would = "would be " if done.dry_run else ""
    yield one_line(
        f"{done.pipeline}: {_count(done.rows, 'record')} {would}deleted from quarantine, {_count(done.files, 'file')} {would}written anew"
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
