"""One Parquet file written for a table and not yet committed to it, and the name that says whose it is."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from distributary.ingest.columns.partitions import PartitionValues

_NAME = re.compile(r"(?P<generation>[0-9a-f]{8})-(?P<batch>\d{10,})-[0-9a-f]{32}\.parquet")

_MERGED = re.compile(r"(?P<generation>[0-9a-f]{8})-(?P<batch>\d{10,})-merged-[0-9a-f]{32}\.parquet")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file in a table's folder, invisible to readers until a commit names it.

    table       the table's folder, relative to the sink's root
    name        the file's name inside that folder; carries generation and batch
    rows        number of rows
    bytes       size of the file, checked again before it is committed
    statistics  Delta's per-file statistics as JSON (numRecords, minValues, maxValues, nullCount)
    partition   the values that all its rows have in the columns that its table is in partitions by, which it has not
    """

    table: str
    name: str
    rows: int
    bytes: int
    statistics: str
    partition: PartitionValues = ()


def partitions_of(files: Iterable[DataFile]) -> tuple[str, ...]:
    """The columns that files of one table, of one batch, are told apart by."""
    return next((tuple(name for name, _ in file.partition) for file in files), ())


def file_name(generation: str, batch_id: int) -> str:
    """A name that no other file has, made for this batch of this generation (a UUID in hex)."""
    return f"{batch_mark(generation, batch_id)}-{uuid.uuid4().hex}.parquet"


def merged_name(generation: str, batch_id: int) -> str:
    """The same for a file that no manifest names: of rows that were made of others when the batch's became part of their table."""
    return f"{merged_mark(generation, batch_id)}{uuid.uuid4().hex}.parquet"


def rewritten_name() -> str:
    """The same for one of rows that were in others: as other programs call theirs, so that what no version names goes as theirs does."""
    return f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"


def merged_mark(generation: str, batch_id: int) -> str:
    """What the names of such files begin with."""
    return f"{batch_mark(generation, batch_id)}-merged-"


def is_merged(name: str, batch_id: int) -> bool:
    """Whether a file is one of those, made for this batch."""
    found = _MERGED.fullmatch(name)
    return found is not None and int(found["batch"]) == batch_id


def batch_mark(generation: str, batch_id: int) -> str:
    """What the names of a batch's files begin with, before a dash."""
    return f"{generation_mark(generation)}-{batch_id:010d}"


def generation_mark(generation: str) -> str:
    """The part of a generation that its files' names carry."""
    return generation.replace("-", "").lower()[:8]


def owner(name: str) -> tuple[str, int] | None:
    """The generation's mark and the batch that a file was made for; None for a file not named by `file_name`."""
    found = _NAME.fullmatch(name)
    return (found["generation"], int(found["batch"])) if found else None


def merger(name: str) -> tuple[str, int] | None:
    """The same of a file of rows that were made of others, named by `merged_name`; None for any other."""
    found = _MERGED.fullmatch(name)
    return (found["generation"], int(found["batch"])) if found else None
