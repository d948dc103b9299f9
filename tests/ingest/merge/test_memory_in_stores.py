"""What merges into several tables of a store hold of their files at one time."""

from __future__ import annotations

import random
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.ingest.merge.test_upsert import COLUMNS, row
from tests.ingest.merge.upserted import PRESENT, Upserted, ordered_by

from distributary.ingest.merge import found
from distributary.ingest.merge.rule import MergeRule
from distributary.ingest.storage.contract import Files

MEBIBYTE = 2**20

TABLES, FILES = 4, 12


def test_merges_side_by_side_hold_no_more_of_small_files_than_they_may(
    in_s3: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small file comes whole: of 64 tables 32 each would be two gigabytes."""
    monkeypatch.setattr(found, "_ROOM", found.Room(6 * MEBIBYTE))
    dice = random.Random(7)
    tables = [
        Upserted.made(in_s3.below(f"root-{number}"), COLUMNS, MergeRule(("id",), ordered_by("seq")))
        for number in range(TABLES)
    ]
    for table in tables:
        # Each file may have any key.
        rows = [row(key, 1, dice.randbytes(11_000).hex()) for key in range(FILES * 40)]
        table.merge(rows, files=FILES)
        sizes = [info.size for info in table.place.list() if info.name.endswith(".parquet")]
        assert len(sizes) == FILES
        assert min(sizes) > MEBIBYTE / 2 and max(sizes) < MEBIBYTE, sizes
    del rows
    tracemalloc.start()
    try:
        with ThreadPoolExecutor(TABLES) as pool:
            counts = list(pool.map(lambda table: table.merge([row(FILES * 20, 2, "new")]), tables))
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [one.updated for one in counts] == [1] * TABLES
    assert held < 12 * MEBIBYTE


def test_so_it_is_with_rows_that_are_made_of_those_in_many_files(
    in_s3: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has the rows of several files, of which any column may be asked for until the last one is made."""
    monkeypatch.setattr(found, "_ROOM", found.Room(6 * MEBIBYTE))
    dice = random.Random(7)
    rule = MergeRule(("id",), ordered_by("seq"), "present")
    tables = [Upserted.made(in_s3.below(f"root-{number}"), COLUMNS, rule) for number in range(TABLES)]
    for table in tables:
        rows = [row(key, 1, dice.randbytes(11_000).hex()) for key in range(FILES * 40)]
        table.merge(rows, files=FILES)
    del rows
    # One of each file, whose value stays.
    late = [{**row(key, 2), PRESENT: ("id", "seq")} for key in range(FILES)]
    tracemalloc.start()
    try:
        with ThreadPoolExecutor(TABLES) as pool:
            counts = list(pool.map(lambda table: table.merge(late), tables))
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [one.updated for one in counts] == [FILES] * TABLES
    assert held < 12 * MEBIBYTE
