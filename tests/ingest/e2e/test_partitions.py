"""Tables that are partitioned when they are made: what comes into them, who reads them, and what becomes of runs that die."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.ingest.e2e.handmade import Schema, assert_each_record_in_one_place, quarantined, registered
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.test_tables_readers import files_read

from distributary.errors import BudgetSpent, CommitImpossible
from distributary.ingest.plan import plan
from distributary.ingest.resolve import resolve

pytestmark = [pytest.mark.spark, pytest.mark.stack]

EVENT = """
syntax = "proto3";
message Event {
  string game = 1;
  optional string country = 2;
  int32 level = 3;
  bool paid = 4;
  double score = 5;
}
"""
WITH_MOOD = EVENT.replace("score = 5;", "score = 5;\n  string mood = 6;")
COUNTRIES = ["de", "Côte d'Ivoire", 'a/b=c %20 "x"', "日本", " ", "..", "𠀀"]
BY = ["country", "paid"]


def partitioned(kit: PipelineKit, *by: str, **more: Any) -> Schema:
    schema = registered(kit, EVENT)
    kit.configured(
        sink={"columns": {"kafka_date": "kafka_date"}},
        tables=[{"match": "*", "partition_by": list(by), **more}],
    )
    return schema


def adds(kit: PipelineKit, table: str) -> list[dict[str, Any]]:
    """The files that a table's entries of ours name."""
    root = kit.lake.root
    logs = [root.read(info.path) for info in root.list(f"{table}/_delta_log") if info.name.endswith(".json")]
    actions = [json.loads(line) for log in logs for line in log.splitlines()]
    return [action["add"] for action in actions if "add" in action]


def in_order(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=lambda row: (row["kafka_partition"], row["kafka_offset"]))


@pytest.mark.folder
def test_rows_land_in_their_partitions_and_everybody_reads_them(
    kit: PipelineKit, spark: SparkSession
) -> None:
    schema = partitioned(kit, *BY, "kafka_date")
    sent: list[dict[str, Any]] = [
        {"game": "chess", "country": country, "level": n, "paid": paid}
        for n, country in enumerate(COUNTRIES)
        for paid in (True, False)
    ]
    sent += [{"game": "chess", "country": "", "level": 90}, {"game": "chess", "level": 91}]
    kit.send([schema.value(**one) for one in sent])
    kit.send([schema.value(game="chess", country="__HIVE_DEFAULT_PARTITION__", level=92)], partition=1)
    kit.run()
    later = Schema(kit.register(WITH_MOOD), WITH_MOOD)
    kit.send([later.value(game="chess", country="de", level=100, paid=True, mood="glad")])
    kit.run()

    table = kit.folder_of("chess")
    delta = kit.delta(table)
    assert delta.metadata().partition_columns == [*BY, "kafka_date"]
    today = {row["kafka_ts"].astimezone(timezone.utc).date() for row in in_order(kit.rows(table))}
    assert today <= {datetime.now(timezone.utc).date()} | today
    wanted = [(one.get("country") or None, one["level"], one.get("paid", False)) for one in sent]
    wanted.append(("de", 100, True))
    found = in_order(kit.rows(table))
    assert [(row["country"], row["level"], row["paid"]) for row in found] == wanted
    assert {row["kafka_date"] for row in found} == today
    assert [row["mood"] for row in found] == [None] * len(sent) + ["glad"]
    files = adds(kit, table)
    assert len(files) == len(COUNTRIES) * 2 + 1 + 1
    assert all(set(one["partitionValues"]) == {*BY, "kafka_date"} for one in files)
    assert not any(set(BY) & set(json.loads(one["stats"])["nullCount"]) for one in files)

    by_spark = spark.read.format("delta").load(str(kit.root / table))
    rows = by_spark.orderBy("kafka_partition", "kafka_offset").select("country", "level", "paid").collect()
    assert [tuple(row) for row in rows] == wanted
    for country in COUNTRIES:
        chosen = by_spark.where(by_spark.country == country).where("paid")
        assert (chosen.count(), files_read(chosen)) == (1 + (country == "de"), 1 + (country == "de")), country
    assert by_spark.where("country is null").count() == 2
    (day,) = today
    assert by_spark.where(f"kafka_date = '{day}'").count() == len(wanted)
    dataset = delta.to_pyarrow_dataset()
    chosen = dataset.to_table(filter=pa.compute.field("country") == COUNTRIES[2])
    assert chosen.num_rows == 2
    by_duckdb = duckdb.connect().execute("SELECT country, level, paid FROM dataset ORDER BY kafka_offset")
    assert sorted(map(str, by_duckdb.fetchall())) == sorted(map(str, wanted))
    (refused,) = quarantined(kit)
    assert (refused["reason"], refused["detail"]) == (
        "partition",
        "field country has a value that no partition can have",
    )
    assert_each_record_in_one_place(kit)
    assert kit.unnamed_files() == set()


