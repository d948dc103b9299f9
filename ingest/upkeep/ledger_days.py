"""Old batches of the ledger as one row a day: what is known of them all together, so that sums still hold."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from distributary.ingest.tables.ledger import MERGED_ROWS, batches_of

# A row of the ledger, by its columns.
Row = Mapping[str, Any]

_PLACED = ("rows_tables", "rows_quarantined", "rows_dropped", "rows_already")

_ADDED = ("seconds", "attempts", "rows_read", *_PLACED, "files", "bytes")


@dataclass(frozen=True, slots=True)
class Bounds:
    """How old a batch has to be; None: none is old enough.

    together  those that ended before are brought together by day
    purged    those that ended before have no rows in quarantine any more
    """

    together: datetime | None
    purged: datetime | None

    @classmethod
    def of(cls, now: datetime, batches_days: float | None, quarantine_days: float | None) -> Bounds:
        """The bounds of these ages; days are brought together whole."""
        whole = _before(now, batches_days)
        together = None if whole is None else whole.replace(hour=0, minute=0, second=0, microsecond=0)
        return cls(together, _before(now, quarantine_days))

    def days(self, ended: Sequence[datetime]) -> Iterator[Sequence[int]]:
        """The places of batches that ended then, those together that one row is to stand for."""

        def day(place: int) -> object:
            at = ended[place]
            return at.date() if self.together is not None and at < self.together else place

        for _, places in groupby(range(len(ended)), day):
            yield list(places)


def _before(now: datetime, days: float | None) -> datetime | None:
    return None if days is None else now - timedelta(days=days)


def ages(ended: Sequence[datetime], now: datetime) -> list[datetime]:
    """When each batch ended at the latest, of batches in their order.

    A clock may have been wrong: none ended before the one before it did, and none in the future. So a batch may seem younger than it is,
    never older.
    """
    found, newest = list[datetime](), datetime.min.replace(tzinfo=now.tzinfo)
    for one in ended:
        newest = max(newest, one) if one <= now else newest
        # Until a clock told anything that can be, nothing is old.
        found.append(newest if newest.year > 1 else now)
    return found


def shortened(rows: Sequence[Row], ended: Sequence[datetime], bounds: Bounds) -> list[Row]:
    """What stands for these rows of one generation, which are in their order; `ended` is what `ages` says of each."""
    marked = [_marked(row, at, bounds.purged) for row, at in zip(rows, ended, strict=True)]
    return [row for places in bounds.days(ended) for row in _together([marked[place] for place in places])]


def first_id(row: Row) -> int:
    """The number of the first batch that a row stands for."""
    return batches_of(row["batch_id"], row.get("first_batch_id"))[0]


def _marked(row: Row, ended: datetime, purged: datetime | None) -> Row:
    if purged is None or ended >= purged or not row["rows_quarantined"]:
        return row
    return {**row, "rows_purged": row["rows_quarantined"]}


def _together(rows: Sequence[Row]) -> Sequence[Row]:
    """One row for these, or themselves where one does not go on where the one before it ended: what is wrong stays to be seen; and so do several names."""
    if len(rows) < 2 or len({row.get("pipeline") for row in rows}) > 1 or not all(map(_adds_up, rows)):
        return rows
    offsets: dict[str, dict[str, list[int]]] = {}
    for row in rows:
        for topic, number, (start, end) in _spans(row):
            span = offsets.setdefault(topic, {}).setdefault(number, [start, start])
            if span[1] != start:
                return rows
            span[1] = end
    return [
        {
            **rows[-1],
            **{name: sum(row[name] for row in rows) for name in _ADDED},
            **{name: _sum_if_all_tell([row.get(name) for row in rows]) for name in MERGED_ROWS},
            "first_batch_id": first_id(rows[0]),
            "started_at": rows[0]["started_at"],
            "rows_kept": _sum_if_all_tell([row.get("rows_kept") for row in rows]),
            "rows_added": _sum_if_all_tell([row.get("rows_added") for row in rows]),
            "rows_purged": _sum_if_any(row.get("rows_purged") for row in rows),
            "requests": _sum_if_any(row.get("requests") for row in rows),
            "rows_by_reason": _counts(rows, "rows_by_reason"),
            "tables": max(row["tables"] for row in rows),
            "offsets": json.dumps(offsets),
            "gaps": _nested(rows, "gaps"),
            "schema_ids": json.dumps(sorted({one for row in rows for one in _value(row, "schema_ids", [])})),
            "unknown_fields": _nested(rows, "unknown_fields"),
            "expectations": _expectations(rows),
        }
    ]


def _adds_up(row: Row) -> bool:
    covered = sum(end - start for _, _, (start, end) in _spans(row))
    gaps = sum(sum(found.values()) for found in _value(row, "gaps", {}).values())
    placed = sum(row[name] for name in _PLACED)
    return bool(row["rows_read"] == placed == covered - gaps)


def _spans(row: Row) -> Iterator[tuple[str, str, tuple[int, int]]]:
    for topic, numbers in _value(row, "offsets", {}).items():
        for number, (start, end) in numbers.items():
            yield topic, number, (start, end)


def _sum_if_all_tell(counts: Sequence[int | None]) -> int | None:
    """Where one of them does not say, nobody can say it of all."""
    told = [count for count in counts if count is not None]
    return sum(told) if len(told) == len(counts) else None


def _sum_if_any(counts: Iterable[int | None]) -> int | None:
    told = [count for count in counts if count is not None]
    return sum(told) if told else None


def _counts(rows: Sequence[Row], name: str) -> str:
    found: Counter[str] = Counter()
    for row in rows:
        found.update(_value(row, name, {}))
    return json.dumps(found)


def _nested(rows: Sequence[Row], name: str) -> str:
    found: dict[str, Counter[str]] = {}
    for row in rows:
        for key, counts in _value(row, name, {}).items():
            found.setdefault(key, Counter()).update(counts)
    return json.dumps(found)


def _expectations(rows: Sequence[Row]) -> str | None:
    """How often each was met, and not met, in all of these; None where no batch tells of any."""
    found: dict[str, dict[str, list[int]]] = {}
    for row in rows:
        for table, told in _value(row, "expectations", {}).items():
            for name, counts in told.items():
                sums = found.setdefault(table, {}).setdefault(name, [0, 0])
                found[table][name] = [one + other for one, other in zip(sums, counts, strict=True)]
    return json.dumps(found) if found else None


def _value(row: Row, name: str, none: Any) -> Any:
    text = row.get(name)
    return json.loads(text) if text else none


# What is read of a ledger's rows to begin with, since there may be millions.
LIGHT = ("batch_id", "ended_at", "first_batch_id", "rows_quarantined", "rows_purged")


@dataclass(frozen=True, slots=True)
class Span:
    """Rows that follow each other and of which something is to change: their places, the last one exclusive."""

    start: int
    end: int


def spans(light: Sequence[Row], ended: Sequence[datetime], bounds: Bounds, most: int) -> Iterator[Span]:
    """Which rows are to be looked at whole, about `most` at a time and each day at once; those with nothing to change are passed by."""
    begun: int | None = None
    end = 0
    for places in bounds.days(ended):
        if len(places) > 1 or _to_be_marked(light[places[0]], ended[places[0]], bounds.purged):
            begun = places[0] if begun is None else begun
            end = places[-1] + 1
        if begun is not None and (end != places[-1] + 1 or end - begun >= most):
            yield Span(begun, end)
            begun = None
    if begun is not None:
        yield Span(begun, end)


def _to_be_marked(row: Row, ended: datetime, purged: datetime | None) -> bool:
    # A day of which some batches were old enough for it says so of these only.
    told = (row.get("rows_purged") or 0) == row["rows_quarantined"]
    return not told and _marked(row, ended, purged) is not row
