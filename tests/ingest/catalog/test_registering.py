"""Tables get their names in Spark's catalog, and keep what they are; the metastore is that of the session."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType
from pyspark.sql import SparkSession
from tests.ingest.commits import by_log
from tests.ingest.tables.test_log_commit import written

from distributary.ingest.catalog import registering
from distributary.ingest.catalog.registering import TableNames, location_for_spark
from distributary.ingest.settings.catalog import Catalog
from distributary.ingest.storage.place import Place
from distributary.ingest.storage.posix import PosixFiles
from distributary.ingest.tables.change import create
from distributary.ingest.tables.log_commit import NativeCommits

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([pa.field("a", pa.int64())])


@pytest.fixture
def database(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    name = f"db_{tmp_path.name}".lower().replace("-", "_")
    yield name
    spark.sql(f"DROP DATABASE IF EXISTS `{name}` CASCADE")


def made(root: Path, folder: str, rows: int = 1) -> None:
    create(root / folder, SCHEMA, {"team": "games"})
    files = [written(root / folder, [{"a": row} for row in range(rows)])]
    by_log(NativeCommits(), root / folder, files, SCHEMA, "app/events", 0)


def named(spark: SparkSession, root: Path, database: str, entities: dict[str, str]) -> TableNames:
    """The names of a run that ended well."""
    names = TableNames(spark, Catalog(database=database), PosixFiles(root))
    names.take(entities)
    names.close(wait=True)
    return names


def count(spark: SparkSession, table: str) -> int:
    return spark.table(table).count()


def test_tables_are_found_by_their_names(spark: SparkSession, tmp_path: Path, database: str) -> None:
    root = tmp_path / "a lake [1]"
    made(root, "quest", 3)
    made(root, "game_events_1", 2)
    named(spark, root, database, {"quest": "quest", "game-events": "game_events_1"})
    assert count(spark, f"{database}.quest") == 3
    assert count(spark, f"{database}.game_events") == 2
    told = {
        row["col_name"]: row["data_type"]
        for row in spark.sql(f"DESCRIBE EXTENDED {database}.quest").collect()
    }
    assert "team=games" in told["Table Properties"]
    assert DeltaTable(root / "quest").version() == 1, "the name is no commit"


def test_names_show_what_tables_become(spark: SparkSession, tmp_path: Path, database: str) -> None:
    made(tmp_path, "quest")
    named(spark, tmp_path, database, {"quest": "quest"})
    DeltaTable(tmp_path / "quest").alter.add_columns(Field("b", PrimitiveType("string")))
    assert spark.table(f"{database}.quest").columns == ["a", "b"]


# Lighter: test_tables_that_come_while_a_run_goes_on_are_named_by_its_end.
@pytest.mark.heavy
def test_a_later_run_names_what_came_since_and_leaves_what_went(
    spark: SparkSession, tmp_path: Path, database: str
) -> None:
    made(tmp_path, "quest")
    named(spark, tmp_path, database, {"quest": "quest"})
    made(tmp_path, "golf", 2)
    named(spark, tmp_path, database, {"golf": "golf"})
    assert count(spark, f"{database}.golf") == 2
    assert count(spark, f"{database}.quest") == 1


def test_tables_that_come_while_a_run_goes_on_are_named_by_its_end(
    spark: SparkSession, tmp_path: Path, database: str
) -> None:
    names = TableNames(spark, Catalog(database=database), PosixFiles(tmp_path))
    entities: dict[str, str] = {}
    for folder in ("quest", "golf", "kart"):
        made(tmp_path, folder)
        entities = {**entities, folder: folder}
        names.take(entities)
    names.close(wait=True)
    assert [count(spark, f"{database}.{folder}") for folder in entities] == [1, 1, 1]


def test_a_name_that_is_another_tables_stays_so(
    spark: SparkSession, tmp_path: Path, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    made(tmp_path / "theirs", "quest", 5)
    named(spark, tmp_path / "theirs", database, {"quest": "quest"})
    made(tmp_path / "ours", "quest")
    with caplog.at_level(logging.WARNING):
        named(spark, tmp_path / "ours", database, {"quest": "quest"})
    assert f"{database}.quest is another table, in {tmp_path}/theirs/quest" in caplog.text
    assert count(spark, f"{database}.quest") == 5


def test_a_table_keeps_its_name_from_one_that_comes_later_and_would_be_called_so(
    spark: SparkSession, tmp_path: Path, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whose entity comes first in order: to drop the name, as was said, would have given the other one's rows by it."""
    made(tmp_path, "a_b", 5)
    named(spark, tmp_path, database, {"a_b": "a_b"})
    made(tmp_path, "a_b_1")
    with caplog.at_level(logging.WARNING):
        named(spark, tmp_path, database, {"a-b": "a_b_1", "a_b": "a_b"})
    assert f"table a_b_1 has no name in the catalog, as table a_b is {database}.a_b already" in caplog.text
    assert "DROP TABLE" not in caplog.text
    assert count(spark, f"{database}.a_b") == 5