# Lighter: test_a_field_that_no_table_can_be_partitioned_by_is_told_of_each_record (tests/ingest/worker/test_partitions.py); records that lack
# the field are in test_upserts_in_partitions.py, too.
@pytest.mark.heavy
def test_records_that_lack_the_field_and_types_that_no_table_is_partitioned_by_are_quarantined(
    kit: PipelineKit,
) -> None:
    schema = partitioned(kit, "score")
    kit.configured(
        tables=[
            {"match": "go", "partition_by": ["score"]},
            {"match": "ludo", "partition_by": ["gone"]},
            {"match": "*", "partition_by": ["level"]},
        ]
    )
    (by_score, by_gone, by_level, _) = plan(kit.settings).rules
    assert (by_score.lacking, by_gone.lacking, by_level.lacking) == (("score",), ("gone",), ())
    kit.send([schema.value(game=game, level=1, score=2.5) for game in ("go", "ludo", "chess")])
    kit.run()
    assert [(row["entity"], row["reason"], row["detail"]) for row in quarantined(kit)] == [
        (
            "go",
            "partition",
            "field score is of type double, and tables are partitioned by strings, integers, booleans and dates alone; take it from partition_by",
        ),
        ("ludo", "partition", "its schema has no field gone, by which its table is partitioned"),
    ]
    assert kit.rows(kit.folder_of("chess")).num_rows == 1
    assert not kit.rows(kit.folder_of("go")).num_rows
    assert_each_record_in_one_place(kit)


# Lighter: test_a_table_that_is_partitioned_otherwise_than_its_rule_says_is_refused_with_the_way_out (tests/ingest/tables/test_partitions.py).
@pytest.mark.heavy
def test_a_table_that_is_there_keeps_how_it_is_partitioned(kit: PipelineKit) -> None:
    schema = partitioned(kit, "country")
    kit.send([schema.value(game="chess", country=country) for country in ("de", "fr")])
    kit.run()
    kit.configured(tables=[{"match": "*", "partition_by": ["level"]}])
    kit.send([schema.value(game="chess", country="it")])
    with pytest.raises(
        CommitImpossible, match=r"is partitioned by country, and tables\[0\].partition_by says level"
    ):
        kit.run()
    found = plan(kit.settings)
    assert found.open
    assert "partition_by says level" in found.tables.unread[kit.folder_of("chess")]
    # A rule that says nothing of it leaves it as it is.
    kit.configured(tables=[])
    kit.run()
    assert sorted(row["country"] for row in kit.rows(kit.folder_of("chess")).to_pylist()) == [
        "de",
        "fr",
        "it",
    ]
    assert kit.delta(kit.folder_of("chess")).metadata().partition_columns == ["country"]
    assert {one["partitionValues"]["country"] for one in adds(kit, kit.folder_of("chess"))} == {
        "de",
        "fr",
        "it",
    }
    assert_each_record_in_one_place(kit)


POINTS = (
    "amid_schema_change",
    "before_manifest",
    "after_manifest",
    "between_commits",
    "before_ledger",
    "before_spark_commit",
)


