"""One table's part of a batch as a Delta transaction, and what is true of it however it is committed."""

from __future__ import annotations

import json
import time
from collections.abc import Container, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import pyarrow as pa
from deltalake.exceptions import TableNotFoundError

from distributary.errors import CommitImpossible, TableAhead
from distributary.ingest.columns.differences import differences
from distributary.ingest.columns.safe_names import MEMORY_SUFFIX
from distributary.ingest.merge.entry import FILES, digest
from distributary.ingest.merge.rule import MergeRule, memory_folder, memory_schema
from distributary.ingest.parquet.data_file import DataFile, partitions_of
from distributary.ingest.storage.contract import Files, Info
from distributary.ingest.storage.opening import At
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log import commit_of, version_of

# What a commit says of itself, beside what Delta has fields for.
GENERATION, LINEAGE = "distributary.generation", "distributary.lineage"

# The property by which a table forgets transactions that are older than this.
FORGETS = "delta.setTransactionRetentionDuration"

BATCH, OFFSETS = "distributary.batch_id", "distributary.offsets"

ERASURE = "distributary.erasure"
"""In a commit: the erasure that it is a part of."""

_REPLAY, _RESET = "replay", "reset"


def app_of_replays(generation: str) -> str:
    """The application that the replays of a generation commit by, each under a number of its own."""
    return f"{generation}/{_REPLAY}"


def app_of_resets(generation: str) -> str:
    """The application that the resets of a generation empty tables by, each under a number of its own."""
    return f"{generation}/{_RESET}"


def is_of_replay(app_id: str) -> bool:
    """Whether an application commits replays, or resets, whose numbers are no batches'; earlier versions had another one for each of them."""
    return app_id.partition("/")[2].partition("/")[0] in {_REPLAY, _RESET}


def is_of_batch(app_id: str, *generations: str) -> bool:
    """Whether an application commits batches of one of these generations."""
    return app_id.partition("/")[0] in generations and not is_of_replay(app_id)


class TakesNoFiles(CommitImpossible):
    """A table that takes rows alone, by Spark's writer: files as they are were decided for it before somebody altered it."""


class LacksColumns(CommitImpossible):
    """A table that lacks columns which its files have, and contradicts none."""