def test_a_name_that_somebody_gave_a_table_beside_its_own_is_told_with_how_to_get_it(
    spark: SparkSession, tmp_path: Path, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """`catalog.name` has no part in that one."""
    made(tmp_path, "quest", 5)
    named(spark, tmp_path, database, {"quest": "quest"})
    spark.catalog.createTable(f"{database}.golf", f"{tmp_path}/quest", source="delta")
    made(tmp_path, "golf")
    with caplog.at_level(logging.WARNING):
        named(spark, tmp_path, database, {"golf": "golf", "quest": "quest"})
    assert f"DROP TABLE {database}.golf, which leaves its files" in caplog.text
    assert count(spark, f"{database}.quest") == 5


def test_a_table_that_spark_cannot_read_keeps_no_other_from_its_name(
    spark: SparkSession, tmp_path: Path, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    made(tmp_path, "a_broken_one")
    for file in (tmp_path / "a_broken_one" / "_delta_log").glob("*.json"):
        file.write_text("{")
    made(tmp_path, "quest", 2)
    with caplog.at_level(logging.WARNING):
        named(spark, tmp_path, database, {"a_broken_one": "a_broken_one", "quest": "quest"})
    assert count(spark, f"{database}.quest") == 2
    assert f"table a_broken_one has no name in catalog {database}" in caplog.text


def test_a_table_that_was_taken_away_is_not_made_by_naming_it(
    spark: SparkSession, tmp_path: Path, database: str
) -> None:
    made(tmp_path, "golf")
    named(spark, tmp_path, database, {"quest": "quest", "golf": "golf"})
    assert not (tmp_path / "quest").exists()
    assert count(spark, f"{database}.golf") == 1


def test_a_catalog_that_cannot_be_had_costs_a_warning_and_is_asked_again_later(
    spark: SparkSession,
    tmp_path: Path,
    database: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made(tmp_path, "quest")
    names = TableNames(spark, Catalog(database=f"nowhere.{database}"), PosixFiles(tmp_path))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            names.take({"quest": "quest"})
            names.close(wait=True)
    told = [record.message for record in caplog.records if "no names in catalog" in record.message]
    assert len(told) == 1
    assert "rows land meanwhile" in told[0]

    names = TableNames(spark, Catalog(database=database), PosixFiles(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(registering, "_there", None)
        names.take({"quest": "quest"})
        names.close(wait=False)
    assert not spark.catalog.tableExists(f"{database}.quest")


@pytest.mark.parametrize(
    ("place", "location"),
    [
        ("/lake/quest", "/lake/quest"),
        ("s3://bucket/lake/quest", "s3a://bucket/lake/quest"),
        ("hdfs://127.0.0.1:9000/lake/quest", "hdfs://127.0.0.1:9000/lake/quest"),
    ],
)
def test_spark_is_told_places_as_it_reads_them(place: str, location: str) -> None:
    assert location_for_spark(Place.parse(place)) == location
