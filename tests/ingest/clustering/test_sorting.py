"""Rows written anew in the order of the curve: all of them, no other, within a bound of memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ingest.merge.test_columns import MUCH, much_text

from distributary.ingest.clustering import sorting
from distributary.ingest.clustering.sorting import write_sorted
from distributary.ingest.clustering.writing import Made, Target, Written
from distributary.ingest.columns.clustering import Path as ColumnPath
from distributary.ingest.merge import columns
from distributary.ingest.parquet.statistics import Indexed
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at

COLUMNS = pa.schema(
    [
        ("n", pa.int64()),
        ("s", pa.struct([("name", pa.string())])),
        ("day", pa.date32()),
        ("new", pa.float64()),
    ]
)
BY: tuple[ColumnPath, ...] = (("s", "name"), ("day",))


def source(place: Files, name: str, rows: pa.Table, groups: int = 10**6) -> tuple[str, dict[str, Any]]:
    with place.writer(name) as stream:
        pq.write_table(rows, stream.sink, row_group_size=groups)
        size = stream.tell()
    return name, {"path": name, "size": size, "partitionValues": {}}


def events(count: int, first: int = 0, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    names = [None if n % 11 == 0 else f"name-{n:04}" for n in rng.integers(0, 500, count)]
    return pa.table(
        {
            "n": pa.array(range(first, first + count), pa.int64()),
            "s": pa.array(
                [None if name is None else {"name": name} for name in names], COLUMNS.field("s").type
            ),
            "day": pa.array([date.fromordinal(738_000 + int(n)) for n in rng.integers(0, 400, count)]),
        }
    )


def rows_of(place: Files, made: Sequence[Made]) -> list[list[dict[str, Any]]]:
    return [pq.read_table(pa.BufferReader(place.read(one.name))).to_pylist() for one in made]


def written(place: Files, rows: Sequence[pa.Table], file_bytes: int, by: Any = BY) -> list[Made]:
    files = [source(place, f"{n}.parquet", one, 300) for n, one in enumerate(rows)]
    return write_sorted(place, files, Target(COLUMNS, by, Indexed(), file_bytes))


@pytest.mark.parametrize("memory", [2**30, 30_000])
def test_all_rows_come_once_and_files_tell_narrow_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int
) -> None:
    monkeypatch.setattr(sorting, "MEMORY_BYTES", memory)
    place = files_at(tmp_path)
    tables = [events(2_000, n * 2_000, n) for n in range(4)]
    size = sum(len(place.read(source(place, f"x{n}", one)[0])) for n, one in enumerate(tables))
    made = written(place, tables, size // 16)
    assert 14 <= len(made) <= 40
    assert sum(one.rows for one in made) == 8_000
    assert max(one.rows for one in made) - min(one.rows for one in made[:-1]) == 0
    found = sorted((row for rows in rows_of(place, made) for row in rows), key=lambda row: row["n"])
    wanted = [{**row, "new": None} for one in tables for row in one.to_pylist()]
    assert found == sorted(wanted, key=lambda row: row["n"])
    told = [json.loads(one.statistics) for one in made]
    days = [
        date.fromisoformat(one["maxValues"]["day"]) - date.fromisoformat(one["minValues"]["day"])
        for one in told
    ]
    assert sum(one.days for one in days) / len(days) < 400 / 2.5
    names = [one for one in told if "name" in one["minValues"].get("s", {})]
    spans = [int(one["maxValues"]["s"]["name"][5:]) - int(one["minValues"]["s"]["name"][5:]) for one in names]
    assert sum(spans) / len(spans) < 500 / 2.5
    assert not list(tmp_path.glob("distributary-*"))


@pytest.mark.parametrize("memory", [2**30, 20_000, 0])
def test_without_columns_rows_stay_in_the_order_that_they_came_in_and_no_number_is_in_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int
) -> None:
    monkeypatch.setattr(sorting, "MEMORY_BYTES", memory)
    some, others = (
        events(700, first).append_column("new", pa.array([1.0] * 699 + [last]))
        for first, last in ((0, 2.0), (700, float("nan")))
    )
    made = written(files_at(tmp_path), [some, others], 10**9, ())
    (rows,) = rows_of(files_at(tmp_path), made)
    assert [row["n"] for row in rows] == list(range(1_400))
    told = json.loads(made[0].statistics)
    assert "new" not in told["maxValues"]


def test_one_value_in_all_rows_stays_within_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "MEMORY_BYTES", 10_000)
    held = list[int]()
    real = sorting._sorted

    def noted(rows: pa.Table, by: Sequence[ColumnPath]) -> pa.Table:
        held.append(rows.nbytes)
        return real(rows, by)

    monkeypatch.setattr(sorting, "_sorted", noted)
    same = pa.table({"n": pa.array(range(5_000), pa.int64()), "day": pa.array([date(2024, 1, 1)] * 5_000)})
    made = written(files_at(tmp_path), [same], 10**9, (("day",),))
    assert sum(one.rows for one in made) == 5_000
    assert max(held) < 40_000


def test_of_fractions_files_without_one_that_is_no_number_tell_the_greatest(tmp_path: Path) -> None:
    values = [float(n) for n in range(100)] + [float("nan"), None, -0.0, float("inf")]
    schema = pa.schema([("x", pa.float64()), ("y", pa.float64())])
    rows = pa.table({"x": values, "y": values}, schema)
    file = source(files_at(tmp_path), "0.parquet", rows)
    target = Target(schema, (("x",),), Indexed(), file[1]["size"] // 4)
    told = [json.loads(one.statistics) for one in write_sorted(files_at(tmp_path), [file], target)]
    assert all(("y" in one["maxValues"]) == ("x" in one["maxValues"]) for one in told)
    # What is no number comes first, with nulls; and infinity, which is last, has no place in JSON.
    assert len(told) > 2
    assert ["x" in one["maxValues"] for one in told] == [False, *[True] * (len(told) - 2), False]
    assert all(one["minValues"]["x"] <= one["maxValues"]["x"] for one in told[1:-1])


def test_columns_that_somebody_gave_a_table_with_dots_in_their_names_keep_their_values(
    tmp_path: Path,
) -> None:
    schema = pa.schema([("n", pa.int64()), ("tel.no", pa.string()), ("tel", pa.struct([("no", pa.int64())]))])
    rows = [{"n": n, "tel.no": f"+{n}", "tel": {"no": -n}} for n in range(200)]
    file = source(files_at(tmp_path), "0.parquet", pa.Table.from_pylist(rows, schema), 70)
    for by in ((("n",),), (("tel.no",),), (("tel", "no"),), ()):
        target = Target(schema, by, Indexed(), file[1]["size"] // 3)
        made = write_sorted(files_at(tmp_path), [file], target)
        found = [row for some in rows_of(files_at(tmp_path), made) for row in some]
        assert sorted(found, key=lambda row: int(row["n"])) == rows


def test_what_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = files_at(tmp_path)
    files = [source(place, f"{n}.parquet", events(500, n * 500)) for n in range(3)]
    before = sorted(place.names())

    def fails(_: Any) -> None:
        raise OSError("no room")

    monkeypatch.setattr(Written, "close", fails)
    with pytest.raises(OSError, match="no room"):
        write_sorted(place, files, Target(COLUMNS, BY, Indexed(), 2_000))
    assert sorted(place.names()) == before


@given(
    rows=st.lists(
        st.tuples(st.none() | st.text(max_size=3), st.none() | st.dates(date(1, 1, 1), date(9999, 12, 31))),
        max_size=60,
    ),
    file_bytes=st.integers(1, 5_000),
)
def test_any_rows_are_kept_as_they_are(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, Any]], file_bytes: int
) -> None:
    place = files_at(tmp_path_factory.mktemp("t"))
    told = [
        {"n": n, "s": None if name is None else {"name": name}, "day": day, "new": None}
        for n, (name, day) in enumerate(rows)
    ]
    made = written(place, [pa.Table.from_pylist(told, COLUMNS)] if told else [], file_bytes)
    found = sorted((row for some in rows_of(place, made) for row in some), key=lambda row: row["n"])
    assert found == told


def test_of_more_text_than_one_array_has_room_for_some_rows_change_their_order_at_a_time() -> None:
    pieces = list(sorting._in_pieces(much_text()))
    assert sum(piece.num_rows for piece in pieces) == 2 * MUCH
    assert max(piece.nbytes for piece in pieces) <= sorting.MEMORY_BYTES
    last = pieces[-1].take(pa.array([2, 0]))
    assert last["id"].to_pylist() == [2 * MUCH - len(pieces[-1]) + 2, 2 * MUCH - len(pieces[-1])]
    assert list(sorting._in_pieces(COLUMNS.empty_table())) == []


def test_the_curve_goes_through_a_field_of_a_struct_that_has_more_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = much_text()["v"].chunks
    of = [pa.StructArray.from_arrays([pa.array(range(len(one))), one], ["n", "v"]) for one in texts]
    rows = pa.table({"s": pa.chunked_array(of)})

    class Much:
        """An open file."""

        rows = 2 * MUCH

        def groups(self) -> list[tuple[int, int, int]]:
            return [(0, 0, 2 * MUCH)]

        def table(self, _: int, columns: pa.Schema) -> pa.Table:
            return rows.select(columns.names)

        def parts(self, number: int, columns: pa.Schema) -> Iterator[pa.Table]:
            yield self.table(number, columns)

    monkeypatch.setattr(sorting, "opened_in", lambda *_: [(Much(), np.arange(3, 2 * MUCH, dtype=np.uint32))])
    target = Target(rows.schema, (("s", "n"),), Indexed(), 2**20)
    looked = sorting._look(files_at(tmp_path), [], target)
    assert (looked.rows, looked.stay) == (2 * MUCH, 3)


@pytest.mark.parametrize("by", [BY, ()])
def test_of_a_row_group_no_more_is_read_at_once_than_memory_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: tuple[ColumnPath, ...]
) -> None:
    """Others write a million rows as one, and a struct with a field that the curve goes through may have most of them."""
    monkeypatch.setattr(columns, "_ROWS_AT_ONCE", 300)
    monkeypatch.delattr(columns.DataColumns, "table")
    place, rows = files_at(tmp_path), events(1000)
    made = write_sorted(place, [source(place, "file", rows)], Target(COLUMNS, by, Indexed(), 10**9))
    assert sorted(row["n"] for file in rows_of(place, made) for row in file) == [*range(1000)]
