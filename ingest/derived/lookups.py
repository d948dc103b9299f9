"""Tables that are looked up in: Delta tables of anybody's, and small files, each as it is when a round begins."""

from __future__ import annotations

import hashlib
import io
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from distributary.codecs.types.nanoseconds import in_microseconds
from distributary.errors import PipelineError
from distributary.ingest.derivation.beside import Static
from distributary.ingest.derived.inputs import Snapshot, snapshot
from distributary.ingest.derived.told import Input
from distributary.ingest.origins.plans import marked
from distributary.ingest.spark.tasks.parts import by_parts
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place
from distributary.ingest.tables.log import newest_version

# A file is read by the driver and sent to the workers whole.
_MOST_BYTES = 64 * 2**20

# A file that was changed within this time may be changed again and look the same.
_SETTLED_SECONDS = 10.0

# Beyond 128 MiB (`spark.rpc.message.maxSize`) a task is none.
_PART_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a file of rows had in it when it was read; `name` is what plans call it."""

    input: Input
    table: pa.Table
    name: str = ""

    def rows(self, spark: SparkSession) -> DataFrame:
        """All of its rows."""
        schema = from_arrow_schema(self.table.schema)
        parts = [_sent(part) for part in _parts(self.table)]
        return by_parts(spark, parts, _unpacked, schema, lambda run: marked(run, self.name))

    def is_unchanged(self, since: Input) -> bool:
        """Whether it has the same bytes as when something was made of it."""
        return since == self.input


# A file's place, its name, what it is, its tag and how many bytes it has.
_Key: TypeAlias = tuple[str, str, str, str, int]

Source: TypeAlias = Snapshot | Lookup
"""Something that a table is made of, as of a moment."""


def lookups(wanted: Mapping[str, Static], storage: StorageOptions) -> dict[str, Source]:
    """Each of these tables, as it is now. Raises PipelineError for one that is not there, or cannot be read."""
    return {name: replace(_read(name, one, storage), name=name) for name, one in wanted.items()}


def _read(name: str, one: Static, storage: StorageOptions) -> Source:
    if one.kind == "delta":
        place = open_files(one.path, storage)
        version = newest_version(place)
        if version is None:
            raise PipelineError(f"static table {name}: there is no Delta table in {one.path}")
        return snapshot(place, version)
    folder, _, file = str(one.path).rpartition("/")
    found = open_files(Place.parse(folder), storage)
    info = found.info(file)
    if info is None:
        raise PipelineError(f"static table {name}: there is no file {one.path}")
    if info.size > _MOST_BYTES:
        raise PipelineError(
            f"static table {name}: {one.path} has {info.size:,} bytes, and a file may have {_MOST_BYTES:,}; make a Delta table of it"
        )
    key = (found.url, file, one.kind, info.tag, info.size)
    if (known := _known.get(key)) is None:
        known = _of_file(name, one, found, file)
        if abs(time.time() - info.modified / 1000) > _SETTLED_SECONDS:
            _known.keep(key, known)
    return known


class _Known:
    """Files as they were read: the tables of all entities look things up in the same ones, at each turn. Those that were asked for last, of so many bytes of memory together."""

    def __init__(self) -> None:
        self._lock, self._found = threading.Lock(), dict[_Key, Lookup]()

    def get(self, key: _Key) -> Lookup | None:
        """What it had in it when it was read, if that is known."""
        with self._lock:
            found = self._found.pop(key, None)
            if found is not None:
                self._found[key] = found
            return found

    def keep(self, key: _Key, found: Lookup) -> None:
        """Know it from now on, in the place of what it was before; not one that is too large beside no other."""
        with self._lock:
            self._found = {one: had for one, had in self._found.items() if one[:3] != key[:3]}
            # Parquet may be many times larger in memory than as a file.
            if found.table.nbytes <= _MOST_BYTES:
                self._found[key] = found
            while sum(had.table.nbytes for had in self._found.values()) > _MOST_BYTES:
                del self._found[next(iter(self._found))]


_known = _Known()


def _of_file(name: str, one: Static, found: Files, file: str) -> Lookup:
    content = found.read(file)
    try:
        table = _for_spark(_READERS[one.kind](content))
    except (pa.ArrowException, PySparkException, OSError, ValueError) as error:
        raise PipelineError(
            f"static table {name}: {one.path} cannot be read as {one.kind} ({type(error).__name__}); mend it, or say its format"
        ) from None
    # What is read decides, and how: the same bytes may be another table by other words.
    digest = hashlib.sha256(one.kind.encode() + content).hexdigest()
    return Lookup(Input(digest, 0), table)


def _csv(content: bytes) -> pa.Table:
    # Within quotes a line may end, wherever that is in a large file.
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    with pyarrow.csv.open_csv(io.BytesIO(content), parse_options=parse) as beginning:
        names = beginning.schema.names
    # Texts, since a code such as 01067 is no number; and an empty field is none, but for one in quotes.
    convert = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    return pyarrow.csv.read_csv(io.BytesIO(content), parse_options=parse, convert_options=convert)


def _parquet(content: bytes) -> pa.Table:
    return pyarrow.parquet.read_table(io.BytesIO(content))


_READERS: Mapping[str, Callable[[bytes], pa.Table]] = {"csv": _csv, "parquet": _parquet}


def _for_spark(table: pa.Table) -> pa.Table:
    """The same with columns as Spark has them. Raises PySparkException or ValueError where it has none such."""
    schema = to_arrow_schema(from_arrow_schema(table.schema))
    columns = [in_microseconds(one) if _is_finer(one.type) else one for one in table.columns]
    return pa.table(columns, table.column_names).cast(schema)


def _is_finer(of: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(of) and of.unit == "ns")


def _parts(table: pa.Table) -> Iterator[pa.Table]:
    """The rows in parts that Spark lets one task have; a table without any is one, too."""
    count = -(-table.nbytes // _PART_BYTES) or 1
    size = -(-table.num_rows // count) or 1
    for begin in range(0, max(table.num_rows, 1), size):
        yield table.slice(begin, size)


def _sent(table: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as stream:
        stream.write_table(table)
    return bytes(out.getvalue())


def _unpacked(sent: bytes) -> Iterator[pa.RecordBatch]:
    yield from pa.ipc.open_stream(sent)