def simulated(kit: PipelineKit) -> PipelineKit:
    return kit.configured(
        sink={"columns": {"kafka_date": "day"}},
        tables=[{"match": "*", "partition_by": ["day", "event_type"]}],
    )


def assert_parted(kit: PipelineKit) -> None:
    kit.assert_clean()
    assert kit.unnamed_files() == set()
    for game in range(3):
        table = kit.folder_of(game)
        assert kit.delta(table).metadata().partition_columns == ["day", "event_type"]
        told = {
            (one["partitionValues"]["day"], one["partitionValues"]["event_type"]) for one in adds(kit, table)
        }
        rows = kit.rows(table).to_pylist()
        assert told == {(row["day"].isoformat(), row["event_type"]) for row in rows}


# Lighter: test_errors_are_survived_within_the_run (test_crashes.py) has the same points; files find their partitions above.
@pytest.mark.heavy
def test_errors_at_every_step_are_survived(kit: PipelineKit, fail_at: Callable[..., None]) -> None:
    simulated(kit).configured(supervisor={"failures": {"max": len(POINTS), "first_wait_seconds": 0}})
    kit.simulate(1, events=200)
    kit.run()
    kit.simulate(2, events=200, games=4, old_producers=0.3)
    fail_at(*(f"{point}:3" for point in POINTS))
    outcome = kit.run()
    assert (outcome.summary.batches, outcome.summary.failures) == (1, len(POINTS))
    assert_parted(kit)


# A worker that is killed over tables without partitions is in `make test`.
@pytest.mark.heavy
def test_a_worker_that_is_killed_leaves_no_partition_twice(kit: PipelineKit) -> None:
    simulated(kit)
    kit.simulate(1, events=200)
    done = kit.run_apart("amid_file:1=kill,before_report:1=kill")
    assert done.returncode == 0, done.stderr
    assert_parted(kit)


# Lighter: tests/ingest/checkpoint/test_manifest_pins.py has batches of partitioned tables written again just the same.
@pytest.mark.heavy
def test_lost_files_are_written_again_into_their_partitions(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    simulated(kit)
    kit.simulate(1, events=200)
    fail_at("after_manifest:1")
    with pytest.raises(BudgetSpent, match="failpoint"):
        kit.run()
    fail_at()
    manifest = kit.manifests.read(1)
    assert manifest is not None
    table = manifest.table(kit.folder_of(0))
    assert table.partitions == ("day", "event_type")
    kit.lake.root.delete([f"{table.folder}/{table.files[0].name}"])
    kit.run()
    assert_parted(kit)


# Lighter: test_a_table_lost_by_hand_waits_for_a_decision (test_stuck_tables.py) makes one anew.
@pytest.mark.heavy
@pytest.mark.folder
def test_a_table_that_is_gone_is_made_anew_in_its_partitions(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    simulated(kit)
    kit.simulate(1, events=200)
    fail_at("between_commits:1")
    kit.configured(limits={"commit_threads": 1})
    with pytest.raises(BudgetSpent, match="failpoint"):
        kit.run()
    fail_at()
    table = max(kit.folder_of(game) for game in range(3))
    (kit.root / table / "_delta_log").rename(kit.folder / "taken")
    with pytest.raises(CommitImpossible, match="there is no Delta table any more"):
        kit.run()
    resolve(kit.settings, table, "recreate")
    kit.run()
    assert_parted(kit)


# Lighter: test_rows_are_brought_together_where_there_would_be_too_many_files (test_brought_together.py).
@pytest.mark.heavy
def test_tables_gather_their_partitions_where_there_are_many(kit: PipelineKit) -> None:
    simulated(kit)
    kit.simulate(1, events=200)
    kit.run()
    kit.configured(limits={"batch_files": 1})
    kit.simulate(1, events=200)
    kit.run()
    assert_parted(kit)
    manifest = kit.manifests.last()
    assert manifest is not None
    (files,) = [one.files for one in manifest.tables if one.folder == kit.folder_of(0)]
    assert len({file.partition for file in files}) == len(files), "a file a partition"
