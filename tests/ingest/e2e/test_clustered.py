"""Pipelines whose tables are clustered: made so, kept up, changed in place, and shared with Spark's own writer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession
from tests.ingest.e2e.handmade import Schema, assert_each_record_in_one_place, registered
from tests.ingest.e2e.keyed import rows_of
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.test_partitions import EVENT, WITH_MOOD, in_order
from tests.ingest.e2e.test_upkeep import kept_up
from tests.ingest.e2e.test_upserts import POINTS

from distributary.errors import BudgetSpent, CommitImpossible
from distributary.ingest import failpoints
from distributary.ingest.clustering.cubes import PROVIDER
from distributary.ingest.merge import live_files
from distributary.ingest.plan import plan
from distributary.ingest.tables.log import newest_version
from distributary.ingest.tables.state import TableState, read_state

pytestmark = [pytest.mark.spark, pytest.mark.stack]

SMALL = {"delta.targetFileSize": "8kb"}


def clustered(kit: PipelineKit, *by: str, **more: Any) -> Schema:
    schema = registered(kit, EVENT)
    kit.configured(tables=[{"match": "*", "cluster_by": list(by), "properties": SMALL, **more}])
    return schema


def state_of(kit: PipelineKit, table: str) -> TableState:
    found = read_state(kit.lake.root.below(table))
    assert found is not None
    return found


def live(kit: PipelineKit, table: str) -> list[dict[str, Any]]:
    place = kit.lake.root.below(table)
    version = newest_version(place)
    assert version is not None
    return [dict(add) for _, add in live_files.read(place, version)]


def send(kit: PipelineKit, schema: Schema, numbers: Iterable[int]) -> None:
    """Of each number a level and a country that have nothing to do with when it came."""
    kit.send(
        [
            schema.value(game="chess", level=n * 7919 % 1000, country=f"c{n * 104729 % 1000:03}", score=n)
            for n in numbers
        ]
    )


def opened_for(kit: PipelineKit, table: str, level: int) -> int:
    """How many files may have a row of this level, as the log says."""
    told = [json.loads(one["stats"]) for one in live(kit, table)]
    return sum(one["minValues"]["level"] <= level <= one["maxValues"]["level"] for one in told)


# Lighter: test_a_simulation_whose_tables_are_clustered_is_verified sorts, too.
@pytest.mark.heavy
@pytest.mark.folder
def test_upkeep_narrows_what_is_read_beside_spark_and_batches_go_on(
    kit: PipelineKit, spark: SparkSession
) -> None:
    schema = clustered(kit, "level", "country")
    kit.configured(limits={"batch_rows": 300})
    send(kit, schema, range(2_400))
    kit.run()
    table = kit.folder_of("chess")
    assert state_of(kit, table).clustering == (("level",), ("country",))
    levels = range(50, 1000, 50)
    before = sum(opened_for(kit, table, level) for level in levels) / len(live(kit, table))
    done = {one.table: one for one in kept_up(kit).tables}[table]
    assert (done.left, done.failed) == ((), None)
    after = sum(opened_for(kit, table, level) for level in levels) / len(live(kit, table))
    assert before == len(levels)
    assert after < before / 2
    assert {one["clusteringProvider"] for one in live(kit, table)} == {PROVIDER}
    assert {one.table: one for one in kept_up(kit).tables}[table].compacted == 0
    assert_each_record_in_one_place(kit)

    (told,) = spark.sql(f"DESCRIBE DETAIL delta.`{kit.root / table}`").collect()
    assert told["clusteringColumns"] == ["level", "country"]
    send(kit, schema, range(2_400, 2_500))
    kit.run()
    spark.sql(f"OPTIMIZE delta.`{kit.root / table}`").collect()
    send(kit, schema, range(2_500, 2_600))
    # A column that is new comes in by an entry of ours, too.
    later = Schema(kit.register(WITH_MOOD), WITH_MOOD)
    kit.send([later.value(game="chess", level=5, country="x", score=2_600, mood="glad")])
    kit.run()
    kept_up(kit)
    scores = sorted(int(row["score"]) for row in kit.rows(table).to_pylist())
    assert scores == list(range(2_601))
    assert spark.read.format("delta").load(str(kit.root / table)).where("mood = 'glad'").count() == 1
    rows = kit.delta(table).to_pyarrow_dataset()
    assert duckdb.connect().execute("SELECT count(*) FROM rows").fetchall() == [(2_601,)]
    assert rows.count_rows() == 2_601
    assert_each_record_in_one_place(kit)


# Lighter: test_columns_change_in_place_by_one_entry_and_nothing_the_second_time (tests/ingest/tables/test_clustering.py).
@pytest.mark.heavy
def test_columns_change_in_place_and_a_plan_tells_it_before(kit: PipelineKit) -> None:
    schema = clustered(kit, "level")
    send(kit, schema, range(20))
    kit.run()
    table = kit.folder_of("chess")
    kit.configured(tables=[{"match": "*", "cluster_by": ["country", "kafka_offset"], "properties": SMALL}])
    (rule, _) = plan(kit.settings).rules
    assert not rule.open
    ((setting,),) = [one.settings for one in rule.changes]
    assert (setting.name, setting.before, setting.after) == ("cluster_by", "level", "country, kafka_offset")
    send(kit, schema, range(20, 40))
    kit.run()
    assert state_of(kit, table).clustering == (("country",), ("kafka_offset",))
    # What is said of nothing stays as it is.
    kit.configured(tables=[])
    send(kit, schema, range(40, 60))
    kit.run()
    assert state_of(kit, table).clustering == (("country",), ("kafka_offset",))
    kept_up(kit)
    kit.configured(tables=[{"match": "*", "cluster_by": []}], sink={"cluster_by": ["level"]})
    send(kit, schema, range(60, 80))
    kit.run()
    assert state_of(kit, table).clustering == ()
    kit.configured(tables=[])
    send(kit, schema, range(80, 100))
    kit.run()
    assert state_of(kit, table).clustering == (("level",),)
    assert kept_up(kit).compacted > 0
    assert kit.rows(table).num_rows == 100
    assert_each_record_in_one_place(kit)


def test_a_field_that_no_schema_has_is_told_and_comes_in_when_it_comes(kit: PipelineKit) -> None:
    schema = clustered(kit, "mood", "paid", "level")
    (rule, _) = plan(kit.settings).rules
    assert (rule.open, rule.unclustered) == (True, ("mood", "paid"))
    send(kit, schema, range(5))
    kit.run()
    table = kit.folder_of("chess")
    assert state_of(kit, table).clustering == (("level",),)
    later = Schema(kit.register(WITH_MOOD), WITH_MOOD)
    for _ in range(2):
        kit.send([later.value(game="chess", mood="glad", score=9)])
        kit.run()
    assert state_of(kit, table).clustering == (("mood",), ("level",))
    assert all("mood" in json.loads(one["stats"])["nullCount"] for one in live(kit, table)[1:])
    assert_each_record_in_one_place(kit)


# Lighter: test_partitions_and_clusters_exclude_each_other_with_the_way_out (tests/ingest/tables/test_clustering.py).
@pytest.mark.heavy
def test_partitions_and_clusters_are_not_changed_into_each_other(kit: PipelineKit) -> None:
    schema = registered(kit, EVENT)
    kit.configured(tables=[{"match": "*", "partition_by": ["country"]}])
    send(kit, schema, range(5))
    kit.run()
    kit.configured(tables=[{"match": "*", "cluster_by": ["level"]}])
    send(kit, schema, range(5, 10))
    with pytest.raises(
        CommitImpossible, match=r"is partitioned by country, and tables\[0\].cluster_by says level"
    ):
        kit.run()
    assert "cluster_by says level" in plan(kit.settings).tables.unread[kit.folder_of("chess")]
    kit.configured(tables=[{"match": "*", "cluster_by": []}])
    kit.run()
    assert kit.rows(kit.folder_of("chess")).num_rows == 10


# Lighter: test_errors_at_each_step_leave_one_row_a_key_and_no_record_counted_twice (test_upserts.py) has the same points.
@pytest.mark.heavy
def test_errors_at_every_step_are_survived_by_tables_with_one_row_a_key(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    schema = clustered(kit, "score", "country", mode="upsert", keys=["level"])
    kit.configured(supervisor={"failures": {"max": len(POINTS), "first_wait_seconds": 0}})
    send(kit, schema, range(100))
    fail_at(*(f"{point}:1" for point in POINTS))
    outcome = kit.run()
    assert outcome.summary.failures == len(POINTS)
    fail_at()
    kept_up(kit)
    send(kit, schema, range(50, 150))
    kit.run()
    table = kit.folder_of("chess")
    kept_up(kit)
    assert sorted(int(row["score"]) for row in rows_of(kit, table)) == list(range(150))
    assert {one["clusteringProvider"] for one in live(kit, table)} == {PROVIDER}
    assert not any("deletionVector" in one for one in live(kit, table))
    assert state_of(kit, table).clustering == (("score",), ("country",))


# Lighter: tests/ingest/checkpoint/test_manifest_pins.py has them written again, tests/ingest/upkeep/test_clustered.py brought together.
@pytest.mark.heavy
def test_files_of_columns_behind_those_with_bounds_tell_theirs_and_do_when_they_are_written_again(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    schema = clustered(kit, "score")
    told = {**SMALL, "delta.dataSkippingNumIndexedCols": "1"}
    kit.configured(tables=[{"match": "*", "cluster_by": ["score"], "properties": told}])
    send(kit, schema, range(10))
    fail_at("after_manifest:1")
    with pytest.raises(BudgetSpent, match="failpoint"):
        kit.run()
    fail_at()
    manifest = kit.manifests.read(1)
    assert manifest is not None
    table = manifest.table(kit.folder_of("chess"))
    kit.lake.root.delete([f"{table.folder}/{table.files[0].name}"])
    kit.run()
    assert all("score" in json.loads(one["stats"])["minValues"] for one in live(kit, table.folder))
    kept_up(kit)
    assert all("score" in json.loads(one["stats"])["minValues"] for one in live(kit, table.folder))
    assert [int(row["score"]) for row in in_order(kit.rows(table.folder))] == list(range(10))


def test_a_simulation_whose_tables_are_clustered_is_verified(kit: PipelineKit) -> None:
    kit.configured(sink={"cluster_by": ["event_type", "kafka_ts"]}, limits={"batch_rows": 300})
    kit.simulate(1)
    kit.run()
    kept_up(kit)
    kit.simulate(2, games=4, old_producers=0.3)
    kit.run()
    kept_up(kit)
    for game in range(4):
        table = kit.folder_of(game)
        assert state_of(kit, table).clustering == (("event_type",), ("kafka_ts",))
        assert {one.get("clusteringProvider") for one in live(kit, table)} == {PROVIDER}
    kit.assert_clean()


# Lighter: test_a_run_keeps_its_tables_up_by_itself_when_it_is_time (test_upkeep.py); clustered ones are kept up by hand above.
@pytest.mark.heavy
def test_a_run_keeps_clustered_tables_up_by_itself(kit: PipelineKit) -> None:
    schema = clustered(kit, "level")
    kit.configured(sink={"maintain": {"every_hours": 0.0001}}, limits={"batch_rows": 50})
    send(kit, schema, range(200))
    kit.run()
    table = kit.folder_of("chess")
    assert {one.get("clusteringProvider") for one in live(kit, table)} == {PROVIDER}
    assert_each_record_in_one_place(kit)


def test_upkeep_that_is_killed_amid_it_loses_nothing(kit: PipelineKit) -> None:
    schema = clustered(kit, "level")
    send(kit, schema, range(100))
    kit.run()
    table = kit.folder_of("chess")
    place = kit.lake.root.below(table)
    version = newest_version(place)
    command = [sys.executable, "-m", "distributary", "maintain", str(kit.settings_file)]
    killed = {**os.environ, failpoints.VARIABLE: f"{failpoints.AMID_UPKEEP}=kill"}
    done = subprocess.run(command, env=killed, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert newest_version(place) == version
    assert kit.rows(table).num_rows == 100
    (left,) = (name for name in place.names() if name.startswith("part-"))
    kept_up(kit)
    kept_up(kit, days=8)
    assert kit.rows(table).num_rows == 100
    there = {name for name in place.names() if name.startswith("part-")}
    assert there == {one["path"] for one in live(kit, table)}
    assert left not in there
    assert_each_record_in_one_place(kit)
