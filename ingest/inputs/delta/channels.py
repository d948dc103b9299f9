"""Delta tables as a source: a table is a topic of one partition, and a batch is whole versions of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.sql import DataFrame, SparkSession

from distributary.codecs.types.spark_struct import struct_json
from distributary.errors import CheckpointMismatch, ConfigError, SetupError
from distributary.ingest.inputs.by_ranges import ByRanges
from distributary.ingest.inputs.delta.rows import no_records, records_of
from distributary.ingest.inputs.delta.versions import CHANGE, DELETED, RowsFile, TableLog, gone
from distributary.ingest.kafka.offsets import Offsets, Positions
from distributary.ingest.merge.columns import at_once
from distributary.ingest.reshaping.rule import NOTHING_BESIDE, Beside
from distributary.ingest.settings.groups import Route, Source
from distributary.ingest.settings.source.delta import VERSION_BITS, DeltaTables
from distributary.ingest.source.contract import Channels
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.tables.handle import is_there, opened
from distributary.ingest.tables.state import state_of

_PLACE_OF_ALL = "delta"


class Tables:
    """The tables that a pipeline reads."""

    holder = "Delta"

    def __init__(self, given: DeltaTables, storage: StorageOptions) -> None:
        """Nothing is asked yet."""
        places = {topic: open_files(place, storage) for topic, place in given.topics().items()}
        self.logs = {topic: TableLog(place, given.read == "changes") for topic, place in places.items()}

    def close(self) -> None:
        """There is nothing to let go of."""

    def cluster_id(self) -> str:
        """A table is itself by its own id, wherever it lies."""
        return _PLACE_OF_ALL

    def topic_ids(self) -> dict[str, str]:
        """The id that each table was made with. Raises SetupError for one that is not there."""
        found = {}
        for topic, log in self.logs.items():
            if not is_there(log.place):
                raise SetupError(
                    f"there is no Delta table in {log.place} (source.delta.paths); make it, or correct the path"
                )
            found[topic] = str(_handle(log.place).metadata().id)
        return found

    def was_away(self) -> bool:
        """A place that does not answer is told of by whoever reads it."""
        return False

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
        for topic, log in self.logs.items():
            if (first := log.first()) > 0:
                raise ConfigError(
                    f"the log of {log.place} begins with version {first}: retention took those before, and their rows could not be told from "
                    f"later ones. Write source.delta.starting_version: {first} to read topic {topic} from there on, without the rows of before"
                )
        return self.earliest_offsets()

    def earliest_offsets(self) -> Positions:
        """The first version that each log still has."""
        return {topic: {0: log.first() << VERSION_BITS} for topic, log in self.logs.items()}

    def end_offsets(self) -> Positions:
        """Behind the newest version."""
        return {topic: {0: log.behind_newest() << VERSION_BITS} for topic, log in self.logs.items()}

    def ends(self) -> Positions:
        """The same: what is in the log everybody sees."""
        return self.end_offsets()

    def offsets_from(self, milliseconds: int) -> Positions:
        """The first version of each table that was committed at this time or later."""
        found: Positions = {}
        for topic, log in self.logs.items():
            low, high = log.first(), log.behind_newest()
            end = high
            while low < high:
                middle = (low + high) // 2
                low, high = (low, middle) if log.millis(middle) >= milliseconds else (middle + 1, high)
            if low < end:
                found[topic] = {0: low << VERSION_BITS}
        return found

    def lag(self, read: Mapping[str, Mapping[int, int]], ends: Positions | None = None) -> Positions:
        """How many rows are still to be read of each table."""
        found: Positions = {}
        for topic, log in self.logs.items():
            begin = read.get(topic, {}).get(0, 0) >> VERSION_BITS
            end = log.behind_newest() if ends is None else ends.get(topic, {}).get(0, 0) >> VERSION_BITS
            found[topic] = {0: sum(map(log.rows, range(max(begin, log.first()), end)))}
        return found

    def columns(self, ends: Positions | None = None) -> str | None:
        """The columns of all tables together, those of one name as the first has them, as of these ends, or of now."""
        layouts = [
            self.layout(topic, None if ends is None else ends[topic][0])
            for topic in (self.logs if ends is None else ends)
        ]
        return struct_json(reduce(_and_columns_of, map(_named_by_text, layouts)))

    def schemas(self) -> None:
        """Rows name none."""

    def layout(self, topic: str, end: int | None = None) -> pa.Schema:
        """A table's columns, as of before this offset, or of now."""
        log = self.logs[topic]
        version = log.behind_newest() - 1 if end is None else (end - 1) >> VERSION_BITS
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
            return state.layout
        if CHANGE in state.layout.names:
            raise ConfigError(f"{log.place} has a column {CHANGE} itself; write source.delta.read: appends")
        return state.layout.append(pa.field(CHANGE, pa.string()))

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
        files = [file for version in range(first, behind) for file in log.files(version)]
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
        frames = [
            records_of(
                self.spark, topic, log.place, some, self.tables.layout(topic, version << VERSION_BITS), ends
            )
            for version, some in by_columns.items()
        ]
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
        log, rows, at = self.tables.logs[topic], 0, begin
        while at < end:
            version = at >> VERSION_BITS
            rows += log.rows(version)
            if at > begin and (rows > most or log.has_columns_of_its_own(version)):
                break
            at = min(end, (version + 1) << VERSION_BITS)
        return at

    def warm_up(self, channels: Channels) -> None:
        """Nothing needs to be loaded."""


@contextmanager
def open_tables(given: DeltaTables, storage: StorageOptions) -> Iterator[Tables]:
    """The tables, until the block ends. Raises SetupError for one that is not there."""
    tables = Tables(given, storage)
    tables.topic_ids()
    yield tables


def _handle(place: Files) -> DeltaTable:
    with _told(place):
        return opened(place)


@contextmanager
def _told(place: Files) -> Iterator[None]:
    try:
        yield
    except TableNotFoundError:
        raise SetupError(
            f"there is no Delta table in {place} (source.delta.paths); make it, or correct the path"
        ) from None
    except DeltaError as error:
        why = " ".join(str(error).split())
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
