"""The tables that a pipeline fills, seen from outside: which there are, and their rows in a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, DeltaProtocolError
from pyarrow import dataset

from distributary.errors import PipelineError
from distributary.ingest.bronze.rule import KEEPS_PROPERTY
from distributary.ingest.columns.safe_names import OUR_NAMES, table_name
from distributary.ingest.commit_log.owners import Records, Whose
from distributary.ingest.settings.groups import Columns, NamedTable
from distributary.ingest.settings.model import Settings
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import tables_at
from distributary.ingest.storage.place import is_name
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.known import REMEMBERS_PROPERTY
from distributary.ingest.tables.log import has_log
from distributary.ingest.tables.state import table_folder
from distributary.ingest.upkeep.replayed import with_replays
from distributary.producer_sim.events.routes import Routed

# Together they bound what is read ahead of the one batch that is looked at.
BATCH_ROWS = 50_000

BATCHES_AHEAD = 2

# What reading a broken table may raise.
READ_ERRORS = (DeltaError, OSError, pa.ArrowException)


@dataclass(frozen=True, kw_only=True, slots=True)
class Lake:
    """Where the tables of a pipeline lie, what they are called, and how records find theirs, if they do.

    others  the tables of other pipelines under the same root, and the names of those
    me      whose tables are looked at; None where nobody says
    """

    root: Files
    template: str
    route: Routed = field(default_factory=Routed)
    no_entity: str | NamedTable = "quarantine"
    fold_case: bool = True
    columns: Columns = field(default_factory=Columns)
    others: Mapping[str, str] = field(default_factory=dict)
    me: Whose | None = None

    @classmethod
    def of(cls, settings: Settings) -> Lake:
        """The tables that a pipeline with these settings fills."""
        root = tables_at(settings.sink.root, settings.storage)
        _, me = Records(root).of_pipeline(settings.name)
        return cls(
            root=root,
            others=_of_others(root, me),
            me=me,
            template=settings.route.table,
            route=Routed.of(settings.route),
            no_entity=settings.policies.no_entity,
            fold_case=settings.route.fold_case,
            columns=settings.sink.columns,
        )

    def of_generation(self, generation: str) -> Lake:
        """The same, where this generation is known to be the pipeline's own."""
        if self.me is None:
            return self
        _, me = Records(self.root).of_pipeline(self.me.name, generation)
        return replace(self, me=me, others=_of_others(self.root, me))

    def with_all(self) -> Lake:
        """The same, where checkpoints of which the ledger alone tells, and replays, are known to be the pipeline's, as far as these can be read."""
        if self.me is None:
            return self
        try:
            return replace(self, me=with_replays(self.root, self.me))
        except (OSError, PipelineError):
            # Who reads them tells of it.
            return self

    def table_of(self, entity: str) -> str:
        """The folder of an entity's table."""
        return table_name(self.template, entity, self.fold_case)

    def open(self, name: str) -> DeltaTable | None:
        """A table by the name of its folder; None where there is none."""
        table = self.root.below(name)
        return opened(table) if has_log(table) else None

    def entity_tables(self) -> list[str]:
        """The folders of all entities' tables: those whose rows say where in Kafka they come from, but for remembered deletes and records as they came."""
        passing = OUR_NAMES | self.others.keys()
        folders = (name for name in self.root.folders() if name not in passing)
        # What a store has by another name is no table, and cannot be opened.
        mine = (name for name in folders if is_name(name) or not self.root.remote)
        return [name for name in mine if self._has_coordinates(name)]

    def _has_coordinates(self, name: str) -> bool:
        try:
            table = self.open(name)
        except DeltaError:
            return True  # let reading it fail, and be reported
        if table is None:
            return False
        if not {REMEMBERS_PROPERTY, KEEPS_PROPERTY}.isdisjoint(table.metadata().configuration):
            return False
        there = {part.name for part in table.schema().fields}
        return {self.columns.kafka_topic, self.columns.kafka_partition, self.columns.kafka_offset} <= there


def _of_others(root: Files, me: Whose) -> dict[str, str]:
    owners = Records(root).all()
    # Of a pipeline that got another name tables that it has not written to since still tell the one before.
    mine = me.mine | {owner.generation for owner in owners.values() if owner.pipeline == me.name}
    return {table: owner.pipeline for table, owner in owners.items() if owner.generation not in mine}


def batches(table: DeltaTable, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """A table's rows, a bounded number at a time, in columns of its newest schema."""
    chosen = None if columns is None else list(columns)
    try:
        found = table.to_pyarrow_dataset(filesystem=table_folder(table))
    except DeltaProtocolError:
        if _unknown_features(table) == {"typeWidening"}:
            yield from _scanned(_files_as_wide_as_the_table(table), chosen)
            return
        # Column mapping and deletion vectors: only the slower reader knows them.
        for batch in table.scan(columns=chosen):
            yield pa.record_batch(batch)
        return
    yield from _scanned(found, chosen)


def _scanned(found: dataset.Dataset, chosen: list[str] | None) -> Iterator[pa.RecordBatch]:
    yield from found.to_batches(
        columns=chosen, batch_size=BATCH_ROWS, batch_readahead=BATCHES_AHEAD, fragment_readahead=1
    )


def _unknown_features(table: DeltaTable) -> set[str]:
    """What one must know to read the table's files, but for a mere type of column."""
    return set(table.protocol().reader_features or []) - {"timestampNtz"}


def _files_as_wide_as_the_table(table: DeltaTable) -> dataset.Dataset:
    """The files that the log names, with the table's columns: a value written before its column became wider is cast.

    delta-rs reads the log of such a table, but not its files. A cast that would change a value raises.
    """
    names = pa.table(table.get_add_actions())["path"].to_pylist()
    types = pa.schema(table.schema().to_arrow())
    return dataset.dataset(names, schema=types, format="parquet", filesystem=table_folder(table))
