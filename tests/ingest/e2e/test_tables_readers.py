"""What readers find: tables that Spark, delta-rs and DuckDB read alike, and statistics that let Spark skip files."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.ingest.e2e.handmade import registered
from tests.ingest.e2e.pipeline_kit import PipelineKit

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.folder]


def files_read(frame: DataFrame) -> int:
    """How many files Spark opens for this query."""
    frame.collect()
    scan = next(
        node for node in _nodes(frame._jdf.queryExecution().executedPlan()) if "Scan" in node.nodeName()
    )
    return int(scan.metrics().apply("numFiles").value())


def _nodes(plan: Any) -> list[Any]:
    """The operators of a plan, a Java object, from the top."""
    below = plan.inputPlan() if plan.nodeName() == "AdaptiveSparkPlan" else plan
    children = below.children()
    return [below, *(node for i in range(children.size()) for node in _nodes(children.apply(i)))]


def test_column_statistics_make_spark_skip_files(kit: PipelineKit, spark: SparkSession) -> None:
    schema = registered(kit)
    for batch in range(2):
        kit.send([schema.value(game="chess", player=f"p{batch}{n}", level=batch * 100 + n) for n in range(9)])
        kit.run()
    table = spark.read.format("delta").load(str(kit.root / kit.folder_of("chess")))

    assert files_read(table) == 2
    assert files_read(table.where("kafka_offset >= 9")) == 1
    assert files_read(table.where("level < 50")) == 1
    assert files_read(table.where("player = 'p17'")) == 1
    assert table.where("kafka_offset >= 9").count() == 9


# The three read files from before and after an evolution, nested too, in tests/ingest/tables/test_state.py.
@pytest.mark.heavy
def test_spark_delta_rs_and_duckdb_read_the_same_rows_after_nested_evolution(
    kit: PipelineKit, spark: SparkSession
) -> None:
    # Versions 4 and 5 put fields into structs that tables have already.
    for version in (1, 3, 5):
        kit.simulate(version, events=60, games=1)
        kit.run()
    table = kit.folder_of(0)
    dataset = kit.delta(table).to_pyarrow_dataset()  # noqa: F841 - DuckDB finds it by its name
    query = (
        "SELECT count(*), sum(position.x), count(position.drift_v4), count(guild.motto_v5), count(season),"
        " sum(kafka_offset) FROM "
    )

    by_spark = tuple(spark.sql(f"{query} delta.`{kit.root / table}`").first() or ())
    by_duckdb = duckdb.connect().execute(f"{query} dataset").fetchone()

    assert by_spark[0] == 180
    assert by_spark[2] > 0
    assert by_duckdb is not None
    assert by_spark == pytest.approx(by_duckdb)
    kit.assert_clean()
