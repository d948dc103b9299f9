"""How many bytes a worker is handed at once: docs/adr/0021-bytes-bounded-by-the-size-of-records.md.

Spark adds up its buffers after each row, which takes a fifth of what the JVM does for a record. Where all records of a batch are so small that no
portion of them passes the bound, nothing has to be added up. So a batch is read without Spark's bound first, its large records kept back; where there
was one it is read again with the bound, and so are those that follow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

T = TypeVar("T")

# Three columns of lists that are null cost 75 µs a row at 20,000 rows at once, and 9 at so many.
_ROWS_OF_LISTS = 2_000

# Spark 3.5 knows no such setting.
BYTES_AT_ONCE = "spark.sql.execution.arrow.maxBytesPerBatch"

ROWS_AT_ONCE = "spark.sql.execution.arrow.maxRecordsPerBatch"

# With it Spark adds nothing up.
UNBOUNDED = 2**31 - 1

# In the place of a partition's number, which tells a worker that the record was kept back.
_KEPT_BACK = -1

# So many batches are left to Spark's bound once a large record was met: where there is one there are others.
_BOUNDED_BATCHES = 100

# Where fewer bytes are too many, nearly every batch would be read twice.
_LEAST_BYTES = 256

# What a header takes beside its name and its value, in whose place there may be nothing.
_HEADER_BYTES = 16


@dataclass
class Portions:
    """Chooses for each batch who bounds the bytes that a worker is handed at once.

    rows  how many rows a worker is handed at once
    """

    rows: int
    _bounded: int = field(default=0, init=False)

    def largest(self, session: SparkSession) -> int | None:
        """How many bytes a record of the next batch may have that is read without Spark's bound; None where it is to be read with it."""
        if self._bounded:
            self._bounded -= 1
            return None
        told = session.conf.get(BYTES_AT_ONCE, None)
        # Somebody who writes `64m` has it as he wants it.
        at_once = int(told) if told is not None and told.isdecimal() else UNBOUNDED
        most = at_once // self.rows
        return most if at_once < UNBOUNDED and most >= _LEAST_BYTES else None

    def met_large(self) -> None:
        """Leave the next batches to Spark's bound."""
        self._bounded = _BOUNDED_BATCHES


def unbounded(session: SparkSession, rows: int, job: Callable[[], T]) -> T:
    """What a job comes to that is handed so many rows at once and that Spark bounds no bytes of.

    How many rows is said here, too: records that are read around Spark's source are of another session than the query's.
    """
    return _with(session, {BYTES_AT_ONCE: UNBOUNDED, ROWS_AT_ONCE: rows}, job)


def of_any_columns(session: SparkSession, rows: int, job: Callable[[], T]) -> T:
    """What a job comes to that is handed at most so many rows at once of columns that nobody here has chosen.

    Where Spark adds up bytes it goes, for each row, through all before it that have no list in a column of lists.
    """
    return _with(session, {ROWS_AT_ONCE: min(rows, _ROWS_OF_LISTS)}, job)


def _with(session: SparkSession, wanted: dict[str, int], job: Callable[[], T]) -> T:
    before = {name: session.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        session.conf.set(name, str(value))
    try:
        return job()
    finally:
        for name, was in before.items():
            session.conf.set(name, str(was))


def large_kept_back(records: DataFrame, most_bytes: int, *, whole_headers: bool = False) -> DataFrame:
    """Records of Spark's Kafka source; of those with more bytes nothing is left, and their partition is none.

    A quarter of the bytes is for headers, the rest for key and value: each is worked out where it is needed, which costs less than one size for all.
    With `whole_headers` workers are handed all headers with their names, which may be as long as values, and not some values.
    """
    of_headers = most_bytes // 4
    small = f"{_bytes('key')} + {_bytes('value')} <= {most_bytes - of_headers}"
    kept = {name: f"CASE WHEN {small} THEN `{name}` END" for name in ("key", "value")}
    if "headers" in records.columns:
        few = f"headers IS NULL OR {_bytes_of_headers(whole=whole_headers)} <= {of_headers}"
        kept["headers"] = f"CASE WHEN {few} THEN headers END"
        small = f"{small} AND ({few})"
    kept["partition"] = f"CASE WHEN {small} THEN `partition` ELSE {_KEPT_BACK} END"
    # As texts: the JVM would be asked a hundred times for the parts of what it reads at once.
    return records.withColumns({name: sql.expr(text) for name, text in kept.items()})


def any_kept_back(records: pa.RecordBatch) -> bool:
    """Whether records were kept back of those that a worker is handed."""
    return bool(pc.min(records["partition"]).as_py() == _KEPT_BACK)


def _bytes(name: str) -> str:
    return f"coalesce(length(`{name}`), 0)"


def _bytes_of_headers(*, whole: bool) -> str:
    of_one = "coalesce(length(header.`value`), 0)"
    if whole:
        of_one += f" + octet_length(header.`key`) + {_HEADER_BYTES}"
    return f"aggregate(transform(headers, header -> {of_one}), 0, (so_far, more) -> so_far + more)"
