"""The rows of a table of ours, a row group at a time, without those that are only marked as gone; and where records stand, as one text."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from distributary.errors import PipelineError
from distributary.ingest.columns.safe_names import QUARANTINE_TABLE, RESOLVED_TABLE
from distributary.ingest.commit_log.owners import Whose
from distributary.ingest.merge import live_files, vectors
from distributary.ingest.merge.columns import DataColumns
from distributary.ingest.merge.found import partition_of
from distributary.ingest.merge.live_files import Action
from distributary.ingest.quarantine.chosen import LOOKED_AT
from distributary.ingest.quarantine.resolved import IDENTITY
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.ledger import QUARANTINE_SCHEMA
from distributary.ingest.tables.log import has_log
from distributary.ingest.tables.state import state_of
from distributary.values import without_logins

Wanted: TypeAlias = Callable[[Mapping[str, Any]], bool]


def _all(told: Mapping[str, Any]) -> bool:
    return True


def rows_of(place: Files, columns: pa.Schema, wanted: Wanted = _all) -> Iterator[pa.Table]:
    """A table's rows with these columns, null where it lacks one; none where there is no table.

    wanted  which files may have any that are asked for, by what the log tells of a file's values

    Raises PipelineError where it cannot be read.
    """
    if not has_log(place):
        return
    try:
        state = state_of(opened(place), place)
        for name, add in live_files.read(place, state.version):
            if wanted(_told(add)):
                yield from _of_file(place, name, add, columns)
    except (DeltaError, ValueError) as error:
        raise PipelineError(f"table {place} cannot be read: {without_logins(str(error))}") from error


def _told(add: Action) -> Mapping[str, Any]:
    told: Mapping[str, Any] = json.loads(add.get("stats") or "{}")
    return told


def _of_file(place: Files, name: str, add: Action, columns: pa.Schema) -> Iterator[pa.Table]:
    file = DataColumns(place, name, add["size"], partition_of(add))
    vector: Mapping[str, Any] | None = add.get("deletionVector")
    stays = np.ones(file.rows, dtype=bool)
    if vector is not None:
        stays[vectors.read(place, vector)] = False
    for number, first, count in file.groups():
        read = file.read(number, columns)
        here = stays[first : first + count]
        yield read if here.all() else read.filter(pa.array(here))


# Of thirty million records these are more than 2 GiB, which no array of smaller texts has room for.
TEXT = pa.large_string()


def identities(rows: pa.Table) -> pa.ChunkedArray:
    """What tells each record in quarantine from all others, as one text: by which batch it came, and where it stands in Kafka."""
    return pc.binary_join_element_wise(*(rows[name].cast(TEXT) for name in IDENTITY), pa.scalar("/", TEXT))


def of_quarantine(
    root: Files, whose: Whose, more: Sequence[str] = (), wanted: Wanted = _all
) -> Iterator[pa.Table]:
    """A pipeline's rows in quarantine, with the columns by which they are chosen, those of `IDENTITY`, more of its own, and `resolved`.

    wanted  which files may have any that are asked for, here and of what tells what became of them

    Raises PipelineError where the quarantine cannot be read.
    """
    resolved = resolved_identities(root, whose, wanted)
    names = dict.fromkeys([*IDENTITY, *LOOKED_AT, "pipeline", *more])
    columns = pa.schema([QUARANTINE_SCHEMA.field(name) for name in names])
    for rows in rows_of(root.below(QUARANTINE_TABLE), columns, wanted):
        mine = rows.filter(is_of(rows, whose))
        yield mine.append_column("resolved", pc.is_in(identities(mine), resolved))


def is_of(rows: pa.Table, whose: Whose) -> pa.ChunkedArray:
    """Which rows are a pipeline's, as `Whose.has` tells: of versions before that nobody says so of is taken for everybody's."""
    name, generation = rows["pipeline"], rows["generation"]
    named = pc.or_(pc.is_null(name), pc.fill_null(pc.equal(name, whose.name), False))
    theirs = pc.is_in(generation, _texts(whose.others))
    return pc.or_(pc.is_in(generation, _texts(whose.mine)), pc.and_not(named, theirs))


def _texts(some: Collection[str]) -> pa.Array:
    return pa.array(sorted(some), pa.string())


def resolved_identities(root: Files, whose: Whose, wanted: Wanted = _all) -> pa.Array:
    """Which of a pipeline's records in quarantine were brought back, or need not be; `wanted` says as of `of_quarantine` which files tell it. Raises PipelineError where that cannot be read."""
    columns = pa.schema([*(QUARANTINE_SCHEMA.field(name) for name in IDENTITY), ("pipeline", pa.string())])
    every = rows_of(root.below(RESOLVED_TABLE), columns, wanted)
    found = [identities(rows.filter(is_of(rows, whose))) for rows in every]
    chunks = [chunk for one in found for chunk in one.chunks]
    return pa.chunked_array(chunks, TEXT).combine_chunks() if chunks else pa.array([], TEXT)
