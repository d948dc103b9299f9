from __future__ import annotations

from collections import defaultdict
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.partitions import PartitionValues
from distributary.ingest.parquet.buffers import TableBuffers
from distributary.ingest.parquet.split import split

SCHEMA = pa.schema(
    [("n", pa.int64()), ("s", pa.string()), ("d", pa.date32()), ("b", pa.bool_()), ("i", pa.int16())]
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "s": st.none() | st.sampled_from(["", "a", "b/ö"]) | st.text(max_size=3),
            "d": st.none() | st.dates(),
            "b": st.none() | st.booleans(),
            "i": st.none() | st.integers(-(2**15), 2**15 - 1),
        }
    ),
    max_size=30,
)


def batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"n": n, **row} for n, row in enumerate(rows)], SCHEMA)


def written(value: Any) -> str | None:
    if value is None or value == "":
        return None
    return (
        value.isoformat()
        if isinstance(value, date)
        else str(value).lower()
        if value in (True, False) and isinstance(value, bool)
        else str(value)
    )


@given(ROWS, st.lists(st.sampled_from(["s", "d", "b", "i"]), min_size=1, unique=True))
def test_each_row_is_in_its_own_partition_in_the_order_it_came(
    rows: list[dict[str, Any]], by: list[str]
) -> None:
    expected: dict[PartitionValues, list[int]] = defaultdict(list)
    for n, row in enumerate(rows):
        expected[tuple((name, written(row[name])) for name in by)].append(n)
    found = list(split(batch(rows), by))
    assert {values: piece["n"].to_pylist() for values, piece in found} == dict(expected)
    assert len(found) == len(expected)
    assert all(piece.schema.names == [name for name in SCHEMA.names if name not in by] for _, piece in found)


@pytest.mark.parametrize("limit", [0, 10**6])
@pytest.mark.parametrize("most", [None, 2])
def test_partitions_have_files_of_their_own_and_other_tables_have_not(
    tmp_path: Path, limit: int, most: int | None
) -> None:
    held = TableBuffers(
        str(tmp_path),
        "0123abcd",
        3,
        limit,
        lambda _: Layout(SCHEMA),
        lambda _: most,
        {"t": ("s", "b"), "u": ()}.__getitem__,
    )
    rows = [{"s": text, "b": flag} for text in ("x", "y", None) for flag in (True, False)] * 3
    for number in range(0, len(rows), 5):
        for table in "tu":
            held.add(table, batch(rows[number : number + 5]).select(["n", "s", "b"]))
        held.grew(1)
    held.close()
    mine = [file for file in held.files if file.table == "t"]
    assert {file.partition for file in held.files if file.table == "u"} == {()}
    assert sum(file.rows for file in mine) == len(rows)
    for file in mine:
        assert pq.read_schema(tmp_path / "t" / file.name).names == ["n", "d", "i"]
        assert '"s"' not in file.statistics and '"n"' in file.statistics
    counted: dict[PartitionValues, int] = defaultdict(int)
    for file in mine:
        counted[file.partition] += file.rows
        assert most is None or file.rows <= most
    assert counted == {
        (("s", text), ("b", flag)): 3 for text in ("x", "y", None) for flag in ("true", "false")
    }
    assert len(mine) == (6 if most is None else 12)


def test_more_partitions_than_may_be_open_are_all_written(tmp_path: Path) -> None:
    held = TableBuffers(
        str(tmp_path), "0123abcd", 3, 0, lambda _: Layout(SCHEMA), partitions_of=lambda _: ("i",)
    )
    for _ in range(2):
        held.add("t", batch([{"i": number} for number in range(300)]))
        held.grew(1)
    held.close()
    assert len(held.files) == 600
    assert {file.partition[0][1] for file in held.files} == set(map(str, range(300)))
