"""Tables with one row a key at a time, seen from outside: whether a key has several, which no other table can be asked."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from deltalake import DeltaTable

from distributary.ingest.columns.layout import is_own
from distributary.ingest.columns.single_values import value_at, value_path
from distributary.ingest.merge.key_index import KeyIndex
from distributary.ingest.merge.ranks import ranks
from distributary.ingest.settings.groups import Columns
from distributary.ingest.settings.upserts import Upsert
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.known import UPSERT_PROPERTY
from distributary.ingest.tables.state import state_of


@dataclass(slots=True)
class KeysMet:
    """The keys of a table's rows, all held in memory.

    bounds  the columns of the moments between which each row is true; none where a key has one row at all
    """

    paths: tuple[tuple[str, ...], ...]
    columns: Columns
    bounds: tuple[str, ...] = ()
    _parts: list[pa.Table] = field(default_factory=list)

    @classmethod
    def of(cls, table: DeltaTable, place: Files, columns: Columns) -> KeysMet | None:
        """Those of a table of which none is met yet; None of a table to which each row is added."""
        told = table.metadata().configuration.get(UPSERT_PROPERTY)
        if told is None:
            return None
        layout, upsert = state_of(table, place).layout, Upsert.from_json(json.loads(told))
        paths = [value_path(layout, name) for name in upsert.keys]
        bounds = tuple(column.name for column in layout if is_own(column))[:2]
        return cls(tuple(path for path in paths if path is not None), columns, bounds)

    def add(self, rows: pa.RecordBatch) -> None:
        """Take note of the keys of these rows."""
        found = [value_at(rows, path) for path in self.paths] or [self._own(rows)]
        found += [rows.column(name) for name in self.bounds]
        found = [_plain(values) for values in found]
        self._parts.append(pa.table(found, names=[str(number) for number in range(len(found))]))

    def twice(self) -> int:
        """How many rows have the key of another one; that is true at the same time, where rows say when they are."""
        if not self._parts:
            return 0
        whole = pa.concat_tables(self._parts)
        if self.bounds:
            return _overlapping(whole)
        return int(whole.num_rows - whole.group_by(whole.column_names).aggregate([]).num_rows)

    @property
    def meaning(self) -> str:
        """What is wrong with such rows."""
        if self.bounds:
            return (
                "are true while another one of their key is, or never, and of each key one is to be at a time"
            )
        return "have the key of another one, and each key is to have one"

    def _own(self, rows: pa.RecordBatch) -> pa.Array:
        """The records' own keys: as text where they are decoded, so that a key of two schemas is one."""
        name, text = self.columns.kafka_key, self.columns.key_text
        if text is None or text not in rows.schema.names:
            return rows.column(name)
        return pc.coalesce(rows.column(text).cast(pa.binary()), rows.column(name))


def _plain(values: pa.Array) -> pa.Array:
    """Values as Arrow compares them: delta-rs gives texts and bytes as views, which it does not."""
    if kinds.is_string_view(values.type):
        return values.cast(pa.string())
    return values.cast(pa.binary()) if kinds.is_binary_view(values.type) else values


def _overlapping(rows: pa.Table) -> int:
    """Of rows whose last two columns are their bounds how many begin before the one of their key before them ended, or end before they begin."""
    *keys, since, until = rows.columns
    codes, begins, ends = KeyIndex(keys).own, ranks(since), ranks(until)
    for_ever = until.is_null().to_numpy()
    never = ~for_ever & (ends <= begins)
    by = np.lexsort((begins, codes))
    same = codes[by][1:] == codes[by][:-1]
    over = same & (for_ever[by][:-1] | (ends[by][:-1] > begins[by][1:]))
    return int((np.append(over, False) | never[by]).sum())
