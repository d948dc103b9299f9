"""Small files that are looked up in, read without a session."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.ingest.derived.test_refresh import Bench

from distributary.errors import PipelineError
from distributary.ingest.derivation.beside import Static
from distributary.ingest.derived import lookups as lookups_module
from distributary.ingest.derived.lookups import Lookup, lookups
from distributary.ingest.storage.options import StorageOptions


def test_a_line_may_end_within_quotes_wherever_in_a_file(tmp_path: Path) -> None:
    """Arrow reads a file by pieces of a megabyte, and took a line that ends within quotes at the end of one for the end of a row."""
    path = tmp_path / "devices.csv"
    text = "first\n" * 40
    path.write_text("device,about\n" + "".join(f'{number},"{text}"\n' for number in range(10_000)))
    found = lookups({"devices": Static.model_validate({"path": str(path)})}, StorageOptions())["devices"]
    assert isinstance(found, Lookup)
    assert found.table.num_rows == 10_000
    assert set(found.table["about"].to_pylist()) == {text}


def test_of_nanoseconds_in_a_file_what_spark_has_no_place_for_is_cut_off(tmp_path: Path) -> None:
    """Pandas writes such."""
    path = tmp_path / "seasons.parquet"
    pq.write_table(
        pa.table({"at": pa.array([1_700_000_000_123_456_789, None, -1], pa.timestamp("ns"))}), path
    )
    found = lookups({"seasons": Static.model_validate({"path": str(path)})}, StorageOptions())["seasons"]
    assert isinstance(found, Lookup)
    assert found.table["at"].cast(pa.int64()).to_pylist() == [1_700_000_000_123_456, None, -1]
    assert found.table.schema.field("at").type.unit == "us"


def test_a_file_with_what_spark_has_no_type_for_is_told_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "seasons.parquet"
    for values in (pa.array([2**63 - 1], pa.timestamp("ms")), pa.array([1], pa.decimal256(50, 2))):
        pq.write_table(pa.table({"at": values}), path)
        with pytest.raises(PipelineError, match=r"static table seasons: .*seasons.parquet cannot be read"):
            lookups({"seasons": Static.model_validate({"path": str(path)})}, StorageOptions())


def test_one_that_many_tables_look_things_up_in_is_read_once_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, read_by_itself = list[str](), lookups_module._of_file

    def noted(name: str, *given: Any) -> Lookup:
        reads.append(name)
        return read_by_itself(name, *given)

    monkeypatch.setattr(lookups_module, "_of_file", noted)
    path = tmp_path / "devices.csv"

    def prices(price: str, age: float) -> list[Any]:
        """Those that are found in a file of this age, asked for twice, and how often it was read."""
        reads.clear()
        path.write_text(f"device,price\nphone,{price}\n")
        os.utime(path, times=(moment := time.time() - age, moment))
        found = list[Any]()
        for _ in range(2):
            one = lookups({"devices": Static.model_validate({"path": str(path)})}, StorageOptions())[
                "devices"
            ]
            assert isinstance(one, Lookup)
            found += one.table["price"].to_pylist()
        return [*found, len(reads)]

    assert prices("10", 100) == ["10", "10", 1]
    assert prices("12", 50) == ["12", "12", 1]
    assert prices("13", 0) == ["13", "13", 2], "it may change within the same moment"


def test_what_is_large_in_memory_is_not_held_there_however_small_its_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = lookups_module._Known()
    monkeypatch.setattr(lookups_module, "_known", known)
    monkeypatch.setattr(lookups_module, "_MOST_BYTES", 2**20)
    for name, rows in {"a": 500, "large": 2_000, "b": 400, "c": 400}.items():
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"about": ["x" * 1_000] * rows}), path)
        os.utime(path, times=(moment := time.time() - 100, moment))
        found = lookups({name: Static.model_validate({"path": str(path)})}, StorageOptions())[name]
        assert isinstance(found, Lookup)
        assert found.table.num_rows == rows
        if name == "large":
            assert [one[1] for one in known._found] == ["a.parquet"]
    assert [one[1] for one in known._found] == ["b.parquet", "c.parquet"]


@pytest.mark.spark
def test_what_tasks_were_given_is_left_on_no_disk(tmp_path: Path, spark: SparkSession) -> None:
    """A turn a minute would fill it within months."""
    path = tmp_path / "devices.csv"
    path.write_text("k,about\n" + "".join(f"{number},{number:060}\n" for number in range(40_000)))
    rule = {
        "table": "gold",
        "inputs": ["t"],
        "static": {"devices": {"path": str(path)}},
        "sql": "SELECT count(*) AS n FROM t JOIN devices ON t.k = devices.k",
    }
    bench = Bench(tmp_path / "lake", spark)
    folder = Path(str(spark.sparkContext._temp_dir))
    bench.put({"k": "7"})
    before = set(folder.iterdir())
    assert bench.derive(rule).how == "made"
    assert bench.rows() == [{"n": 1}]
    assert set(folder.iterdir()) <= before
