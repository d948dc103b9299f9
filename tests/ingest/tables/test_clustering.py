"""Tables that are clustered: made so, changed in place, and known as such to Spark, delta-rs and DuckDB."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from tests.ingest.commits import by_log

from distributary.errors import CommitImpossible, PipelineError
from distributary.ingest.clustering.domain import clustered_by, clustering_action
from distributary.ingest.columns.clustering import ClusterBy
from distributary.ingest.columns.layout import SOURCE, Layout
from distributary.ingest.log_paths import LOG
from distributary.ingest.parquet.buffers import TableBuffers
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.parquet.statistics import Indexed
from distributary.ingest.settings.groups import Columns
from distributary.ingest.settings.rule_book import TableSpec
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.change import create, evolve
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.known import TableBook, named_columns
from distributary.ingest.tables.log import entry
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.properties import CLUSTERED, Setting, differing, retell
from distributary.ingest.tables.state import TableState, read_state, require_clustering, require_partitions

SCHEMA = pa.schema(
    [
        ("a", pa.int64()),
        ("s", pa.struct([("b", pa.string()), ("c", pa.bool_())])),
        ("d", pa.date32()),
        ("on", pa.bool_()),
    ]
)
BY = ClusterBy(("a", "s.b"))


def spec(*fields: str, **more: Any) -> TableSpec:
    return TableSpec(cluster_by=ClusterBy(fields, setting="sink.cluster_by"), **more)


def state_of(table: Path) -> TableState:
    found = read_state(table)
    assert found is not None
    return found


def made(table: Path, by: ClusterBy = BY, schema: pa.Schema = SCHEMA, **properties: str) -> Path:
    named = {name.replace("__", "."): value for name, value in properties.items()}
    create(table, schema, named, cluster_by=by)
    return table


def appended(table: Path, batch: int, rows: int = 10, schema: pa.Schema = SCHEMA) -> None:
    assert by_log(NativeCommits(), table, written(table, rows, schema), schema, "app", batch, {})


def written(table: Path, rows: int, schema: pa.Schema = SCHEMA) -> list[DataFile]:
    held = TableBuffers(str(table.parent), "0" * 8, 0, 10**9, lambda _: Layout(schema))
    told = [{"a": n, "s": {"b": f"s{n % 3}", "c": True}} for n in range(rows)]
    held.add(table.name, pa.RecordBatch.from_pylist(told, schema))
    held.close()
    return held.files


def protocol(table: Path) -> Mapping[str, Any]:
    found = DeltaTable(table).protocol()
    return {
        "versions": (found.min_reader_version, found.min_writer_version),
        "writers": set(found.writer_features or []),
        "readers": set(found.reader_features or []),
    }


def detail(spark: SparkSession, table: Path) -> list[str]:
    columns: list[str] = spark.sql(f"DESCRIBE DETAIL delta.`{table}`").collect()[0]["clusteringColumns"]
    return columns


def test_a_table_is_made_clustered_as_the_protocol_has_it(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    assert protocol(table) == {
        "versions": (1, 7),
        "writers": {"domainMetadata", "clustering", "appendOnly", "invariants"},
        "readers": set(),
    }
    (told,) = [one["domainMetadata"] for one in entry(files_at(table), 0) if "domainMetadata" in one]
    assert (told["domain"], told["removed"]) == ("delta.clustering", False)
    assert json.loads(told["configuration"]) == {
        "clusteringColumns": [["a"], ["s", "b"]],
        "domainName": "delta.clustering",
    }
    assert state_of(table).clustering == (("a",), ("s", "b"))
    assert state_of(table).native


def test_a_copy_of_its_beginning_is_clustered_as_well(tmp_path: Path) -> None:
    first = create(tmp_path / "t", SCHEMA, {}, cluster_by=BY)
    assert first is not None
    second = create(tmp_path / "u", SCHEMA, {}, first, cluster_by=BY)
    assert second is not None
    assert second.clustering == state_of(tmp_path / "u").clustering == (("a",), ("s", "b"))


def test_tables_whose_rows_may_be_marked_and_times_without_a_zone_need_their_readers_features(
    tmp_path: Path,
) -> None:
    table = made(
        tmp_path / "t",
        schema=SCHEMA.append(pa.field("at", pa.timestamp("us"))),
        delta__enableDeletionVectors="true",
        delta__enableChangeDataFeed="true",
    )
    assert protocol(table)["versions"] == (3, 7)
    assert protocol(table)["readers"] == {"deletionVectors", "timestampNtz"}
    assert protocol(table)["writers"] >= {"deletionVectors", "timestampNtz", "changeDataFeed", "clustering"}


def test_fields_that_a_table_does_not_have_or_that_have_no_bounds_are_left_out(tmp_path: Path) -> None:
    renamed = pa.schema([pa.field("b_1", pa.int32(), metadata={SOURCE: b"b"}), ("kafka_offset", pa.int64())])
    by = ClusterBy(("gone", "on", "s", "b", "kafka_offset"), frozenset({"kafka_offset"}))
    assert by.paths(pa.schema([*SCHEMA, *renamed])) == (("b_1",), ("kafka_offset",))
    assert by.lacking([SCHEMA]) == ("gone", "on", "s", "b")
    assert by.lacking([]) == ()
    table = made(tmp_path / "t", ClusterBy(("gone",)))
    assert state_of(table).clustering == ()


# Lighter: test_a_copy_of_its_beginning_is_clustered_as_well.
@pytest.mark.heavy
@pytest.mark.spark
def test_checkpoints_keep_what_a_table_is_clustered_by_whoever_writes_them(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = made(tmp_path / "t")
    appended(table, 0)
    opened(table).create_checkpoint()
    (table / LOG / f"{0:020d}.json").unlink()
    assert clustered_by(files_at(table), 1, []) == (("a",), ("s", "b"))
    assert state_of(table).clustering == (("a",), ("s", "b"))
    assert detail(spark, table) == ["a", "s.b"]
    other = made(tmp_path / "u", delta__checkpointInterval="2")
    for n in range(3):
        spark.sql(f"INSERT INTO delta.`{other}` (a) VALUES ({n})")  # noqa: S608
    assert list((other / LOG).glob("*.checkpoint.parquet"))
    assert state_of(other).clustering == (("a",), ("s", "b"))


def test_everybody_reads_one_and_delta_rs_says_that_it_cannot_write_to_it(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    appended(table, 0)
    assert DeltaTable(table).to_pyarrow_table().num_rows == 10
    rows = DeltaTable(table).to_pyarrow_dataset()
    assert duckdb.connect().execute("SELECT count(*) FROM rows").fetchall() == [(10,)]
    assert rows.count_rows() == 10
    with pytest.raises(Exception, match="Unsupported table features required"):
        write_deltalake(table, DeltaTable(table).to_pyarrow_table(), mode="append")


@pytest.mark.spark
def test_columns_change_in_place_by_one_entry_and_nothing_the_second_time(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = made(tmp_path / "t")
    appended(table, 0)
    wanted = spec("d", "s.b", properties={"mine": "1"})
    assert retell(table, wanted) == (
        Setting("mine", None, "1"),
        Setting(CLUSTERED, "a, s.b", "d, s.b"),
    )
    assert retell(table, wanted) == ()
    assert state_of(table).clustering == (("d",), ("s", "b"))
    assert detail(spark, table) == ["d", "s.b"]
    assert retell(table, spec()) == (Setting(CLUSTERED, "d, s.b", None),)
    assert state_of(table).clustering == ()
    assert detail(spark, table) == []
    spark.sql(f"ALTER TABLE delta.`{table}` CLUSTER BY (a)")
    assert state_of(table).clustering == (("a",),)
    spark.sql(f"ALTER TABLE delta.`{table}` CLUSTER BY NONE")
    assert state_of(table).clustering == ()
    assert differing(state_of(table), TableSpec()) == ()
    assert DeltaTable(table).to_pyarrow_table().num_rows == 10


@pytest.mark.spark
# The oldest and the newest: what stands between is a table of the oldest with a feature more.
@pytest.mark.parametrize("reader_and_writer", [(1, 2), pytest.param((1, 4), marks=pytest.mark.heavy), (3, 7)])
def test_a_table_that_was_none_becomes_a_clustered_one(
    tmp_path: Path, spark: SparkSession, reader_and_writer: tuple[int, int]
) -> None:
    table, more = tmp_path / "t", {(1, 2): {}, (1, 4): {"delta.enableChangeDataFeed": "true"}}
    schema = SCHEMA.append(pa.field("at", pa.timestamp("us"))) if reader_and_writer == (3, 7) else SCHEMA
    create(table, schema, more.get(reader_and_writer, {}))
    assert protocol(table)["versions"] == reader_and_writer
    appended(table, 0, schema=schema)
    assert state_of(table).clustering is None
    assert retell(table, spec("a")) == (Setting(CLUSTERED, None, "a"),)
    now = protocol(table)
    assert now["versions"] == (max(reader_and_writer[0], 1), 7)
    implied = {(1, 2): {"appendOnly", "invariants"}, (1, 4): {"checkConstraints", "changeDataFeed"}}
    assert now["writers"] >= {"clustering", "domainMetadata"} | implied.get(reader_and_writer, set())
    assert detail(spark, table) == ["a"]
    assert spark.sql(f"SELECT * FROM delta.`{table}`").count() == 10  # noqa: S608
    appended(table, 1, schema=schema)
    spark.sql(f"INSERT INTO delta.`{table}` (a) VALUES (77)")  # noqa: S608
    appended(table, 2, schema=schema)
    assert state_of(table).clustering == (("a",),)
    assert DeltaTable(table).to_pyarrow_table().num_rows == 31


def test_columns_are_added_in_structs_and_lists_as_well_and_keep_what_is_said_of_those_there(
    tmp_path: Path,
) -> None:
    nested = pa.schema([("a", pa.int64()), ("l", pa.list_(pa.struct([("x", pa.int32())])))])
    table = made(tmp_path / "t", schema=nested)
    more = pa.schema(
        [
            ("l", pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())]))),
            ("m", pa.map_(pa.string(), pa.int32())),
            ("at", pa.timestamp("us")),
        ]
    )
    assert [path.rpartition(".")[2] for path in evolve(table, more)] == ["y", "m", "at"]
    state = state_of(table)
    assert [one.name for one in state.layout.field("l").type.value_type] == ["x", "y"]
    assert state.layout.names == ["a", "l", "m", "at"]
    assert protocol(table)["versions"] == (3, 7)
    assert protocol(table)["readers"] == {"timestampNtz"}
    assert state.clustering == (("a",),)
    assert evolve(table, more) == ()
    appended(table, 0, schema=pa.schema([("a", pa.int64())]))


@pytest.mark.spark
def test_one_that_spark_made_is_appended_to_with_bounds_of_its_columns_wherever_they_are(
    tmp_path: Path, spark: SparkSession
) -> None:
    columns = ", ".join(f"c{n} INT" for n in range(3))
    spark.sql(
        f"CREATE TABLE delta.`{tmp_path / 't'}` ({columns}) USING delta CLUSTER BY (c2) "
        "TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'c2')"
    )
    state = state_of(tmp_path / "t")
    assert (state.why_not, state.clustering) == ("", (("c2",),))
    book = TableBook(str(tmp_path), Columns(), None)
    assert book.pinned({"chess": "t"})["t"].clustered == ("c2",)
    assert named_columns(state) == ("c2",)


@pytest.mark.spark
def test_columns_that_have_other_names_in_files_are_changed_by_spark_and_read_by_those_of_the_table(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = tmp_path / "t"
    spark.sql(
        f"CREATE TABLE delta.`{table}` (a LONG, s STRUCT<b: STRING>) USING delta CLUSTER BY (a) "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    assert state_of(table).clustering == (("a",),)
    (told,) = [one["domainMetadata"] for one in entry(files_at(table), 0) if "domainMetadata" in one]
    assert '"a"' not in told["configuration"]
    with pytest.raises(
        PipelineError, match="cluster_by would be set, and it needs Spark for it: column mapping"
    ):
        retell(table, spec("s.b"))
    assert retell(table, spec("s.b", "a"), spark) == (Setting(CLUSTERED, "a", "s.b, a"),)
    assert state_of(table).clustering == (("s", "b"), ("a",))
    assert detail(spark, table) == ["s.b", "a"]
    retell(table, spec(), spark)
    assert state_of(table).clustering == ()


def test_partitions_and_clusters_exclude_each_other_with_the_way_out(tmp_path: Path) -> None:
    create(tmp_path / "p", SCHEMA, {}, partitions=["d"])
    with pytest.raises(
        CommitImpossible, match=r"is partitioned by d, and sink.cluster_by says a: .*cluster_by: \[\]"
    ):
        require_clustering(state_of(tmp_path / "p"), spec("a"))
    require_clustering(state_of(tmp_path / "p"), spec())
    assert differing(state_of(tmp_path / "p"), spec("a")) == ()
    with pytest.raises(CommitImpossible, match=r"is clustered by a, s.b, and sink.partition_by says d"):
        require_partitions(state_of(made(tmp_path / "c")), TableSpec(partition_by=("d",)), None)


def test_a_column_of_which_old_files_tell_nothing_is_refused(tmp_path: Path) -> None:
    create(tmp_path / "t", SCHEMA, {"delta.dataSkippingNumIndexedCols": "2"})
    state = state_of(tmp_path / "t")
    require_clustering(state, spec("a", "s.b"))
    with pytest.raises(
        CommitImpossible, match="says d, of which its files tell no bounds: it is behind the first 2"
    ):
        require_clustering(state, spec("a", "d"))
    assert not Indexed(2).has_column(SCHEMA, ("d",))
    # Of one that was made so they all tell.
    born = made(tmp_path / "u", ClusterBy(("d",)), delta__dataSkippingNumIndexedCols="0")
    require_clustering(state_of(born), spec("d"))


def test_what_the_log_says_is_read_by_its_newest_word_and_by_physical_names(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    physical = [
        {
            "name": "s",
            "type": {
                "type": "struct",
                "fields": [
                    {"name": "b", "type": "string", "metadata": {"delta.columnMapping.physicalName": "col-2"}}
                ],
            },
            "metadata": {"delta.columnMapping.physicalName": "col-1"},
        }
    ]
    log = table / LOG
    told = {
        "domain": "delta.clustering",
        "configuration": '{"clusteringColumns":["col-1"]}',
        "removed": False,
    }
    (log / f"{1:020d}.json").write_text(json.dumps({"domainMetadata": told}))
    (log / f"{2:020d}.json").write_text(json.dumps(clustering_action([("col-1", "col-2"), ("x",)])))
    (log / f"{3:020d}.json").write_text(json.dumps({"domainMetadata": {**told, "domain": "mine"}}))
    place = files_at(table)
    assert clustered_by(place, 0, physical) == (("a",), ("s", "b"))
    assert clustered_by(place, 1, physical) == (("s",),)
    assert clustered_by(place, 3, physical) == (("s", "b"), ("x",))
    (log / f"{4:020d}.json").write_text(json.dumps({"domainMetadata": {**told, "removed": True}}))
    assert clustered_by(place, 4, physical) == ()
