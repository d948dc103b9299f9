"""What a Debezium envelope says of the row inside of it, as columns: `__` and the name that the settings have for each.

The fields are those of Debezium's own documentation (https://debezium.io/documentation/reference/stable/connectors/), which
differ by connector: `schema` is not MySQL's, and MongoDB has a `collection` where the others have a `table`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from distributary.codecs.envelope.position import POSITION_FIELDS, position

PREFIX = "__"
"""What begins the name of each column that is made of the envelope."""

POSITION = f"{PREFIX}source_position"
"""The column by which a source's changes are ordered; its texts compare as positions do."""

BEFORE = "before"

_NAMES = ("db", "schema", "table", "collection", "snapshot", "ts_ms")

SOURCE_FIELDS: tuple[str, ...] = tuple(dict.fromkeys((*_NAMES, *POSITION_FIELDS)))
"""The fields of `source` that are looked at."""

# The first and the last millisecond that have a date in four digits.
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999

_TIME = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class Said:
    """What some envelopes say, a row each.

    op      what became of the row: c, u, d or r
    ts      when the connector took the change, in milliseconds, as text
    source  the fields of `source` as texts; one that none has may be left out
    before  the row as it was before, for the column of it; None where there is none
    """

    op: pa.StringArray
    ts: pa.StringArray
    source: Mapping[str, pa.StringArray]
    before: pa.Array | None = None

    def of(self, name: str) -> pa.StringArray:
        """A field of `source`."""
        found = self.source.get(name)
        return pa.nulls(len(self.op), pa.string()) if found is None else found

    def some(self, rows: npt.NDArray[np.int64]) -> Said:
        """What these of them say."""
        if len(rows) == len(self.op):
            return self
        places = pa.array(rows)
        source = {name: values.take(places) for name, values in self.source.items()}
        before = None if self.before is None else self.before.take(places)
        return Said(self.op.take(places), self.ts.take(places), source, before)


def _time(millis: pa.StringArray) -> pa.Array:
    """Milliseconds as times; null for what no table holds."""
    whole = pc.if_else(pc.match_substring_regex(millis, r"^-?[0-9]{1,15}$"), millis, None).cast(pa.int64())
    held = pc.if_else(
        pc.and_(pc.greater_equal(whole, _FIRST), pc.less_equal(whole, _LAST)),
        whole,
        pa.scalar(None, pa.int64()),
    )
    return pc.multiply(held, 1000).cast(_TIME)


def _table(said: Said) -> pa.StringArray:
    table = said.of("table")
    return pc.coalesce(pc.if_else(pc.equal(table, ""), None, table), said.of("collection"))


_COLUMNS: Mapping[str, tuple[pa.DataType, Callable[[Said], pa.Array]]] = {
    "op": (pa.string(), lambda said: said.op),
    "ts": (_TIME, lambda said: _time(said.ts)),
    "source_ts": (_TIME, lambda said: _time(said.of("ts_ms"))),
    "source_db": (pa.string(), lambda said: said.of("db")),
    "source_schema": (pa.string(), lambda said: said.of("schema")),
    "source_table": (pa.string(), _table),
    "source_snapshot": (pa.string(), lambda said: said.of("snapshot")),
}

RESERVED: frozenset[str] = frozenset({POSITION, *(f"{PREFIX}{name}" for name in (BEFORE, *_COLUMNS))})
"""The names that no field of a row may have, whatever its case: Spark takes them for one."""


def fields(keep: Sequence[str], before: pa.DataType | None) -> list[pa.Field]:
    """The columns that come beside a row's; `before` is the type of the row as it was, where the envelope has one."""
    found = [pa.field(f"{PREFIX}{name}", _COLUMNS[name][0]) for name in keep if name in _COLUMNS]
    if BEFORE in keep and before is not None:
        found.append(pa.field(f"{PREFIX}{BEFORE}", before))
    return [*found, pa.field(POSITION, pa.string())]


def arrays(said: Said, keep: Sequence[str]) -> list[pa.Array]:
    """The same filled."""
    found = [_COLUMNS[name][1](said) for name in keep if name in _COLUMNS]
    if BEFORE in keep and said.before is not None:
        found.append(said.before)
    return [*found, position(said.of)]


def beside(said: Said, keep: Sequence[str]) -> pa.RecordBatch:
    """What is said and is no column; conditions and routes may name it."""
    names = [name for name in _COLUMNS if name not in keep]
    whole = pa.schema([pa.field(f"{PREFIX}{name}", _COLUMNS[name][0]) for name in names])
    return pa.RecordBatch.from_arrays([_COLUMNS[name][1](said) for name in names], schema=whole)


def named(said: Said, name: str) -> pa.Array | None:
    """What is said by the name of a column; None where nothing is called so."""
    known = _COLUMNS.get(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else None
    return None if known is None else known[1](said)
