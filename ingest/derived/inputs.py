"""Tables that others are made of, read by Spark's workers wherever they are: at a version, or what was added since one."""

from __future__ import annotations

import hashlib
import heapq
import json
import re
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TypeAlias
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from distributary.errors import PipelineError
from distributary.ingest.clustering.reading import rows_in
from distributary.ingest.columns.safe_names import words_of
from distributary.ingest.derived.told import Input
from distributary.ingest.log_paths import entry_path
from distributary.ingest.merge import live_files
from distributary.ingest.merge.live_files import Action
from distributary.ingest.origins.plans import marked
from distributary.ingest.spark.tasks.parts import by_parts
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log import CHANGES
from distributary.ingest.tables.state import TableState, state_of
from distributary.ingest.tables.state_by_spark import spark_schema

# Small files go to a task together, and the tasks of a large table are about as many as keep all processors busy.
_TASKS_A_SLOT = 2

# What a task reads in about as long as it takes to begin and end: tables are made current side by side.
_BYTES_A_TASK = 16 * 2**20

NamedFile: TypeAlias = tuple[str, Action]
"""A file of a table by its name, with the action that adds it."""


# What the log tells of a time is cut to so much.
_MILLISECOND = 1000

# A column of a table's own: a field within one is told of elsewhere.
_PLAIN = re.compile(r"(?:(?:this|other)\.)?(?P<name>[A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True)
class Between:
    """Times from one to another, in microseconds since 1970, both of them within, or whole `numbers`; `column` has them, where it is known that one does."""

    low: int | None
    high: int | None
    column: str | None = None
    numbers: bool = False

    def of(self, expression: str) -> Between:
        """The same, of what an expression says."""
        found = _PLAIN.fullmatch(expression.strip())
        return replace(self, column=None if found is None else found["name"])

    def may_be_in(self, add: Action) -> bool:
        """Whether a file may have a row of it."""
        try:
            told = json.loads(add.get("stats") or "{}")
            number = int if self.numbers else _micros
            low, high = (number(told.get(which, {})[self.column]) for which in ("minValues", "maxValues"))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            return True
        ends_before = self.low is not None and high + _MILLISECOND < self.low
        return not ends_before and (self.high is None or low <= self.high)


def _micros(text: str) -> int:
    """A time of a timestamp's statistics; a day's raises ValueError, and so does one without a zone, since the session's decides what it is."""
    if "T" not in text:
        raise ValueError(text)
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if moment.tzinfo is None:
        raise ValueError(text)
    return (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table that another one is made of, as of a version that a whole batch has, with those of its columns that are read; `name` is what plans call it."""

    place: Files
    state: TableState
    input: Input
    columns: pa.Schema
    name: str = ""

    def rows(self, spark: SparkSession, between: Between | None = None) -> DataFrame:
        """All of its rows at the version; files that have none of a span by what the log tells of them may be left out."""
        live = live_files.read(self.place, self.input.version)
        return self.rows_of(spark, [file for file in live if between is None or between.may_be_in(file[1])])

    def rows_of(self, spark: SparkSession, files: Sequence[NamedFile]) -> DataFrame:
        """The rows of some of its files."""
        return _read(spark, self, files)

    def is_unchanged(self, since: Input) -> bool:
        """Whether its rows are those of an earlier version, however they lie in files; or of a later one, which its log has."""
        return self._since(since) == []

    def added(self, spark: SparkSession, since: Input) -> DataFrame | None:
        """The rows that came behind an earlier version; None where that is not all that happened, or nobody can tell any more."""
        return self._came(spark, since, self._since)

    def came(self, spark: SparkSession, since: Input) -> DataFrame | None:
        """The same, with the columns that the table has now, also where it had others then."""
        return self._came(spark, since, self._whatever_columns)

    def _came(
        self, spark: SparkSession, since: Input, found: Callable[[Input], list[NamedFile] | None]
    ) -> DataFrame | None:
        files = None if since.version > self.input.version else found(since)
        return None if files is None else _read(spark, self, files)

    def _since(self, since: Input) -> list[NamedFile] | None:
        return None if since.columns != self.input.columns else self._files(since, CHANGES - {"metaData"})

    def _whatever_columns(self, since: Input) -> list[NamedFile] | None:
        # What its writers have to keep is no matter of its rows; where readers have to know its columns by other names, there is no snapshot.
        return self._files(since, frozenset())

    def _files(self, since: Input, refused: AbstractSet[str]) -> list[NamedFile] | None:
        """Those that were added since, where nothing of its rows went and no action is one of these."""
        if since.id != self.input.id:
            return None
        if not is_still(self.place, since):
            # A backup was restored, so that versions of the same numbers are others; or the log was cleaned up.
            return None
        try:
            return _added(self.place, since.version, self.input.version, refused)
        except FileNotFoundError:
            return None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which columns are read: those whose names an expression may have, or all."""

    expressions: tuple[str, ...] | None = None

    def of(self, columns: pa.Schema) -> pa.Schema:
        """Those of these columns; one at the least, since rows without any are none to Arrow."""
        if self.expressions is None:
            return columns
        words = {word for text in self.expressions for word in words_of(text)}
        return pa.schema(
            [column for column in columns if words_of(column.name) <= words] or list(columns)[:1]
        )


EVERYTHING = Wanted()


def snapshot(place: Files, version: int, wanted: Wanted = EVERYTHING) -> Snapshot:
    """A table at a version, with the columns that are wanted. Raises PipelineError where only Spark's own reader knows what its files mean."""
    handle = opened(place)
    identity = str(handle.metadata().id)
    if handle.version() != version:
        handle.load_as_version(version)
    state = state_of(handle, place)
    if state.properties.get("delta.columnMapping.mode", "none") != "none":
        raise PipelineError(
            f"no table can be made of {place}: its files have other names for its columns (column mapping), which only Spark's reader knows"
        )
    columns = wanted.of(state.layout)
    kinds = hashlib.sha256(spark_schema(columns).json().encode("utf-8", "surrogatepass")).hexdigest()
    return Snapshot(place, state, Input(identity, version, _entry_of(place, version), kinds), columns)


def is_still(place: Files, since: Input) -> bool:
    """Whether a version of a table is the one that something was made of, by its entry alone; not where that is gone."""
    return bool(since.entry) and since.entry == _entry_of(place, since.version)


def _entry_of(place: Files, version: int) -> str:
    try:
        return hashlib.sha256(place.read(entry_path(version))).hexdigest()
    except FileNotFoundError:
        return ""


def _added(place: Files, since: int, version: int, refused: AbstractSet[str]) -> list[NamedFile] | None:
    files, moved = dict[str, Action](), set[str]()
    for number in range(since + 1, version + 1):
        for action in live_files.entry(place, number):
            removed = action.get("remove")
            if removed is not None and removed.get("dataChange", True):
                return None
            if refused & action.keys():
                return None
            if removed is not None:
                moved.add(unquote(removed["path"]))
            if "add" in action and action["add"].get("dataChange", True):
                files[unquote(action["add"]["path"])] = action["add"]
    if any(place.info(name) is None for name in moved & files.keys()):
        # Upkeep brought its rows into another file, and deleted it.
        return None
    return list(files.items())


def _read(spark: SparkSession, table: Snapshot, files: Sequence[NamedFile]) -> DataFrame:
    most = min(len(files), spark.sparkContext.defaultParallelism * _TASKS_A_SLOT)
    tasks = min(most, -(-sum(map(_size, files)) // _BYTES_A_TASK))
    place, columns, name = table.place, table.columns, table.name
    return by_parts(
        spark,
        _portions(files, max(tasks, 1)),
        lambda portion: _read_by(place, portion, columns),
        spark_schema(columns),
        lambda run: marked(run, name),
    )


def _portions(files: Sequence[NamedFile], count: int) -> list[list[NamedFile]]:
    """The files in so many portions of about as many bytes."""
    portions: list[tuple[int, int, list[NamedFile]]] = [(0, number, []) for number in range(count)]
    for name, add in sorted(files, key=_size, reverse=True):
        size, number, held = heapq.heappop(portions)
        heapq.heappush(portions, (size + add["size"], number, [*held, (name, _told(add))]))
    return [held for _, _, held in portions]


def _size(file: NamedFile) -> int:
    return int(file[1]["size"])


def _told(add: Action) -> Action:
    """What a reader needs of it."""
    return {name: add[name] for name in ("size", "partitionValues", "deletionVector") if name in add}


def _read_by(place: Files, files: Sequence[NamedFile], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    for rows in rows_in(place, files, columns):
        yield from rows.to_batches(max_chunksize=2**16)
