"""Files read in Spark's workers, by their paths and through the storage seam: rows as records with the columns of Spark's Kafka source."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from distributary.codecs.containers.base import Damaged, Gap, Named, load_container
from distributary.ingest.landing import told
from distributary.ingest.landing.content import pieces_of
from distributary.ingest.landing.formats import FORMATS
from distributary.ingest.landing.numbers import MOST_ROWS, Landed, first_offset, is_as_registered
from distributary.ingest.landing.written_with import WrittenWith
from distributary.ingest.spark.tasks.parts import by_parts
from distributary.ingest.storage.contract import Files, Info
from distributary.ingest.storage.posix import is_away

COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

PATH_HEADER = "path"
"""The header of each record that has its file's path, from the folder that files land in."""

# Up to this a file is held whole, so that nothing of it goes on before it is known that nobody wrote to it meanwhile.
_WHOLE_BYTES = 64 << 20

# Records one behind the other; None for a row that holds none.
Values: TypeAlias = Sequence[bytes | None] | pa.BinaryArray

# As Kafka has it of a time that a producer gave.
_CREATED = 0

# The times that a table's readers know, in milliseconds since the epoch: a file system may tell any, as somebody set it.
_FIRST_MILLIS, _LAST_MILLIS = -62_135_596_800_000, 253_402_300_799_999


@dataclass(frozen=True, slots=True)
class Landing:
    """Where files are, what they are called together, and what a record is in them.

    register    where the schemas are kept that files were written with
    skips_gone  whether one that is not there any more is told in quarantine; else that is an error
    """

    folder: Files
    topic: str
    format: str
    register: Files
    skips_gone: bool = False

    def schemas(self) -> WrittenWith:
        """The schemas of its files that are kept, called as the values of a topic are."""
        return WrittenWith(self.register, f"{self.topic}-value")


def records(spark: SparkSession, landing: Landing, files: Sequence[Landed]) -> DataFrame:
    """The records of these files, which workers read side by side."""
    shares = _shares(files, spark.sparkContext.defaultParallelism)
    return by_parts(spark, shares, lambda share: _read(landing, share), COLUMNS)


def _shares(files: Sequence[Landed], workers: int) -> list[list[Landed]]:
    """The files in as many shares as there are workers, about as many bytes in each."""
    shares: list[list[Landed]] = [[] for _ in range(min(workers, len(files)))]
    sizes = [0] * len(shares)
    for file in sorted(files, key=lambda one: -one.size):
        least = sizes.index(min(sizes))
        shares[least].append(file)
        sizes[least] += file.size
    return [sorted(share, key=lambda one: one.number) for share in shares]


def _read(landing: Landing, files: Sequence[Landed]) -> Iterator[pa.RecordBatch]:
    schemas = landing.schemas()
    for file in files:
        yield from rows_of(landing, file, schemas.named)


def rows_of(landing: Landing, file: Landed, named: Named) -> Iterator[pa.RecordBatch]:
    """The records of one file, whose schema is kept as `named`; where some of it, or the rest, cannot be read, one that says so.

    Raises OSError where it went or was written to after some of it was handed on, and where it is gone and that is an error.
    """
    if file.kind == "rewritten":
        yield _telling(landing, file, 0, "file_rewritten")
        return
    if file.kind == "gone":
        yield _telling(landing, file, 0, "file_gone", told.READ_ONCE_THERE)
        return
    try:
        stream = _opened(landing.folder, file)
    except FileNotFoundError:
        if not landing.skips_gone or is_away(landing.folder):
            raise
        yield _telling(landing, file, 0, "file_gone")
        return
    if stream is None:
        yield _telling(landing, file, 0, "file_changed")
        return
    row = 0
    try:
        with stream:
            for part in _parts(landing.format, file.path, stream, named):
                first, count = (part.first, 1) if isinstance(part, Gap) else (part[0], len(part[1]))
                # One number is left, to tell of the rest.
                if first + count >= MOST_ROWS:
                    row = min(first, MOST_ROWS - 1)
                    raise Damaged("it has more rows than have a number; write smaller files")
                row = first + count
                if isinstance(part, Gap):
                    yield _telling(landing, file, first, "file_rows_damaged", part.why)
                else:
                    yield _batch(landing, file, *part)
    except Damaged as error:
        yield _telling(landing, file, row, "file_damaged", str(error))
    if file.size > _WHOLE_BYTES and not is_as_registered(file, landing.folder.info(file.path)):
        raise OSError(f"{landing.folder}/{file.path} was written to while it was read")


