"""Tables that the user made before the run, with features delta-rs does not master: Spark's writer fills them, right."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.ingest.e2e.handmade import EVENT, Schema, column, quarantined, reasons, registered
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.parquet.data_file import owner

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.heavy, pytest.mark.folder]

COLUMNS = "(game string, player string, level int)"
# What each game's table is made with; the plain one is for comparison, and one in partitions of plain values is filled as that is.
MADE = {
    "mapped": f"{COLUMNS} USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "tracked": f"{COLUMNS} USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
    "parted": f"{COLUMNS} USING delta PARTITIONED BY (level)",
    "timed": "(game string, player string, level int, kafka_ts timestamp) USING delta PARTITIONED BY (kafka_ts)",
    "checked": f"{COLUMNS} USING delta",
    "required": "(game string, player string NOT NULL, level int) USING delta",
    "computed": "(game string, player string, level int, twice int GENERATED ALWAYS AS (level * 2)) USING delta",
    "plain": f"{COLUMNS} USING delta",
}
WITH_MOOD = EVENT.replace("level = 3;", "level = 3;\n  string mood = 4;")


def path_of(kit: PipelineKit, game: str) -> str:
    return f"{kit.root / kit.folder_of(game)}"


def make(kit: PipelineKit, spark: SparkSession, game: str) -> None:
    kit.root.mkdir(exist_ok=True)
    head, _, tail = MADE[game].partition(" USING ")
    spark.sql(f"CREATE TABLE delta.`{path_of(kit, game)}` {head} USING {tail}")
    if game == "checked":
        spark.sql(f"ALTER TABLE delta.`{path_of(kit, game)}` ADD CONSTRAINT low CHECK (level < 100)")


def rows_by_spark(spark: SparkSession, kit: PipelineKit, game: str, *names: str) -> list[tuple[Any, ...]]:
    spark.catalog.clearCache()
    frame = spark.read.format("delta").load(path_of(kit, game))
    return [tuple(row) for row in frame.orderBy("kafka_partition", "kafka_offset").select(*names).collect()]


def test_tables_with_features_of_their_own_get_their_rows_right_once_and_grow(
    kit: PipelineKit, spark: SparkSession
) -> None:
    first = registered(kit)
    for game in MADE:
        make(kit, spark, game)
    kit.send([first.value(game=game, player=f"p{n}", level=n) for game in MADE for n in (1, 2)])
    kit.send([first.value(game=game, player="other task", level=3) for game in MADE], partition=1)
    kit.run()
    kit.run()
    second = Schema(kit.register(WITH_MOOD), WITH_MOOD)
    kit.send([second.value(game=game, player="p4", level=4, mood="glad") for game in MADE])
    kit.run()

    expected = [("p1", 1, None), ("p2", 2, None), ("p4", 4, "glad"), ("other task", 3, None)]
    for game in MADE:
        assert rows_by_spark(spark, kit, game, "player", "level", "mood") == expected, game
        leftovers = [path.name for path in (kit.root / kit.folder_of(game)).glob("*.parquet")]
        # Spark's writer writes files of its own; ours were copies.
        assert any(owner(name) for name in leftovers) == (game in ("plain", "parted")), game
    assert rows_by_spark(spark, kit, "computed", "twice") == [(2,), (4,), (8,), (6,)]
    assert quarantined(kit) == []
    batches = sorted(kit.rows(BATCHES_TABLE).to_pylist(), key=lambda row: row["batch_id"])
    assert [row["rows_tables"] for row in batches] == [3 * len(MADE), len(MADE)]


@pytest.mark.parametrize("renamed", [False, True])
def test_rows_that_a_table_refuses_are_quarantined_and_the_others_are_in(
    kit: PipelineKit, spark: SparkSession, renamed: bool
) -> None:
    schema = registered(kit)
    if renamed:
        columns = {"kafka_topic": "topic", "kafka_partition": "part", "kafka_offset": "place"}
        kit.configured(sink={"columns": columns})
    make(kit, spark, "checked")
    kit.send([schema.value(game="checked", level=level) for level in (1, 100, 2, 5000)])
    kit.send([schema.value(game="checked", level=level) for level in (99, 101)], partition=1)
    kit.send([schema.value(game="free", level=100)])
    kit.run()

    frame = spark.read.format("delta").load(path_of(kit, "checked"))
    assert sorted(row.level for row in frame.select("level").collect()) == [1, 2, 99]
    refused = [(row["kafka_partition"], row["kafka_offset"], row["reason"]) for row in quarantined(kit)]
    assert refused == [(0, 1, "constraint"), (0, 3, "constraint"), (1, 1, "constraint")]
    assert all("low" in row["detail"] or "level < 100" in row["detail"] for row in quarantined(kit))
    assert kit.rows(kit.folder_of("free")).num_rows == 1


def test_rows_for_which_a_condition_fails_are_quarantined_and_the_others_are_in(
    kit: PipelineKit, spark: SparkSession
) -> None:
    schema = registered(kit)
    for game in ("checked", "computed"):
        make(kit, spark, game)
    spark.sql(f"ALTER TABLE delta.`{path_of(kit, 'checked')}` ADD CONSTRAINT divided CHECK (9 / level > 0)")
    kit.send([schema.value(game="checked", level=level) for level in (1, 0, 2)])
    kit.send([schema.value(game="computed", level=level) for level in (1, 2_000_000_000, 2)])
    assert kit.run().summary.failures == 0

    assert rows_by_spark(spark, kit, "checked", "level") == [(1,), (2,)]
    assert rows_by_spark(spark, kit, "computed", "level", "twice") == [(1, 2), (2, 4)]
    assert reasons(kit) == {"constraint": 2}
    assert not any("2000000000" in row["detail"] for row in quarantined(kit))


def test_a_constraint_that_somebody_adds_later_holds_from_the_next_batch_on(
    kit: PipelineKit, spark: SparkSession
) -> None:
    schema = registered(kit)
    kit.send([schema.value(game="chess", level=level) for level in (1, 500)])
    kit.run()
    spark.sql(f"ALTER TABLE delta.`{path_of(kit, 'chess')}` ADD CONSTRAINT some CHECK (level < 1000)")
    kit.send([schema.value(game="chess", level=level) for level in (2, 5000)])
    kit.run()

    assert column(kit, "chess", "level") == [1, 500, 2]
    assert reasons(kit) == {"constraint": 1}


def test_a_table_with_a_constraint_gets_new_columns_and_new_nested_fields(
    kit: PipelineKit, spark: SparkSession
) -> None:
    text = (
        'syntax = "proto3"; message Event { string game = 1; Head head = 2; message Head { int32 a = 1; } }'
    )
    first = registered(kit, text)
    kit.send([first.value(game="chess", head={"a": 1})])
    kit.run()
    spark.sql(f"ALTER TABLE delta.`{path_of(kit, 'chess')}` ADD CONSTRAINT some CHECK (head.a < 10)")
    grown = text.replace("int32 a = 1;", "int32 a = 1; string b = 2;").replace(
        "2; message", "2; int32 level = 3; message"
    )
    second = Schema(kit.register(grown), grown)
    kit.send([second.value(game="chess", head={"a": a, "b": "x"}, level=a) for a in (2, 20)])
    kit.run()

    heads = [{"a": 1, "b": None}, {"a": 2, "b": "x"}]
    assert (column(kit, "chess", "head"), column(kit, "chess", "level")) == (heads, [None, 2])
    assert reasons(kit) == {"constraint": 1}


def test_a_table_whose_columns_are_at_odds_with_the_records_keeps_its_own(
    kit: PipelineKit, spark: SparkSession
) -> None:
    schema = registered(kit)
    kit.root.mkdir()
    # A name that differs by case only, and a type that the values do not go into.
    ddl = "(game string, Player string, level date, note string) USING delta"
    spark.sql(f"CREATE TABLE delta.`{path_of(kit, 'chess')}` {ddl}")
    kit.configured(policies={"incompatible_type": "rescue"})
    kit.send([schema.value(game="chess", player="a", level=5)])
    kit.run()

    (row,) = kit.rows(kit.folder_of("chess")).to_pylist()
    assert (row["level"], row["note"], row["Player"]) == (None, None, None)
    assert row["_rescued_data"] == '{"level":5}'
    (renamed,) = [name for name in row if name.lower().startswith("player_")]
    assert row[renamed] == "a"
