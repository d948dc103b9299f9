"""Names that a new checkpoint's settings give to columns of ours: those that fields of records have in tables that are there, and those by which nobody finds the rows of these."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Container, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from distributary.errors import ConfigError, PipelineError
from distributary.ingest.columns.layout import source_of
from distributary.ingest.columns.safe_names import CHANGES_TABLE, fold
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.handle import is_there, opened
from distributary.ingest.tables.known import ENTITY_PROPERTY, TableBook, are_named_by_text
from distributary.ingest.tables.state import TableState, table_folder
from distributary.values import without_logins

_log = logging.getLogger(__name__)

# By these rows are found, ordered and told apart.
_NAMING = ("kafka_topic", "kafka_partition", "kafka_offset", "kafka_ts", "kafka_key")


def require_free_names(tables: TableBook, folders: Collection[str]) -> None:
    """Raises ConfigError where a column of ours would be one that a field of records came with: one column would have the values of both."""
    # That of rescued values comes with records, too.
    ours = {fold(name): role for role, name in tables.columns.given() if role != "rescued"}
    for folder, column in _came_with_records(tables.place(CHANGES_TABLE), ours):
        state = tables.states([folder]).get(folder) if folder in folders else None
        if state is not None and _has(state, column) and _is_written_to(tables, folder, state):
            raise ConfigError(
                f"sink.columns.{ours[fold(column)]}: table {state.place} has a column {column} with the values of a field of its records, and rows "
                "to come would have something else there. Give it another name"
            )


def require_names_kept(tables: TableBook, folders: Collection[str]) -> None:
    """Raises ConfigError where tables say by other names than the settings where their rows came from: replays would bring these again, and keys get a second row."""
    names = dict(tables.columns.given())
    for folder, state in _states(tables, folders).items():
        # What somebody else made has none of them yet, and gets them.
        if ENTITY_PROPERTY not in state.properties or not _is_written_to(tables, folder, state):
            continue
        needed = (*_NAMING, *(("key_text",) if are_named_by_text(state.properties) else ()))
        for role in needed:
            if role in names and names[role] not in state.layout.names:
                raise ConfigError(
                    f"sink.columns.{role}: table {state.place} has no column {names[role]}, so its rows say that by another name, and nobody would "
                    "find them by this one. Write it as it was; or move the table away, or have route.table name another, and read the topics "
                    "once more with `start: again`"
                )


def _states(tables: TableBook, folders: Collection[str]) -> dict[str, TableState]:
    """What these tables are, but for those that cannot be opened, which is told where they are asked for."""
    try:
        return tables.states(folders)
    except ConnectionError:
        raise
    except (PipelineError, DeltaError, OSError):
        found = dict[str, TableState]()
    for folder in folders:
        with suppress(PipelineError, DeltaError, OSError):
            found.update(tables.states([folder]))
    return found


def _has(state: TableState, column: str) -> bool:
    """Whether a table has a field's values in the column of its name: one that was made anew since may have them elsewhere."""
    of_field = [one.name for one in state.layout if source_of(one) == column]
    return of_field == [column]


def _is_written_to(tables: TableBook, folder: str, state: TableState) -> bool:
    """Whether a table may get rows by the settings, as far as it says whose it is: its entity's may be called otherwise by now."""
    entity = state.properties.get(ENTITY_PROPERTY)
    return entity is None or tables.made_with.named(entity) == folder


def _came_with_records(changes: Files, folded: Container[str]) -> list[tuple[str, str]]:
    """The tables that got a column so called from a field of records, and how exactly it is called, as far as the ledger of changes tells."""
    try:
        return list(_told(changes, folded)) if is_there(changes) else []
    except ConnectionError:
        raise
    except (DeltaError, OSError, pa.ArrowException) as error:
        _log.warning(
            "%s does not tell which columns came with records (%s)", changes, without_logins(str(error))
        )
        return []


def _told(changes: Files, folded: Container[str]) -> Iterator[tuple[str, str]]:
    """The same by its rows, but for those of before a table was made anew."""
    ledger = opened(changes)
    batches = ledger.to_pyarrow_dataset(filesystem=table_folder(ledger)).to_batches(
        columns=["table", "column", "kind", "at", "generation", "batch_id"],
        filter=pc.field("decision") == "add",
        batch_readahead=1,
        fragment_readahead=1,
    )
    came, created = dict[tuple[Any, ...], datetime](), dict[tuple[Any, ...], datetime]()
    for batch in batches:
        names = [name for name in pc.unique(batch["column"]).drop_null().to_pylist() if fold(name) in folded]
        _note(
            came,
            max,
            batch.filter(pc.is_in(batch["column"], pa.array(names, pa.string()))),
            "table",
            "column",
        )
        # Attempts of one batch that died may each have told of some columns of a new table.
        _note(
            created, min, batch.filter(pc.equal(batch["kind"], "created")), "table", "generation", "batch_id"
        )
    made = dict[str, datetime]()
    for (folder, *_), at in created.items():
        made[folder] = max(at, made.get(folder, at))
    yield from ((folder, name) for (folder, name), at in came.items() if at >= made.get(folder, at))


def _note(
    found: dict[tuple[Any, ...], datetime],
    which: Callable[[datetime, datetime], datetime],
    rows: pa.RecordBatch,
    *by: str,
) -> None:
    for row in pa.Table.from_batches([rows]).select([*by, "at"]).to_pylist():
        of, at = tuple(row[name] for name in by), row["at"]
        found[of] = which(at, found.get(of, at))
