"""What the settings say of a table that is a stream: rows that are added once nothing that comes can change them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from distributary.ingest.derivation.measures import NotMergeable, group_of, require_lasting
from distributary.values import Group, Keys, Name, PositiveSeconds, Seconds, WholeSeconds, Wrong

WINDOW_START, WINDOW_END = "window_start", "window_end"
"""The columns that say of which window a row is."""

THIS, OTHER = "this", "other"
"""What expressions call the input, and the one that is joined to it."""

_COLUMN = re.compile(r"[A-Za-z]\w*")


class Watermark(Group):
    """Up to which time nothing is waited for any more."""

    time: Name
    """When what a row tells of was: a column that is a timestamp or a date, or an expression that makes one, such as `timestamp_millis(at)`. Rows without it are left out."""
    late_seconds: Seconds = 0.0
    """How much later than others rows may come: the watermark is so long before the newest time that is there, and never goes back. A time that is yet to come counts for nothing until then."""


class Window(Group):
    """Pieces of time that rows are gathered in."""

    seconds: Annotated[WholeSeconds, Field(le=366 * 86_400)] | None = None
    """How long a window is; windows begin at whole multiples of it, in UTC."""
    slide_seconds: WholeSeconds | None = None
    """How long after one the next one begins, where a row is to be in several; by default they follow each other."""
    gap_seconds: Annotated[WholeSeconds, Field(le=366 * 86_400)] | None = None
    """Instead of `seconds`: makes sessions, each of which goes on as long as the next row of its group comes within so many seconds. `window_end` is so long behind its last row."""

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        if (self.seconds is None) == (self.gap_seconds is None):
            yield (), "write seconds, or gap_seconds for sessions, one of both"
        if self.gap_seconds is not None and self.slide_seconds is not None:
            yield ("slide_seconds",), "sessions begin with their first row; leave it out"

    @property
    def length(self) -> int:
        """How many seconds a window has, or a session of a single row."""
        return self.seconds or self.gap_seconds or 0

    @property
    def slide(self) -> int:
        """How many seconds lie between the beginnings of two."""
        return self.slide_seconds or self.length


class Join(Group):
    """Rows of a second table, beside those of the first."""

    time: Name
    """When what its rows tell of was, as `watermark.time`."""
    within_seconds: PositiveSeconds
    """How far apart in time two rows may be."""
    on: Name
    """Which rows belong together, such as `this.ad = other.ad`."""
    how: Literal["inner", "left"] = "inner"
    """What becomes of a row of the first table that has none: `inner`, nothing; `left`, it is there by itself."""


class Stream(Group):
    """Rows that are added, each once."""

    watermark: Watermark | None = None
    """Which time rows have, and how late they may come. Without it there are no windows and no join, and rows are taken as they come."""
    window: Window | None = None
    """Makes a row a window and group: `window_start`, `window_end`, what `by` says, and `columns`, which are aggregates then."""
    by: tuple[Name, ...] = ()
    """What rows of a window are grouped by: columns, or expressions with a name, such as `lower(city) AS city`."""
    columns: Annotated[Mapping[Name, Name], Field(min_length=1)]
    """The columns, by their names, in Spark SQL: of the table's own `this.column`, or `column` where only one table has it; of a joined one `other.column`."""
    where: Name | None = None
    """Which rows of the table count; by default all do."""
    lookup: Mapping[Name, Annotated[tuple[Name, ...], Field(min_length=1)]] = {}
    """Tables of `static` whose columns are put beside each row, with the columns that are the same in both; nulls where there is no such row."""
    join: Join | None = None
    """Has rows of the second of `inputs` put beside those of the first that are near in time. A row and what belongs to it are there once the watermark is past the time within which that may come."""
    output: Literal["append", "update", "complete"] = "append"
    """What is in the table of windows: `append`, those that are over, of which each row stays as it is; `update`, those that are not over as well, as they are so far; `complete`, all of them, worked out again of all rows each time."""

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        if self.window is not None and self.join is not None:
            yield ("join",), "write window or join; make windows of the joined table in a table of its own"
        if self.watermark is None and (self.window is not None or self.join is not None):
            yield ("watermark",), "which time have rows? write watermark: {time: ...}"
        if self.watermark is not None and self.window is None and self.join is None:
            yield (
                ("watermark",),
                "rows are taken as they come, however late; write window or join, or leave it out",
            )
        if self.window is None and self.by:
            yield ("by",), "rows are grouped within windows; write window, or leave it out"
        if self.window is None and self.output != "append":
            yield ("output",), "only rows of windows can change later; leave it out"
        if self.window is not None and self.window.slide > self.window.length:
            yield ("window", "slide_seconds"), "rows between two windows would be in none; write less"
        yield from self._wrong_names()
        for keys, text in self._expressions():
            try:
                require_lasting(text)
            except NotMergeable as error:
                yield keys, str(error)

    def _wrong_names(self) -> Iterator[Wrong]:
        used = {WINDOW_START, WINDOW_END} if self.window is not None else set[str]()
        for place, text in enumerate(self.by):
            try:
                used.add(group_of(text)[0].lower())
            except NotMergeable as error:
                yield ("by", place), str(error)
        for name in self.columns:
            if not _COLUMN.fullmatch(name):
                yield ("columns", name), "write a name of letters, digits and _ that begins with a letter"
            elif name.lower() in used:
                yield ("columns", name), "another column is called so; choose another name"
            used.add(name.lower())

    def _expressions(self) -> Iterator[tuple[Keys, str]]:
        for place, text in enumerate(self.by):
            yield ("by", place), text
        for name, text in self.columns.items():
            yield ("columns", name), text
        if self.where is not None:
            yield ("where",), self.where
        if self.watermark is not None:
            yield ("watermark", "time"), self.watermark.time
        if self.join is not None:
            yield ("join", "time"), self.join.time
            yield ("join", "on"), self.join.on

    def without_names(self) -> Iterator[tuple[Keys, str]]:
        """What it says in Spark SQL, each behind its place, without the names of groups."""
        return ((keys, group_of(text)[1] if keys[0] == "by" else text) for keys, text in self._expressions())

    @property
    def expressions(self) -> tuple[str, ...]:
        """All that may name a column of an input."""
        return (
            *(text for _, text in self._expressions()),
            *(one for on in self.lookup.values() for one in on),
        )
