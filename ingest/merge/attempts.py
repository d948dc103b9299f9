"""Merging a batch into a table, once or as often as another writer is first: looked at, written, and taken back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from distributary.ingest import failpoints
from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.partitions import PartitionValues
from distributary.ingest.merge import live_files, vectors
from distributary.ingest.merge.entry import FILES, Merged, digest, merge_actions
from distributary.ingest.merge.live_files import Action, LiveFiles
from distributary.ingest.merge.rule import MergeRule
from distributary.ingest.merge.upsert import Marks, Merger
from distributary.ingest.parquet.data_file import DataFile, merged_mark, merged_name, owner
from distributary.ingest.parquet.split import split
from distributary.ingest.parquet.statistics import EACH_COLUMN, Fractions, Indexed, statistics
from distributary.ingest.storage.contract import Files, Info

# What is known of tables' files, some 2 kB each, is forgotten above so many of them.
_MOST_FILES = 50_000

_ROWS_A_GROUP = 100_000


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a table.

    tag  what tells its entry from another one's of the same number
    """

    place: Files
    number: int
    tag: str | None


class KnownFiles:
    """What tables consist of, from one batch to the next."""

    def __init__(self, tag_of: Callable[[Files, int], str | None]) -> None:
        """`tag_of` tells the entry of a version from another one of that number."""
        self._tag_of = tag_of
        self._known: dict[str, tuple[LiveFiles, str | None]] = {}
        # Several tables are committed to at once.
        self._lock = threading.Lock()

    def at(self, version: Version) -> LiveFiles:
        """The files of a table at a version. Raises FileNotFoundError where its log does not lead there (any more)."""
        live = self._followed(version) or live_files.read(version.place, version.number)
        self._keep(version.place, live, version.tag)
        return live

    def advance(self, version: Version, actions: Sequence[Action]) -> None:
        """Take note of a version, which follows the one that was asked for last."""
        live, _ = self._taken(version.place)
        if live is not None and live.version + 1 == version.number:
            live.follow(actions)
            self._keep(version.place, live, version.tag)

    def forget(self, url: str) -> None:
        """Take note that a table is not what it was: the entry that was noted may not be the one whose tag was seen."""
        with self._lock:
            self._known.pop(url, None)

    def _followed(self, version: Version) -> LiveFiles | None:
        """What is known, brought up to a version; None where nothing is, or another entry took the place of one that was read."""
        live, tag = self._taken(version.place)
        if live is None or tag is None or live.version > version.number:
            return None
        now = version.tag if live.version == version.number else self._tag_of(version.place, live.version)
        if now != tag:
            return None
        while live.version < version.number:
            live.follow(live_files.entry(version.place, live.version + 1))
        return live

    def _keep(self, place: Files, live: LiveFiles, tag: str | None) -> None:
        with self._lock:
            self._known[place.url] = (live, tag)
            while len(self._known) > 1 and sum(len(files) for files, _ in self._known.values()) > _MOST_FILES:
                del self._known[next(iter(self._known))]

    def _taken(self, place: Files) -> tuple[LiveFiles | None, str | None]:
        """What is known of a table, which nobody else is given until it is kept again."""
        with self._lock:
            return self._known.pop(place.url, (None, None))