def schema_of(landing: Landing, file: Landed | Info) -> str | None:
    """What the records of a file are made of, as its container says; None of one that is none, went away, or is of a kind that says nothing."""
    container = load_container(landing.format)
    if container is None:
        return None
    try:
        with _Reader(landing.folder.reader(file.path, file.size)) as stream:
            return container.schema(stream)
    except (Damaged, FileNotFoundError):
        return None


def schema_if_readable(landing: Landing, file: Landed | Info) -> str | None:
    """The same of a file that is only looked into: None of one that cannot be read, too. Raises ConnectionError."""
    try:
        return schema_of(landing, file)
    except ConnectionError:
        raise
    except OSError:
        return None


def _parts(
    format: str,  # noqa: A002 - as the settings call it
    path: str,
    stream: Any,
    named: Named,
) -> Iterator[tuple[int, Values] | Gap]:
    """The records of an open file, and the row of the first of those that come together. Raises Damaged."""
    container = load_container(format)
    if container is None:
        yield from FORMATS[format](pieces_of(path, stream))
    else:
        yield from container.rows(stream, named)


def _opened(folder: Files, file: Landed) -> Any:
    """The file to be read; None where it is not as it was registered. Raises FileNotFoundError."""
    if file.size > _WHOLE_BYTES:
        info = folder.info(file.path)
        if info is None:
            raise FileNotFoundError(file.path)
        return _Reader(folder.reader(file.path, file.size)) if is_as_registered(file, info) else None
    content = folder.read(file.path)
    info = folder.info(file.path)
    if info is None:
        raise FileNotFoundError(file.path)
    return io.BytesIO(content) if is_as_registered(file, info) and len(content) == file.size else None


class _Reader(io.RawIOBase):
    """A large file read by parts, whose place's errors stay what they are: Arrow would take them for the file's."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._failed: BaseException | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._inner.seek(offset, whence))

    def tell(self) -> int:
        return int(self._inner.tell())

    def read(self, size: int | None = -1) -> bytes:
        if self._failed is not None:
            raise self._failed
        try:
            return bytes(self._inner.read() if size is None or size < 0 else self._inner.read(size))
        except OSError as error:
            self._failed = error
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inner.close()
        self.close()
        if self._failed is not None:
            raise self._failed


def _telling(landing: Landing, file: Landed, row: int, why: told.Why, how: str = "") -> pa.RecordBatch:
    """A record that tells of a file. It has no time, as no other record has none."""
    return _batch(landing, file, row, [told.record(file.path, row, why, how)], timed=False)


def _batch(
    landing: Landing, file: Landed, first: int, values: Values, *, timed: bool = True
) -> pa.RecordBatch:
    """Rows of a file, from this one on, as records; without those that are none."""
    every = values if isinstance(values, pa.Array) else pa.array(values, pa.binary())
    rows = np.flatnonzero(every.is_valid().to_numpy(zero_copy_only=False))
    count = len(rows)
    header = pa.StructArray.from_arrays(
        [
            pa.repeat(PATH_HEADER, count),
            pa.array([file.path.encode("utf-8", "surrogateescape")] * count, pa.binary()),
        ],
        names=["key", "value"],
    )
    millis = min(max(file.modified, _FIRST_MILLIS), _LAST_MILLIS)
    time = pa.scalar(millis * 1000 if timed else None, pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_arrays(
        [
            pa.nulls(count, pa.binary()),
            every.drop_null(),
            pa.repeat(landing.topic, count),
            pa.repeat(pa.scalar(0, pa.int32()), count),
            pa.array(rows + (first_offset(file.number) + first)),
            pa.repeat(time, count),
            pa.repeat(pa.scalar(_CREATED, pa.int32()), count),
            pa.ListArray.from_arrays(np.arange(count + 1, dtype=np.int32), header).cast(_HEADERS),
        ],
        names=["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"],
    )
