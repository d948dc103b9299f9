"""Delta tables as a source: a table is a topic of one partition, and a batch is whole versions of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TypeVar

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.sql import DataFrame, SparkSession

from distributary.codecs.types.spark_struct import struct_json
from distributary.errors import CheckpointMismatch, ConfigError, SetupError
from distributary.ingest.inputs.by_ranges import ByRanges
from distributary.ingest.inputs.delta.rows import no_records, records_of
from distributary.ingest.inputs.delta.versions import CHANGE, DELETED, READ_AHEAD, RowsFile, TableLog, gone
from distributary.ingest.inputs.waits import Waits
from distributary.ingest.kafka.offsets import Offsets, Positions
from distributary.ingest.log_paths import LOG
from distributary.ingest.merge.columns import at_once
from distributary.ingest.reshaping.rule import NOTHING_BESIDE, Beside
from distributary.ingest.settings.groups import Route, Source
from distributary.ingest.settings.source.delta import VERSION_BITS, DeltaTables
from distributary.ingest.source.contract import Channels
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.tables.handle import is_there, opened
from distributary.ingest.tables.log import entry_tag
from distributary.ingest.tables.state import state_of
from distributary.values import without_logins

_PLACE_OF_ALL = "delta"

T = TypeVar("T")


class Tables:
    """The tables that a pipeline reads."""

    holder = "Delta"
    ends_by_itself = False

    def __init__(self, given: DeltaTables, storage: StorageOptions, waits: Waits | None = None) -> None:
        """Nothing is asked yet."""
        places = {topic: open_files(place, storage) for topic, place in given.topics().items()}
        self.logs = {topic: TableLog(place, given.read == "changes") for topic, place in places.items()}
        self._waits = waits or Waits()
        self.before = given.preimages == "delete"
        # Of each table the columns as they were asked for last, and as of which version.
        self._layouts: dict[str, tuple[int, tuple[pa.Schema, Sequence[str]]]] = {}
        # Of each table its id, by which entry of its log that is known, and up to which one.
        self._ids: dict[str, tuple[str, int, str, int]] = {}

    def close(self) -> None:
        """There is nothing to let go of."""

    def cluster_id(self) -> str:
        """A table is itself by its own id, wherever it lies."""
        return _PLACE_OF_ALL

    def topic_ids(self) -> dict[str, str]:
        """The id that each table was made with. Raises SetupError for one that is not there."""
        return self._answer(
            lambda: {topic: self._id_of(topic, log.place) for topic, log in self.logs.items()}
        )

    def was_away(self) -> bool:
        """Wait until the places of all tables answer; whether one did not at once."""
        return self._waits.were_silent(log.place for log in self.logs.values())

    def _id_of(self, topic: str, place: Files) -> str:
        if topic in self._ids:
            # A table that was made anew has another entry there, and one that is replaced in its log says anew what its columns are: it is not
            # opened for each batch.
            known, version, tag, upto = self._ids[topic]
            newest = self.logs[topic].behind_newest() - 1
            if entry_tag(place, version) == tag and self._are_still(self.logs[topic], upto, newest):
                self._ids[topic] = known, version, tag, newest
                return known
        if not is_there(place):
            raise SetupError(
                f"there is no Delta table in {place} (source.delta.paths); make it, or correct the path"
            )
        handle = _handle(place)
        found, version = str(handle.metadata().id), handle.version()
        if (tag_now := entry_tag(place, version)) is not None:
            self._ids[topic] = found, version, tag_now, version
        return found

    def _answer(self, ask: Callable[[], T]) -> T:
        return self._waits.answer(ask, (log.place for log in self.logs.values()))

    def names(self) -> tuple[str, ...]:
        """The last parts of the tables' paths."""
        return tuple(self.logs)

    def look(self) -> bool:
        """No table comes by itself."""
        return False

    def is_found(self, topic: str) -> bool:
        """None is."""
        return False

    def partitions(self) -> dict[str, Sequence[int]]:
        """One of each."""
        return dict.fromkeys(self.logs, (0,))

    def beginning(self) -> Positions:
        """The first version of each table. Raises ConfigError where its log has that no more: what it added would be left out."""
        found = self.earliest_offsets()
        for topic, log in self.logs.items():
            if first := found[topic][0] >> VERSION_BITS:
                raise ConfigError(
                    f"the log of {log.place} begins with version {first}: retention took those before, and their rows could not be told from "
                    f"later ones. Write source.delta.starting_version: {first} to read topic {topic} from there on, without the rows of before"
                )
        return found

    def earliest_offsets(self) -> Positions:
        """The first version that each log still has."""
        return self._each(TableLog.first)

    def end_offsets(self) -> Positions:
        """Behind the newest version."""
        return self._each(TableLog.behind_newest)

    def ends(self) -> Positions:
        """The same: what is in the log everybody sees."""
        return self.end_offsets()

    def offsets_from(self, milliseconds: int) -> Positions:
        """The first version of each table that was committed at this time or later."""
        found = self._answer(
            lambda: {topic: log.first_since(milliseconds) for topic, log in self.logs.items()}
        )
        return {topic: {0: at << VERSION_BITS} for topic, at in found.items() if at is not None}

    def _each(self, ask: Callable[[TableLog], int]) -> Positions:
        """Of each table the offset at which a version begins."""
        return self._answer(
            lambda: {topic: {0: ask(log) << VERSION_BITS} for topic, log in self.logs.items()}
        )

    def require_had(self, read: Positions) -> None:
        """Its ends tell."""

    def lag(self, read: Mapping[str, Mapping[int, int]], ends: Positions | None = None) -> Positions:
        """How many rows are still to be read of each table."""
        return self._answer(lambda: {topic: {0: self._left(topic, read, ends)} for topic in self.logs})

    def _left(self, topic: str, read: Mapping[str, Mapping[int, int]], ends: Positions | None) -> int:
        log, begin = self.logs[topic], read.get(topic, {}).get(0, 0) >> VERSION_BITS
        end = log.behind_newest() if ends is None else ends.get(topic, {}).get(0, 0) >> VERSION_BITS
        return log.rows(max(begin, log.first()), end) if begin < end else 0

    def columns(self, ends: Positions | None = None) -> str | None:
        """The columns of all tables together, those of one name as the first has them, as of these ends, or of now."""
        return self._answer(lambda: self._columns(ends))

    def _columns(self, ends: Positions | None) -> str:
        layouts = [
            self.layout(topic, None if ends is None else ends[topic][0])
            for topic in (self.logs if ends is None else ends)
        ]
        return struct_json(reduce(_and_columns_of, map(_named_by_text, layouts)))

    def schemas(self) -> None:
        """Rows name none."""

    def layout(self, topic: str, end: int | None = None) -> pa.Schema:
        """A table's columns, as of before this offset, or of now."""
        return self.layout_and_partitions(topic, end)[0]

    def layout_and_partitions(self, topic: str, end: int | None = None) -> tuple[pa.Schema, Sequence[str]]:
        """The same, and which of them its files are told apart by."""
        log = self.logs[topic]
        version = log.behind_newest() - 1 if end is None else max(end - 1, 0) >> VERSION_BITS
        known = self._layouts.get(topic)
        if known is None or not self._are_still(log, known[0], version):
            known = version, _layout(log, version)
        self._layouts[topic] = version, known[1]
        return known[1]

    def _are_still(self, log: TableLog, before: int, version: int) -> bool:
        """Whether the columns as of one version are those as of another: a table of many files is not opened for each batch."""
        try:
            return before <= version and not any(
                map(log.has_columns_of_its_own, range(before + 1, version + 1))
            )
        except CheckpointMismatch:
            # Some between are gone, which is no matter of this one.
            return False

    def records(
        self,
        spark: SparkSession,
        pipeline: str,
        source: Source,
        route: Route,
        beside: Beside = NOTHING_BESIDE,
    ) -> TableRecords:
        """Their rows, as this session reads them."""
        return TableRecords(spark, source, self)