class LacksPartitions(LacksColumns):
    """A table with all columns of its files, which merges rows, has none yet, and is not in the partitions that they are in."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """What makes a repeat of a commit harmless.

    app_id    the application's id, which no other log has
    batch_id  the transaction's version
    metadata  what the commit says of itself
    before    the newest batch that the log had before this one; None where any before it may be the table's newest
    """

    app_id: str
    batch_id: int
    metadata: Mapping[str, str] = field(default_factory=dict)
    before: int | None = None


@dataclass(frozen=True, slots=True)
class TableCommit:
    """One table's part of a batch.

    table        the table's folder, relative to the sink's root
    place        that folder, open
    files        what becomes part of the table
    schema       the files' schema
    transaction  by which it is in once
    native       by an entry in the log, not by Spark's writer
    fresh        whether its files were written for this commit just now, so that a store need not be asked for them
    merge        the rule by which its rows take the place of others; None: they are appended
    """

    table: str
    place: Files
    files: Sequence[DataFile]
    schema: pa.Schema
    transaction: Transaction
    native: bool
    fresh: bool = False
    merge: MergeRule | None = None

    @property
    def parts(self) -> tuple[TableCommit, ...]:
        """All that is committed, in this order: what remembers the deletes that are merged, if there are any, and the table."""
        deletes = None if self.merge is None else self.merge.deletes
        if self.merge is None or deletes is None or not deletes.files:
            return (self,)
        # By this no other reading goes on: what is remembered twice is one delete, and what is not merged yet is to come again.
        told = {name: told for name, told in self.metadata.items() if name not in (GENERATION, LINEAGE)}
        memory = TableCommit(
            table=memory_folder(self.table),
            place=deletes.memory,
            files=deletes.files,
            schema=memory_schema(self.merge, self.schema),
            transaction=replace(self.transaction, metadata=told),
            native=True,
            fresh=self.fresh,
        )
        return memory, self

    @property
    def rows_staged(self) -> int:
        """How many rows are merged, deletes among them: where all records are remembered, each is counted there."""
        parts = self.parts if self.merge is None or self.merge.history is None else self.parts[:1]
        return sum(file.rows for part in parts for file in part.files)

    @property
    def partitions(self) -> tuple[str, ...]:
        """The columns that its files are told apart by."""
        return partitions_of(self.files)

    @property
    def app_id(self) -> str:
        """The application's id."""
        return self.transaction.app_id

    @property
    def batch_id(self) -> int:
        """The batch's number."""
        return self.transaction.batch_id

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the commit says of itself."""
        return self.transaction.metadata

    def is_in(self, newest: int | None, version: int) -> bool:
        """Whether the batch is in the table, whose newest transaction of the application at this version is `newest`; None: it has none.

        Raises TableAhead where that is of a batch that its log did not have before this one: then the log is not what filled the table.
        """
        mine = self.transaction
        if newest is None or (newest < mine.batch_id and (mine.before is None or newest <= mine.before)):
            return False
        if newest == mine.batch_id and self._is_told(version):
            return True
        # That others came since says nothing against it, as it does of a batch: what remembers deletes gets them before the table does.
        alone = is_of_replay(mine.app_id) or (newest > mine.batch_id and self.table.endswith(MEMORY_SUFFIX))
        if alone and self._told(version):
            return True
        if is_of_replay(mine.app_id):
            raise self.ahead("what a later replay gave it")
        what = (
            f"batch {newest} already"
            if newest != mine.batch_id
            else f"a batch {newest} of other offsets or files"
        )
        raise self.ahead(what)

    def ahead(self, what: str) -> TableAhead:
        """The error for a table that has something already which its log only now comes to."""
        if is_of_replay(self.app_id):
            return TableAhead(
                f"table {self.place} has {what}, and its log does not tell of this one, {self.batch_id}: the checkpoint was put back from an older "
                "copy, or a copy of it is run somewhere else"
            )
        return TableAhead(
            f"table {self.place} has {what}, and this log only now comes to batch {self.batch_id}: its checkpoint was put back "
            "from an older copy, or a copy of it is run somewhere else. Run one alone; where the newest one is gone, go on with a new "
            "checkpoint and `start: from_tables`"
        )

    def is_forgotten(self, properties: Container[str], version: int) -> bool:
        """Whether the batch is in though the table says nothing of it, as one of these properties may do after some time.

        Raises CommitImpossible where nobody can tell: to commit again would double rows of files that were compacted meanwhile.
        """
        if FORGETS not in properties:
            return False
        found, certain = version_of(self.place, version, self.app_id, self.batch_id)
        if not certain:
            raise self.impossible(
                f"it has the property {FORGETS}, by which it forgets what it was given, and its log does not tell any more "
                f"whether they are in. Look for them in the table, and `ALTER TABLE ... UNSET TBLPROPERTIES ('{FORGETS}')` if they are not"
            )
        return found is not None

    def _is_told(self, version: int) -> bool:
        """Whether the commit of this number is this batch's; one that nobody has any more is not doubted."""
        return self._told(version) is not False

    def _told(self, version: int) -> bool | None:
        """The same; None where nobody has it any more.

        By its files, too, since a sweep leaves none that the batch does not name; Spark's writer, by which the table may have been
        filled although its files were decided otherwise, has files of its own.
        """
        found = commit_of(self.place, version, self.app_id, self.batch_id)
        if found is None:
            return None
        info, files = found
        told = told_by(info)
        same = not self.native or told is not info or self._is_of(told, files.keys())
        return same and _offsets(told) == _offsets(self.metadata)

    def _is_of(self, told: Mapping[str, Any], names: AbstractSet[str]) -> bool:
        """Whether a commit is of this one's files: of a merge some may have no row left, and others come with it."""
        mine = {file.name for file in self.files}
        return names == mine if self.merge is None else told.get(FILES) == digest(mine)

    def impossible(self, why: str) -> CommitImpossible:
        """The error for a table that can never take its files of this batch."""
        return CommitImpossible(
            f"table {self.place} cannot take its files of batch {self.batch_id}: {why}. Put that right and run again, "
            "or let `distributary resolve` decide what becomes of them",
            (self.table,),
        )

    def takes_no_files(self, why: str) -> TakesNoFiles:
        """The error for a table that takes no files as they are any more."""
        told = self.impossible(f"it does not take files as they are any more ({why})")
        return TakesNoFiles(str(told), told.tables)

    def refuse_partitions(self, table: pa.Schema, by: Sequence[str], *, bare: bool) -> NoReturn:
        """TakesNoFiles for a table in other partitions than the files; LacksPartitions, or LacksColumns, for a `bare` one, which may get theirs."""
        told = self.takes_no_files(
            f"it is partitioned by {', '.join(by) or 'nothing'}, and they by {', '.join(self.partitions) or 'nothing'}"
        )
        if not bare:
            raise told
        self.require_columns(table)
        raise LacksPartitions(str(told), told.tables)

    def require_file(self, file: DataFile) -> Info:
        """What there is to tell of the file; CommitImpossible where it is gone or has another size than when it was written."""
        if self.fresh and self.place.remote:
            return Info(file.name, file.bytes, "", int(time.time() * 1000))
        info = self.place.info(file.name)
        if info is None:
            raise self.impossible(f"file {file.name} is gone")
        if info.size != file.bytes:
            raise self.impossible(f"file {file.name} has {info.size} bytes, not {file.bytes} as written")
        return info

    def require_columns(self, table: pa.Schema) -> None:
        """CommitImpossible where the files have columns that the table lacks or holds with another type; LacksColumns where it only lacks them."""
        if found := list(differences(table, self.schema)):
            error = self.impossible("; ".join(map(str, found)))
            raise LacksColumns(str(error), error.tables) if all(one.have is None for one in found) else error


def told_by(info: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a commit of ours says of itself, by its `commitInfo`: delta-rs keeps it beside its own fields, Spark as JSON text."""
    if GENERATION in info:
        return info
    try:
        told = json.loads(info.get("userMetadata") or "null")
    except ValueError:
        return info
    return told if isinstance(told, dict) and GENERATION in told else info


def _offsets(told: Mapping[str, Any]) -> Any:
    return json.loads(told.get(OFFSETS) or "null")


def is_in(newest: int | None, batch_id: int) -> bool:
    """Whether a batch is in a table whose newest transaction of the same application is this one; None: it has none."""
    return newest is not None and newest >= batch_id  # 0 is a version


def newest_batch(table: At, app_id: str) -> int | None:
    """The newest batch of an application in the table; None where there is none. Raises DeltaError where delta-rs cannot open it."""
    try:
        return opened(table).transaction_version(app_id)
    except TableNotFoundError:
        return None


def is_committed(table: At, app_id: str, batch_id: int) -> bool:
    """Whether the transaction (app_id, batch_id) is in the table. Raises DeltaError where delta-rs cannot open it."""
    return is_in(newest_batch(table, app_id), batch_id)
