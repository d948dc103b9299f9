from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.ingest.kafka_records import GENERATION

from distributary.ingest.columns.layout import Layout
from distributary.ingest.parquet import buffers as table_buffers
from distributary.ingest.parquet.buffers import SAMPLE_ROWS, Chunk, TableBuffers, dictionary_columns
from distributary.ingest.parquet.data_file import owner

NARROW = pa.schema([("n", pa.int64())])
WIDE = NARROW.append(pa.field("m", pa.int64()))


def rows(*numbers: int, schema: pa.Schema = NARROW) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"n": number, "m": number} for number in numbers], schema)


def buffers(root: Path, limit: int = 10**6, schema: pa.Schema = NARROW) -> TableBuffers:
    return TableBuffers(str(root), GENERATION, 3, limit, lambda table: Layout(schema))


def read(root: Path, held: TableBuffers, table: str) -> list[int]:
    names = [file.name for file in held.files if file.table == table]
    return [n for name in names for n in pq.ParquetFile(root / table / name).read()["n"].to_pylist()]


def test_a_file_says_whose_it_is_how_large_and_what_is_in_it(tmp_path: Path) -> None:
    held = buffers(tmp_path)
    held.add("t", rows(5, 7))
    held.add("t", rows(6))
    held.close()
    (file,) = held.files
    assert owner(file.name) == (GENERATION[:8], 3)
    assert (file.table, file.rows) == ("t", 3)
    assert file.bytes == (tmp_path / "t" / file.name).stat().st_size
    told = json.loads(file.statistics)
    assert (told["numRecords"], told["minValues"]["n"], told["maxValues"]["n"]) == (3, 5, 7)
    assert read(tmp_path, held, "t") == [5, 7, 6]


def test_nothing_is_written_before_memory_is_full(tmp_path: Path) -> None:
    held = buffers(tmp_path, limit=100)
    held.add("t", rows(1))
    held.grew(100)
    assert not (tmp_path / "t").exists()
    held.grew(1)
    assert (tmp_path / "t").exists()


def test_a_table_keeps_its_file_over_several_spills(tmp_path: Path) -> None:
    held = buffers(tmp_path, limit=0)
    for number in range(3):
        held.add("t", rows(number))
        held.grew(1)
    held.close()
    (file,) = held.files
    assert pq.ParquetFile(tmp_path / "t" / file.name).metadata.num_row_groups == 3
    assert read(tmp_path, held, "t") == [0, 1, 2]


def test_while_tables_are_many_their_files_are_closed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_buffers, "MOST_OPEN_FILES", 2)
    held = buffers(tmp_path, limit=0)
    for _ in range(2):
        for table in "abc":
            held.add(table, rows(1))
        held.grew(1)
    assert Counter(file.table for file in held.files) == {"a": 2, "b": 2, "c": 2}
    held.close()
    assert len(held.files) == 6


def test_a_table_that_grew_gets_a_new_file_and_earlier_rows_the_new_column(tmp_path: Path) -> None:
    schemas = {"t": NARROW}
    held = TableBuffers(str(tmp_path), GENERATION, 3, 0, lambda table: Layout(schemas[table]))
    held.add("t", rows(1))
    held.grew(1)
    held.add("t", rows(2))
    schemas["t"] = WIDE
    held.add("t", rows(3, schema=WIDE))
    held.close()
    names = [pq.ParquetFile(tmp_path / "t" / file.name).schema_arrow.names for file in held.files]
    assert names == [["n"], ["n", "m"]]
    assert read(tmp_path, held, "t") == [1, 2, 3]


def test_without_rows_there_is_no_file(tmp_path: Path) -> None:
    held = buffers(tmp_path)
    held.close()
    assert held.files == []
    assert list(tmp_path.iterdir()) == []


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.integers(0, 5), st.booleans(), st.booleans()), max_size=25
    ),
    st.integers(0, 120),
    st.integers(1, 5),
)
@settings(max_examples=examples(25), deadline=None)
def test_any_sequence_of_rows_growth_and_spills_keeps_every_row_in_order(
    adds: list[tuple[str, int, bool, bool]], limit: int, most_open: int
) -> None:
    schemas = dict.fromkeys("abcd", NARROW)
    sent: dict[str, list[int]] = {}
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_buffers, "MOST_OPEN_FILES", most_open)
        held = TableBuffers(folder, GENERATION, 3, limit, lambda table: Layout(schemas[table]))
        number = 0
        for table, count, grows, told in adds:
            if grows:
                schemas[table] = WIDE
            if count:
                numbers = range(number, number + count)
                number += count
                sent.setdefault(table, []).extend(numbers)
                held.add(table, rows(*numbers, schema=schemas[table]))
            if told:
                held.grew(count * 16)
        held.close()
        assert {table: read(Path(folder), held, table) for table in sent} == sent
        assert sum(file.rows for file in held.files) == number


