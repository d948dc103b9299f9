"""Tables with one row a key, seen from outside: whether a key has several, which no other table can be asked."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from distributary.ingest.columns.single_values import value_at, value_path
from distributary.ingest.settings.groups import Columns
from distributary.ingest.settings.upserts import Upsert
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.known import UPSERT_PROPERTY
from distributary.ingest.tables.state import state_of


@dataclass(slots=True)
class KeysMet:
    """The keys of a table's rows, all held in memory."""

    paths: tuple[tuple[str, ...], ...]
    columns: Columns
    _parts: list[pa.Table] = field(default_factory=list)

    @classmethod
    def of(cls, table: DeltaTable, place: Files, columns: Columns) -> KeysMet | None:
        """Those of a table of which none is met yet; None of a table to which each row is added."""
        told = table.metadata().configuration.get(UPSERT_PROPERTY)
        if told is None:
            return None
        layout = state_of(table, place).layout
        paths = [value_path(layout, name) for name in Upsert.from_json(json.loads(told)).keys]
        return cls(tuple(path for path in paths if path is not None), columns)

    def add(self, rows: pa.RecordBatch) -> None:
        """Take note of the keys of these rows."""
        found = [value_at(rows, path) for path in self.paths] or [self._own(rows)]
        self._parts.append(pa.table(found, names=[str(number) for number in range(len(found))]))

    def twice(self) -> int:
        """How many rows have the key of another one."""
        if not self._parts:
            return 0
        whole = pa.concat_tables(self._parts)
        return int(whole.num_rows - whole.group_by(whole.column_names).aggregate([]).num_rows)

    def _own(self, rows: pa.RecordBatch) -> pa.Array:
        """The records' own keys: as text where they are decoded, so that a key of two schemas is one."""
        name, text = self.columns.kafka_key, self.columns.key_text
        if text is None or text not in rows.schema.names:
            return rows.column(name)
        return pc.coalesce(rows.column(text).cast(pa.binary()), rows.column(name))
