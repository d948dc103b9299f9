"""What the driver knows of the sink's tables, kept between batches and looked at again only where one has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.sql import SparkSession

from distributary.errors import PipelineError
from distributary.ingest.columns.layout import Layout
from distributary.ingest.kafka.columns import payload_layout
from distributary.ingest.pins import PinnedTable
from distributary.ingest.settings.groups import Columns
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.log import has_log, is_newest
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.state import TableState, fixed_columns, read_state

# The table property that says which value of the routing field a table is for.
ENTITY_PROPERTY = "distributary.entity"


class TableBook:
    """States of tables by their folder under the root."""

    def __init__(
        self,
        root: str,
        columns: Columns,
        spark: SparkSession | None,
        threads: int,
        native: NativeCommits | None = None,
    ) -> None:
        """`native` commits to the same tables, so that each is opened once for both.

        threads  how many tables are looked at, changed or committed side by side
        """
        self.root, self._columns, self._spark, self.threads = root, columns, spark, threads
        self._native = native or NativeCommits()
        self._by_spark: dict[str, TableState | None] = {}
        self._layouts: dict[Layout, Layout] = {}

    def path(self, folder: str) -> str:
        """Where a table is."""
        return f"{self.root}/{folder}"

    def entities_there(self) -> dict[str, str]:
        """Entities whose tables are there already, made by an earlier checkpoint, and their folders."""
        folders = files_at(self.root).folders()
        states = self.states(folder for folder in folders if not folder.startswith((".", "_")))
        named = {folder: state.properties.get(ENTITY_PROPERTY) for folder, state in states.items()}
        return {entity: folder for folder, entity in named.items() if entity is not None}

    def pinned(self, entities: Mapping[str, str]) -> dict[str, PinnedTable]:
        """The tables, by folder, of these entities (`entity -> folder`); without those that are not there."""
        folders = {folder: entity for entity, folder in entities.items()}
        return {
            folder: PinnedTable(
                folders[folder],
                self._shared(payload_layout(self._columns, state.layout)),
                fixed_columns(state),
            )
            for folder, state in self.states(folders).items()
        }

    def readable(self, entities: Mapping[str, str]) -> tuple[dict[str, PinnedTable], dict[str, str]]:
        """The same without Spark: the tables that delta-rs can open, and why it cannot open the others."""
        try:
            return self.pinned(entities), {}
        except PipelineError:
            found: dict[str, PinnedTable] = {}
            failed: dict[str, str] = {}
            for entity, folder in entities.items():
                try:
                    found |= self.pinned({entity: folder})
                except PipelineError as error:
                    failed[folder] = str(error)
            return found, failed

    def _shared(self, layout: Layout) -> Layout:
        """One object for all tables of the same columns, which a thousand tables' pins then hold once."""
        return self._layouts.setdefault(layout, layout)

    def states(self, folders: Iterable[str]) -> dict[str, TableState]:
        """The present states of those of these tables that are there."""
        found = {folder: self._native.known(self.path(folder)) for folder in folders}
        unknown = [folder for folder, state in found.items() if state is None and has_log(self.path(folder))]
        if unknown:
            with ThreadPoolExecutor(min(self.threads, len(unknown))) as pool:
                found.update(zip(unknown, pool.map(self._look, unknown), strict=True))
        return {folder: state for folder, state in found.items() if state is not None}

    def created(self, state: TableState) -> None:
        """Take note of a table that was just made."""
        self._native.created(state)

    def _look(self, folder: str) -> TableState | None:
        path = self.path(folder)
        try:
            return self._native.state(path)
        except TableNotFoundError:
            return None
        except DeltaError:
            return self._look_by_spark(path)

    def _look_by_spark(self, path: str) -> TableState | None:
        """A table that delta-rs cannot open is read by Spark, which takes long, and only when its log has grown."""
        state = self._by_spark.get(path)
        if state is None or not is_newest(path, state.version):
            state = self._by_spark[path] = read_state(path, self._spark)
        return state