class Attempts:
    """One batch on its way into one table."""

    def __init__(  # noqa: PLR0913, PLR0917 - one value each of what it knows
        self,
        place: Files,
        files: Sequence[tuple[DataFile, Info]],
        merger: Merger,
        rule: MergeRule,
        transaction: tuple[str, int],
        indexed: Indexed = EACH_COLUMN,
        partitions: Sequence[str] = (),
    ) -> None:
        """`merger` has the rows of the files.

        indexed     the columns that have bounds in the log
        partitions  those that the table is in partitions by
        """
        self._place, self._files, self._rule, self._transaction = place, files, rule, transaction
        self._merger = merger
        self._indexed, self._partitions = indexed, partitions
        self._written: list[str] = []

    def actions(
        self,
        live: LiveFiles,
        memory: LiveFiles | None,
        columns: pa.Schema,
        told: Mapping[str, str],
        engine: str,
    ) -> list[dict[str, Any]]:
        """The entry after this version, which has these columns; what it names is written. Raises KeyMoved."""
        marks = self._merger.against(live, memory, columns)
        merged = self._marked(marks)
        failpoints.reach(failpoints.AMID_MERGE, self._transaction[1])
        names = digest(file.name for file, _ in self._files)
        return merge_actions(merged, self._rule, {**told, FILES: names}, self._transaction, engine)

    def take_back(self) -> None:
        """Another writer was first: what was written for the entry is named by nobody."""
        self._place.delete(self._written)
        self._written = []

    def sweep(self) -> None:
        """Delete what earlier attempts at this batch left, now that its own entry is there: nobody can put another one any more."""
        generation, batch_id = self._made_for()
        for mark in (vectors.mark_of(generation, batch_id), merged_mark(generation, batch_id)):
            found = takewhile(partial(_begins, mark), self._place.names(after=mark))
            self._place.delete([name for name in found if name not in self._written])

    def _marked(self, marks: Marks) -> Merged:
        """The files with what marks their rows, which is written."""
        alive = [
            (file, info, rows)
            for (file, info), rows in zip(self._files, marks.staged, strict=True)
            if len(rows) < file.rows
        ]
        changed = [rows for file, rows in marks.live if len(rows) < file.rows]
        descriptors = iter(self._vectors([*changed, *(rows for _, _, rows in alive if len(rows))]))
        live = [(file, next(descriptors) if len(rows) < file.rows else None) for file, rows in marks.live]
        staged = [(file, info, next(descriptors) if len(rows) else None) for file, info, rows in alive]
        made = [file for rows in marks.made for file in self._made(rows)]
        return Merged(live, staged, made, marks.counts)

    def _made(self, rows: pa.Table) -> Iterator[tuple[DataFile, Info]]:
        """Files of rows that were made of others, one for each of their partitions, as far as there are any."""
        for whole in rows.combine_chunks().to_batches():
            for values, piece in split(whole, self._partitions):
                yield self._made_file(pa.Table.from_batches([piece]), values)

    def _made_file(self, rows: pa.Table, values: PartitionValues) -> tuple[DataFile, Info]:
        name = merged_name(*self._made_for())
        self._written.append(name)
        layout = Layout(rows.schema)
        fractions = Fractions(layout)
        fractions.take(fractions.with_nan(rows))
        with self._place.writer(name, named_later=True) as stream:
            with pq.ParquetWriter(
                stream.sink,
                rows.schema,
                compression="zstd",
                store_schema=False,
                write_statistics=fractions.told,
            ) as writer:
                writer.write_table(rows, row_group_size=_ROWS_A_GROUP)
            size = stream.tell()
        text = statistics(writer.writer.metadata, layout, self._indexed, fractions.without_nan)
        file = DataFile("", name, rows.num_rows, size, text, values)
        return file, self._place.info(name) or Info(name, size, "", int(time.time() * 1000))

    def _vectors(self, rows: Sequence[vectors.Positions]) -> Sequence[Mapping[str, Any]]:
        if not rows:
            return []
        made = vectors.vector_file(*self._made_for(), rows)
        self._place.put(made.name, made.content, named_later=True)
        self._written.append(made.name)
        return made.descriptors

    def _made_for(self) -> tuple[str, int]:
        """Whose the files are: as the names of the batch's say."""
        deletes = () if self._rule.deletes is None else self._rule.deletes.files
        found = [owner(file.name) for file in (*(file for file, _ in self._files), *deletes)]
        mark = next((mark for mark, _ in filter(None, found)), self._transaction[0])
        return mark, self._transaction[1]


def _begins(mark: str, name: str) -> bool:
    return name.startswith(mark)
