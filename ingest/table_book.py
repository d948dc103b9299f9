"""What the driver knows of the sink's tables, kept between batches and looked at again only where one has changed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.sql import SparkSession

from distributary.ingest.kafka_columns import payload_layout
from distributary.ingest.native_commit import NativeCommits
from distributary.ingest.pins import PinnedTable
from distributary.ingest.setting_groups import Columns
from distributary.ingest.tables import TableState, read_state

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
        """`native` commits to the same tables, so that each is opened once for both."""
        self._root, self._columns, self._spark, self._threads = root, columns, spark, threads
        self._native = native or NativeCommits()
        self._states: dict[str, TableState] = {}
        self._layouts: dict[bytes, pa.Schema] = {}

    def path(self, folder: str) -> str:
        """Where a table is."""
        return f"{self._root}/{folder}"

    def entities_there(self) -> dict[str, str]:
        """Entities whose tables are there already, made by an earlier checkpoint, and their folders."""
        if not os.path.isdir(self._root):
            return {}
        with os.scandir(self._root) as entries:
            folders = sorted(
                entry.name for entry in entries if entry.is_dir() and not entry.name.startswith((".", "_"))
            )
        states = self.states(folders)
        named = {folder: state.properties.get(ENTITY_PROPERTY) for folder, state in states.items()}
        return {entity: folder for folder, entity in named.items() if entity is not None}

    def pinned(self, entities: Mapping[str, str]) -> dict[str, PinnedTable]:
        """The tables, by folder, of these entities (`entity -> folder`); without those that are not there."""
        folders = {folder: entity for entity, folder in entities.items()}
        return {
            folder: PinnedTable(folders[folder], self._shared(payload_layout(self._columns, state.layout)))
            for folder, state in self.states(folders).items()
        }

    def _shared(self, layout: pa.Schema) -> pa.Schema:
        """One object for all tables of the same columns: what is worked out for one holds for a thousand."""
        return self._layouts.setdefault(layout.serialize().to_pybytes(), layout)

    def states(self, folders: Iterable[str]) -> dict[str, TableState]:
        """The present states of those of these tables that are there."""
        wanted = list(dict.fromkeys(folders))
        stale = [folder for folder in wanted if self._is_stale(folder)]
        if len(stale) == 1:
            self._read(stale[0])
        elif stale:
            with ThreadPoolExecutor(self._threads) as pool:
                list(pool.map(self._read, stale))
        return {folder: self._states[folder] for folder in wanted if folder in self._states}

    def forget(self, folders: Iterable[str]) -> None:
        """Look at these again when they are next asked for."""
        for folder in folders:
            self._states.pop(folder, None)

    def created(self, folder: str, handle: DeltaTable) -> None:
        """Take note of a table that was just made."""
        self._native.created(self.path(folder), handle)
        self._states[folder] = self._native.state(self.path(folder))

    def committed(self, folder: str) -> None:
        """Note that this run made one commit which changed no column: then nothing needs to be read again."""
        state = self._states.get(folder)
        if state is not None and self._is_newest(folder, state.version + 1):
            self._states[folder] = replace(state, version=state.version + 1)

    def _is_stale(self, folder: str) -> bool:
        """A commit by anybody, ours too, leaves the next file in the log; looking for it costs microseconds."""
        state = self._states.get(folder)
        if state is None:
            return os.path.isdir(f"{self.path(folder)}/_delta_log")
        return not self._is_newest(folder, state.version)

    def _is_newest(self, folder: str, version: int) -> bool:
        log = f"{self.path(folder)}/_delta_log"
        return os.path.exists(f"{log}/{version:020d}.json") and not os.path.exists(
            f"{log}/{version + 1:020d}.json"
        )

    def _read(self, folder: str) -> None:
        state = self._state(self.path(folder))
        if state is None:
            self._states.pop(folder, None)
        else:
            self._states[folder] = state

    def _state(self, path: str) -> TableState | None:
        try:
            return self._native.state(path)
        except TableNotFoundError:
            return None
        except DeltaError:
            return read_state(path, self._spark)
