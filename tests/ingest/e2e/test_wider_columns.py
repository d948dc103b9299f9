"""A field that becomes wider while old and new producers send: the tables it reaches get wider columns, every value in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.ingest.e2e.handmade import (
    EVENT,
    assert_each_record_in_one_place,
    column,
    registered,
    registered_beside,
)
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.errors import BudgetSpent
from distributary.ingest.checkpoint.change_log import ChangeLog
from distributary.ingest.columns.safe_names import CHANGES_TABLE

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.folder]

WIDER = EVENT.replace("int32 level = 3;", "int64 level = 3;\n  string mood = 4;")
BIG = 2**40


def by_spark(kit: PipelineKit, spark: SparkSession, game: str) -> list[tuple[Any, ...]]:
    frame = spark.read.format("delta").load(str(kit.root / kit.folder_of(game)))
    ordered = frame.orderBy("kafka_partition", "kafka_offset")
    return [tuple(row) for row in ordered.select("level", "mood").collect()]


# Lighter: test_a_wider_type_keeps_what_fits_and_the_policy_says_where_the_rest_goes[widen], and of batches that die while tables grow
# test_errors_are_survived_within_the_run (test_crashes.py).
@pytest.mark.heavy
@pytest.mark.parametrize("evolution", ["restart", "inline"])
def test_tables_of_wider_records_get_wider_columns_across_a_crash(
    kit: PipelineKit, spark: SparkSession, fail_at: Callable[..., None], evolution: str
) -> None:
    narrow, wide = registered(kit), registered_beside(kit, WIDER)
    kit.configured(decode={"evolution": evolution}, policies={"wider_type": "widen"})
    kit.send([narrow.value(game=game, level=1) for game in ("chess", "golf")])
    kit.run()
    kit.send([narrow.value(game="chess", level=2), wide.value(game="chess", level=BIG, mood="glad")])
    kit.send([narrow.value(game=game, level=3) for game in ("chess", "golf", "darts")], partition=1)
    # The column is wider by then, and no manifest says so.
    fail_at("before_manifest:3")
    with pytest.raises(BudgetSpent):
        kit.run()
    assert kit.manifests.last_batch() == 1
    # So is a table that the batch was the first to bring, and by now it brings wider records for that.
    kit.send([wide.value(game="darts", level=BIG, mood="calm")], partition=1)
    kit.run()
    # One that never heard of the new schema goes on beside one that did; then a table that is new.
    kit.send([narrow.value(game="chess", level=4), wide.value(game="chess", level=-BIG)], partition=1)
    kit.send([narrow.value(game="go", level=5), wide.value(game="go", level=BIG)], partition=1)
    kit.run()

    assert by_spark(kit, spark, "chess") == [
        (1, None),
        (2, None),
        (BIG, "glad"),
        (3, None),
        (4, None),
        (-BIG, ""),
    ]
    assert by_spark(kit, spark, "darts") == [(3, None), (BIG, "calm")]
    # Nothing wider came for this one, and the new one was made as wide: both stay on the native way.
    assert column(kit, "golf", "level") == [1, 3]
    assert kit.rows(kit.folder_of("golf")).schema.field("level").type == "int32"
    assert column(kit, "go", "level") == [5, BIG]
    features = kit.delta(kit.folder_of("chess")).protocol().writer_features
    assert "typeWidening" in (features or [])
    logged = [
        (one.change.kind, one.change.column)
        for one in ChangeLog(kit.checkpoint).read(1)
        if one.change.table == kit.folder_of("chess")
    ]
    assert sorted(logged) == [("added", "mood"), ("widened", "level")]
    told = [
        (row["kind"], row["column"], row["decision"], row["before"], row["type"], row["schema_id"])
        for row in kit.rows(CHANGES_TABLE).to_pylist()
        if row["table"] == kit.folder_of("chess") and row["batch_id"] > 1
    ]
    assert sorted(told) == [
        ("added", "mood", "add", None, "string", wide.id),
        ("widened", "level", "widen", "int", "bigint", wide.id),
    ]
    assert kit.unnamed_files() == set()
    assert_each_record_in_one_place(kit)


# Lighter: tests/ingest/columns/test_widening.py widens tables with rows, and the one above has a wider type in a stream.
@pytest.mark.heavy
def test_every_value_is_in_its_column_as_verify_sees_it(kit: PipelineKit) -> None:
    kit.configured(decode={"format": "avro"}, policies={"wider_type": "widen"})
    kit.simulate(1, format="avro")
    kit.run()
    kit.simulate(
        2, versions=1, changes=("widened",), format="avro", old_producers=0.4, games=2, widens=True, seed=0
    )
    kit.run()

    kit.assert_clean()
    columns = pa.schema(kit.delta(kit.folder_of(0)).schema().to_arrow())
    assert columns.field("level").type == "int64"
    assert columns.field("inventory").type.item_type == "int64"
    assert "_rescued_data" not in columns.names
    assert kit.rows(kit.folder_of(2)).schema.field("level").type == "int32"
