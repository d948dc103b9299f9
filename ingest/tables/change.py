"""Step 5 of a batch: which tables must be created or get columns, and doing so."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from distributary.ingest.kafka_columns import kafka_fields, table_schema
from distributary.ingest.layout import Change, changes
from distributary.ingest.ledger import (
    BATCHES_SCHEMA,
    BATCHES_TABLE,
    CHANGES_SCHEMA,
    CHANGES_TABLE,
    QUARANTINE_SCHEMA,
    QUARANTINE_TABLE,
)
from distributary.ingest.pins import Coordinates, PinnedTable
from distributary.ingest.setting_groups import Columns
from distributary.ingest.settle import Settled
from distributary.ingest.table_book import ENTITY_PROPERTY, TableBook
from distributary.ingest.table_schema import misfits
from distributary.ingest.tables import TableState, create, evolve

OWN_TABLES: Mapping[str, pa.Schema] = {
    QUARANTINE_TABLE: QUARANTINE_SCHEMA,
    BATCHES_TABLE: BATCHES_SCHEMA,
    CHANGES_TABLE: CHANGES_SCHEMA,
}


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A table that is new to the pipeline, or gets columns or wider ones: which, by which schema, and where first met."""

    folder: str
    entity: str
    new: bool
    added: tuple[Change, ...]
    schema_id: int | None
    first: Coordinates | None

    @property
    def widens(self) -> bool:
        """Whether a column that was there becomes wider."""
        return any(change.kind == "widened" for change in self.added)


def planned_changes(settled: Settled, known: Mapping[str, PinnedTable]) -> list[PlannedChange]:
    """What becomes of the tables that this batch writes to; nothing where every column is there already."""
    entities = {
        written.file.table: written.entity for written in settled.report.files if written.entity is not None
    }
    growths = {growth.table: growth for growth in settled.report.growths}
    found = []
    added: dict[tuple[int, int], tuple[Change, ...]] = {}
    for folder, layout in settled.layouts.items():
        before = known[folder].layout if folder in known else pa.schema([])
        key = (id(before) if folder in known else 0, id(layout))
        if key not in added:
            added[key] = tuple(changes(before, layout))
        if folder in known and not added[key]:
            continue
        growth = growths.get(folder)
        found.append(
            PlannedChange(
                folder,
                entities[folder],
                folder not in known,
                added[key],
                growth.schema_id if growth else None,
                growth.first if growth else None,
            )
        )
    return found


class TableChanger:
    """Makes tables what they must be; all of it can be done again without harm."""

    def __init__(self, tables: TableBook, spark: SparkSession | None, columns: Columns, threads: int) -> None:
        self._tables, self._spark, self._columns, self._threads = tables, spark, columns, threads

    def apply(
        self,
        planned: Sequence[PlannedChange],
        layouts: Mapping[str, pa.Schema],
        properties: Mapping[str, str],
    ) -> None:
        """Create or extend the tables planned for and those without one of Kafka's columns; our own where they are missing."""
        # A thousand tables share a few layouts, which their ids tell apart.
        schemas = {id(layout): table_schema(self._columns, layout) for layout in layouts.values()}
        wanted = {
            change.folder: (
                schemas[id(layouts[change.folder])],
                {**properties, ENTITY_PROPERTY: change.entity},
            )
            for change in planned
        }
        there = self._tables.states(OWN_TABLES)
        own = {
            folder: (schema, properties)
            for folder, schema in OWN_TABLES.items()
            # Those that an earlier version made get the columns that were not kept then.
            if folder not in there or any(misfits(there[folder].layout, schema))
        }
        self._make(
            {**self._short_of_kafka(layouts), **wanted, **own},
            {change.folder for change in planned if change.widens},
        )

    def _short_of_kafka(self, written: Iterable[str]) -> dict[str, tuple[pa.Schema, Mapping[str, str]]]:
        """Those of these tables that were made before the settings asked for a column such as the key's text."""
        fields = pa.schema(kafka_fields(self._columns))
        return {
            folder: (fields, {})
            for folder, state in self._tables.states(written).items()
            if not set(fields.names) <= set(state.layout.names)
        }

    def _make(
        self, wanted: Mapping[str, tuple[pa.Schema, Mapping[str, str]]], widened: Collection[str]
    ) -> None:
        there = self._tables.states(wanted)
        made: dict[int, TableState] = {}  # by the id of their columns, which several tables share

        def make(folder: str) -> None:
            schema, properties = wanted[folder]
            if folder not in there:
                state = create(self._tables.path(folder), schema, properties, made.get(id(schema)))
                if state is not None:
                    made[id(schema)] = state
                    self._tables.created(state)
            elif any(misfits(there[folder].layout, schema)):
                evolve(self._tables.path(folder), schema, self._spark, widen=folder in widened)

        with ThreadPoolExecutor(self._threads) as pool:
            list(pool.map(make, wanted))
