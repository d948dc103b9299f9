"""Tables for tests of upkeep: with rows appended or merged in small files, and looked at by version."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake.table import TableOptimizer
from tests.ingest.merge.test_upsert import COLUMNS, row
from tests.ingest.merge.upserted import Upserted, ordered_by

from distributary.ingest.merge import live_files, vectors
from distributary.ingest.merge.rule import MergeRule
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.log import newest_version

DAY = 86_400_000

# Of tests whose like are in a store in `make test`, too.
HEAVY_IN_S3 = pytest.mark.parametrize(
    "root", ["posix", pytest.param("s3", marks=pytest.mark.heavy)], indirect=True
)


def upserted(root: Files, keys: int = 30, **more: Any) -> Upserted:
    """A table with one row a key in several files, of which rows are marked."""
    table = Upserted.made(root, COLUMNS, MergeRule(("id",), ordered_by("seq")), **more)
    table.merge([row(key, 1, "a") for key in range(keys)], files=3)
    table.merge([row(key, 2, "b") for key in range(0, keys, 3)], files=2)
    table.merge([row(key, 3, "c") for key in range(0, keys, 5)])
    return table


def values(table: Upserted) -> dict[int, str]:
    """The value of each key, by the log, Parquet and vectors."""
    return {key: one["v"] for key, one in table.by_key().items()}


def merged(keys: int = 30) -> dict[int, str]:
    """Those that `upserted` begins with."""
    return {key: "c" if not key % 5 else "b" if not key % 3 else "a" for key in range(keys)}


def at_version(place: Files, version: int) -> int:
    """How many rows a version has, all of whose files are read."""
    count = 0
    for name, add in live_files.read(place, version):
        rows = pq.read_table(pa.BufferReader(place.read(name))).num_rows
        vector = add.get("deletionVector")
        count += rows - (0 if vector is None else len(vectors.read(place, vector)))
    return count


def newest(place: Files) -> int:
    """The newest version of a table."""
    found = newest_version(place)
    assert found is not None
    return found


@contextmanager
def amid_compaction(rival: Callable[[], object], times: int = 1) -> Iterator[list[int]]:
    """Inside, somebody does something between the look of a compaction at its table and its commit; how many looks there were."""
    compact, looks = TableOptimizer.compact, list[int]()

    def late(self: TableOptimizer, *given: Any, **named: Any) -> Any:
        looks.append(len(looks))
        if len(looks) <= times:
            rival()
        return compact(self, *given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TableOptimizer, "compact", late)
        yield looks