@dataclass(frozen=True, slots=True)
class TableRecords(ByRanges):
    """Rows of tables, as records."""

    spark: SparkSession
    source: Source
    tables: Tables

    def range(self, offsets: Offsets) -> DataFrame:
        """The rows of whole versions. Raises CheckpointMismatch where log or files have them no more."""
        frames = [
            self._of(topic, ranges[0])
            for topic, ranges in offsets.items()
            if 0 in ranges and ranges[0][0] < ranges[0][1]
        ]
        return reduce(DataFrame.unionAll, frames) if frames else no_records(self.spark)

    def _of(self, topic: str, ends: tuple[int, int]) -> DataFrame:
        log = self.tables.logs[topic]
        first, behind = ends[0] >> VERSION_BITS, ((ends[1] - 1) >> VERSION_BITS) + 1
        files = log.files(first, behind)
        for file, info in zip(
            files, at_once(log.place, log.place.info, [one.name for one in files]), strict=True
        ):
            if info is None:
                raise gone(log.place, file.name)
        # What a version takes away has the columns of before it, which another one of the same name may have replaced.
        others = [version for version in range(first, behind) if log.has_columns_of_its_own(version)]
        by_columns: dict[int, list[RowsFile]] = {behind: []}
        for file in files:
            is_older = file.change == DELETED and file.version > log.first()
            later = bisect_right(others, file.version - is_older)
            by_columns.setdefault([*others, behind][later], []).append(file)
        frames = list[DataFrame]()
        for version, some in by_columns.items():
            columns, partitions = self.tables.layout_and_partitions(topic, version << VERSION_BITS)
            parted = [file.parted_by(partitions) for file in some]
            before = self.tables.before
            frames.append(records_of(self.spark, topic, log.place, parted, columns, ends, before=before))
        return reduce(DataFrame.unionAll, frames)

    def next_range(self, read: Positions, ends: Positions, most: int) -> Offsets:
        """Whole versions of each table, about so many rows together, and one version at the least."""
        each = max(1, most // max(1, len(read)))
        found: Offsets = {}
        for topic, numbers in read.items():
            begin, end = numbers[0], ends.get(topic, {}).get(0, numbers[0])
            found[topic] = {0: (begin, self._reached(topic, begin, end, each))}
        is_some = any(begin < end for ranges in found.values() for begin, end in ranges.values())
        return found if is_some else {}

    def _reached(self, topic: str, begin: int, end: int, most: int) -> int:
        log, rows, at, last = self.tables.logs[topic], 0, begin, ((end - 1) >> VERSION_BITS) + 1
        log.forget(begin >> VERSION_BITS)
        while at < end:
            version = at >> VERSION_BITS
            if not (version - (begin >> VERSION_BITS)) % READ_AHEAD:
                log.read_ahead(version, min(version + READ_AHEAD, last))
            rows += log.rows(version, version + 1)
            alone = log.has_columns_of_its_own(version) or log.is_refused(version)
            if at > begin and (rows > most or alone):
                break
            at = min(end, (version + 1) << VERSION_BITS)
        return at

    def warm_up(self, channels: Channels) -> None:
        """Nothing needs to be loaded."""


@contextmanager
def open_tables(given: DeltaTables, storage: StorageOptions, waits: Waits | None = None) -> Iterator[Tables]:
    """The tables, until the block ends. That one is not there is told by who asks for it: rows are made again of what was kept without them."""
    yield Tables(given, storage, waits)


def _handle(place: Files) -> DeltaTable:
    with _told(place):
        return opened(place)


def _layout(log: TableLog, version: int) -> tuple[pa.Schema, Sequence[str]]:
    """A table's columns as of a version, and which of them its files are told apart by. Raises ConfigError for a table that cannot be a source, CheckpointMismatch for a version that is gone."""
    handle = _handle(log.place)
    if handle.version() != version:
        with _told(log.place):
            handle.load_as_version(version)
    state = state_of(handle, log.place)
    if state.properties.get("delta.columnMapping.mode", "none") != "none":
        raise ConfigError(
            f"{log.place} cannot be read as a source: its files have other names for its columns (column mapping), which only Spark's reader knows"
        )
    if not log.changes:
        return state.layout, state.partitions
    if CHANGE in state.layout.names:
        raise ConfigError(f"{log.place} has a column {CHANGE} itself; write source.delta.read: appends")
    return state.layout.append(pa.field(CHANGE, pa.string())), state.partitions


@contextmanager
def _told(place: Files) -> Iterator[None]:
    try:
        yield
    except TableNotFoundError:
        raise SetupError(
            f"there is no Delta table in {place} (source.delta.paths); make it, or correct the path"
        ) from None
    except DeltaError as error:
        # Some of delta-rs' errors are those of a store that does not answer, which says so itself.
        place.has_files(LOG)
        why = without_logins(" ".join(str(error).split()))
        raise CheckpointMismatch(f"{place} cannot be read as it was at a version: {why}") from None


def _and_columns_of(first: pa.Schema, other: pa.Schema) -> pa.Schema:
    """The columns of both, wide enough for either where there is such a type, and else as the first has them."""
    for column in other:
        try:
            first = pa.unify_schemas([first, pa.schema([column])], promote_options="permissive")
        except pa.ArrowTypeError:
            # What does not fit goes where values of other types go.
            continue
    return first


def _named_by_text(schema: pa.Schema) -> pa.Schema:
    """The same with texts as the keys of maps, as JSON has them."""
    return pa.schema([pa.field(one.name, _by_text(one.type)) for one in schema])


def _by_text(dtype: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(dtype):
        return pa.struct([pa.field(one.name, _by_text(one.type)) for one in dtype])
    if pa.types.is_list(dtype):
        return pa.list_(pa.field("element", _by_text(dtype.value_type)))
    return pa.map_(pa.string(), _by_text(dtype.item_type)) if pa.types.is_map(dtype) else dtype
