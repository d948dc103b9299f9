from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from distributary.ingest.parquet.buffers import SAMPLE_ROWS, dictionary_columns

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