FOLDERS = ["zero", "one", "two"]
WHOLE = pa.schema([("n", pa.int64()), ("text", pa.string())])
PART = WHOLE.remove(1)
ADDS = st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 2), max_size=6)), max_size=12)


@given(ADDS, st.sampled_from([0, 50, 200, 10**6]), st.sampled_from([0, 100, 10**6]))
@settings(max_examples=examples(25), deadline=None)
def test_each_tables_rows_of_one_schema_keep_their_order_and_none_is_lost(
    adds: list[tuple[bool, list[int]]], chunk_limit: int, limit: int
) -> None:
    with TemporaryDirectory() as root:
        buffers = TableBuffers(root, GENERATION, 0, limit, lambda folder: Layout(WHOLE))
        chunk = Chunk(buffers, FOLDERS, chunk_limit)
        sent: dict[tuple[str, bool], list[int]] = {}
        number = 0
        for whole, codes in adds:
            numbers = list(range(number, number + len(codes)))
            number += len(codes)
            for n, code in zip(numbers, codes, strict=True):
                sent.setdefault((FOLDERS[code], whole), []).append(n)
            rows = [{"n": n, "text": f"t{n}"} for n in numbers]
            chunk.add(
                pa.RecordBatch.from_pylist(rows, WHOLE if whole else PART), np.array(codes, dtype=np.int32)
            )
        chunk.flush()
        buffers.close()
        found: dict[tuple[str, bool], list[int]] = {}
        for file in buffers.files:
            rows_in_file = pq.ParquetFile(Path(root, file.table, file.name)).read().to_pylist()
            assert file.rows == len(rows_in_file)
            for row in rows_in_file:
                assert row["text"] in (None, f"t{row['n']}")
                found.setdefault((file.table, row["text"] is not None), []).append(row["n"])
        assert found == sent


ROWS = pa.table(
    {
        "id": pa.array(range(5_000), pa.int64()),
        "game": ["chess", "go"] * 2_500,
        "on": [True, False] * 2_500,
        "place": [{"x": float(i), "y": 1.0} for i in range(5_000)],
        "tags": [["a", "b"]] * 5_000,
        "bag": pa.array([[("gold", i)] for i in range(5_000)], pa.map_(pa.string(), pa.int64())),
        "none": pa.nulls(5_000, pa.string()),
    }
)


def test_columns_whose_values_repeat_get_a_dictionary() -> None:
    assert dictionary_columns(ROWS) == ["game", "place.y", "tags.list.element", "bag.key_value.key", "none"]


def test_the_paths_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(ROWS, path, use_dictionary=dictionary_columns(ROWS))
    group = pq.read_metadata(path).row_group(0)
    columns = [group.column(place) for place in range(group.num_columns)]
    encoded = [column.path_in_schema for column in columns if "RLE_DICTIONARY" in column.encodings]
    assert encoded == dictionary_columns(ROWS)


def test_no_rows_and_one_part_of_a_longer_table_can_be_looked_at() -> None:
    assert "id" in dictionary_columns(ROWS.slice(0, 0))
    assert dictionary_columns(pa.concat_tables([ROWS.slice(100, 7), ROWS])) == dictionary_columns(ROWS)
    assert ROWS.num_rows > SAMPLE_ROWS


def test_of_a_maps_keys_no_more_than_the_samples_are_looked_at() -> None:
    names = ["gold"] * SAMPLE_ROWS + [f"name{n}" for n in range(3 * SAMPLE_ROWS)]
    rows = pa.table({"bag": pa.array([[(name, 1)] for name in names], pa.map_(pa.string(), pa.int64()))})
    assert dictionary_columns(rows) == ["bag.key_value.key", "bag.key_value.value"]


@pytest.mark.parametrize("most", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("limit", [10**6, 20])
def test_a_file_has_at_most_so_many_rows_and_none_is_lost(tmp_path: Path, most: int, limit: int) -> None:
    limits = {"few": most, "any": None}
    held = TableBuffers(str(tmp_path), GENERATION, 3, limit, lambda _: Layout(NARROW), limits.get)
    for start in range(0, 12, 4):
        for table in limits:
            held.add(table, rows(*range(start, start + 4)))
        held.grew(64)
    held.close()
    for table in limits:
        assert read(tmp_path, held, table) == list(range(12))
    counts = [file.rows for file in held.files if file.table == "few"]
    assert max(counts) == min(most, 12)
    assert len(counts) == -(-12 // most)
    assert len([file for file in held.files if file.table == "any"]) == 1
