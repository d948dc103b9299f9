"""The day of a field that has a time, as a column of its own: so a table can be in partitions by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from distributary.codecs.types.masks import Rows
from distributary.codecs.types.walk import children
from distributary.ingest.reshaping.casts import cast, castable, unit_of
from distributary.ingest.reshaping.rule import Path, Reshape

_TIME = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class Day:
    """Where a field is, and what its values are times by.

    places  its place among the columns, and within each struct on the way
    unit    what its numbers count since 1970 began; None where they are no numbers
    """

    places: tuple[int, ...]
    unit: str | None = None

    def of(self, columns: Sequence[pa.Array]) -> tuple[pa.Array, Rows]:
        """The days in UTC, null where the field is, and the rows with a value that is no time."""
        first, *rest = self.places
        values = columns[first]
        for place in rest:
            values = pc.struct_field(values, [place])
        if kinds.is_date32(values.type):
            return values, np.empty(0, np.int64)
        local = kinds.is_timestamp(values.type) and values.type.tz is None
        times, bad = cast(values, pa.timestamp("us") if local else _TIME, self.unit)
        days = pc.floor_temporal(times, unit="day").cast(pa.timestamp("us", times.type.tz)).cast(pa.date32())
        return days, np.flatnonzero(bad)


def day_of(rule: Reshape, path: Path, record: pa.Schema) -> Day | None:
    """Where records with these columns have a field, of which the rule may say what its numbers count; None where they have none that says a day."""
    places, fields, dtype = list[int](), list(record), pa.null()
    for name in path:
        place = next((n for n, field in enumerate(fields) if field.name == name), None)
        if place is None:
            return None
        places.append(place)
        dtype = fields[place].type
        fields = list(children(dtype)) if kinds.is_struct(dtype) else []
    to = next((op.to for one, op in rule.ops if one == path and op.what == "cast"), "")
    unit = unit_of(to)
    if kinds.is_nested(dtype) or not castable(dtype, _TIME, unit):
        return None
    return Day(tuple(places), unit)
