"""Files read in Spark's workers, by their paths and through the storage seam: rows as records with the columns of Spark's Kafka source."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from distributary.ingest.landing import told
from distributary.ingest.landing.content import Damaged, pieces_of
from distributary.ingest.landing.formats import FORMATS
from distributary.ingest.landing.numbers import MOST_ROWS, Landed, first_offset, is_as_registered
from distributary.ingest.storage.contract import Files

COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

PATH_HEADER = "path"
"""The header of each record that has its file's path, from the folder that files land in."""

# Up to this a file is held whole, so that nothing of it goes on before it is known that nobody wrote to it meanwhile.
_WHOLE_BYTES = 64 << 20

# As Kafka has it of a time that a producer gave.
_CREATED = 0


@dataclass(frozen=True, slots=True)
class Landing:
    """Where files are, what they are called together, and what a record is in them.

    skips_gone  whether one that is not there any more is told in quarantine; else that is an error
    """

    folder: Files
    topic: str
    format: str
    skips_gone: bool = False


def records(spark: SparkSession, landing: Landing, files: Sequence[Landed]) -> DataFrame:
    """The records of these files, which workers read side by side."""
    shares = _shares(files, spark.sparkContext.defaultParallelism)
    numbers = spark.range(0, len(shares), 1, max(len(shares), 1))
    return numbers.mapInArrow(_read(landing, shares), COLUMNS)


def _shares(files: Sequence[Landed], workers: int) -> list[list[Landed]]:
    """The files in as many shares as there are workers, about as many bytes in each."""
    shares: list[list[Landed]] = [[] for _ in range(min(workers, len(files)))]
    sizes = [0] * len(shares)
    for file in sorted(files, key=lambda one: -one.size):
        least = sizes.index(min(sizes))
        shares[least].append(file)
        sizes[least] += file.size
    return [sorted(share, key=lambda one: one.number) for share in shares]


def _read(
    landing: Landing, shares: Sequence[Sequence[Landed]]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for file in shares[number]:
                    yield from rows_of(landing, file)

    return read


def rows_of(landing: Landing, file: Landed) -> Iterator[pa.RecordBatch]:
    """The records of one file; where it, or the rest of it, cannot be read, one that says so.

    Raises OSError where it went or was written to after some of it was handed on, and where it is gone and that is an error.
    """
    if file.kind == "rewritten":
        yield _telling(landing, file, 0, "file_rewritten")
        return
    try:
        stream = _opened(landing.folder, file)
    except FileNotFoundError:
        if not landing.skips_gone:
            raise
        yield _telling(landing, file, 0, "file_gone")
        return
    if stream is None:
        yield _telling(landing, file, 0, "file_changed")
        return
    row = 0
    try:
        with stream:
            for first, values in FORMATS[landing.format](pieces_of(file.path, stream)):
                row = first + len(values)
                if row >= MOST_ROWS:
                    raise Damaged("it has more rows than have a number; write smaller files")
                yield _batch(landing, file, first, values)
    except Damaged as error:
        yield _telling(landing, file, row, "file_damaged", str(error))
    if file.size > _WHOLE_BYTES and not is_as_registered(file, landing.folder.info(file.path)):
        raise OSError(f"{landing.folder}/{file.path} was written to while it was read")


def _opened(folder: Files, file: Landed) -> Any:
    """The file to be read; None where it is not as it was registered. Raises FileNotFoundError."""
    if file.size > _WHOLE_BYTES:
        info = folder.info(file.path)
        if info is None:
            raise FileNotFoundError(file.path)
        return folder.reader(file.path, file.size) if is_as_registered(file, info) else None
    content = folder.read(file.path)
    info = folder.info(file.path)
    if info is None:
        raise FileNotFoundError(file.path)
    return io.BytesIO(content) if is_as_registered(file, info) and len(content) == file.size else None


def _telling(landing: Landing, file: Landed, row: int, why: told.Why, how: str = "") -> pa.RecordBatch:
    """A record that tells of a file. It has no time, as no other record has none."""
    return _batch(landing, file, row, [told.record(file.path, row, why, how)], timed=False)


def _batch(
    landing: Landing, file: Landed, first: int, values: Sequence[bytes | None], *, timed: bool = True
) -> pa.RecordBatch:
    """Rows of a file, from this one on, as records; without those that are none."""
    rows = np.array([place for place, value in enumerate(values) if value is not None], np.int64)
    count = len(rows)
    header = pa.StructArray.from_arrays(
        [
            pa.repeat(PATH_HEADER, count),
            pa.array([file.path.encode("utf-8", "surrogateescape")] * count, pa.binary()),
        ],
        names=["key", "value"],
    )
    time = pa.scalar(file.modified * 1000 if timed else None, pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_arrays(
        [
            pa.nulls(count, pa.binary()),
            pa.array([value for value in values if value is not None], pa.binary()),
            pa.repeat(landing.topic, count),
            pa.repeat(pa.scalar(0, pa.int32()), count),
            pa.array(rows + (first_offset(file.number) + first)),
            pa.repeat(time, count),
            pa.repeat(pa.scalar(_CREATED, pa.int32()), count),
            pa.ListArray.from_arrays(np.arange(count + 1, dtype=np.int32), header).cast(_HEADERS),
        ],
        names=["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"],
    )
