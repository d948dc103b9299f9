"""Replays of quarantined records beside what else keeps, checks, bounds or counts records."""

from __future__ import annotations

from typing import Any

import pytest
from tests.ingest.e2e.as_they_came import assert_all_kept, kept
from tests.ingest.e2e.handmade import EVENT, column, quarantined, reasons, registered, registered_beside
from tests.ingest.e2e.keyed import rows_of
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.registry_proxy import registry_proxy
from tests.ingest.e2e.test_expectations import EXPECT, RECORDS, assert_sound, body, pipeline, positions

from distributary.errors import PolicyStopped
from distributary.ingest.derived.refresh import derive
from distributary.ingest.quarantine.contents import contents
from distributary.ingest.replay.bring_back import BroughtBack, bring_back
from distributary.ingest.table_versions import TableVersion, versions_at
from distributary.ingest.tables.handle import opened
from distributary.producer_sim.stack.local import LocalStack

pytestmark = [pytest.mark.spark, pytest.mark.stack]

WITH_MOOD = EVENT.replace("int32 level = 3;", "int32 level = 3;\n  string mood = 4;")


def back(kit: PipelineKit) -> BroughtBack:
    return bring_back(kit.settings, spark=kit.spark)


def rows_at(kit: PipelineKit, one: TableVersion) -> int:
    table = opened(kit.lake.root.below(one.table))
    table.load_as_version(one.version)
    return int(table.to_pyarrow_table().num_rows)


# A table a topic is shown in test_bronze.py, too.
@pytest.mark.parametrize("table", ["bronze", pytest.param("raw_{topic}", marks=pytest.mark.heavy)])
def test_what_is_kept_as_it_came_is_kept_once_however_often_it_is_decoded(
    kit: PipelineKit, stack: LocalStack, table: str
) -> None:
    players = {
        "table": "gold_{entity}",
        "aggregate": {"by": ["player"], "columns": {"n": "count(*)"}},
        "every_batches": 1,
    }
    kit.configured(bronze={"table": table}, derive=[players])
    if "{topic}" in table:
        kit.configured(source={"topics": [f"/{kit.topic}.*/"]})
    old, new = registered(kit), registered_beside(kit, WITH_MOOD)
    with registry_proxy(stack.registry_url) as proxy:
        kit.configured(registry={"url": proxy.url, "unknown_id_wait_seconds": 0.0})
        proxy.deny(new.id, times=100)
        kit.send([old.value(game="chess", player="a")])
        kit.send([new.value(game="chess", player=player, mood="glad") for player in "abc"], partition=1)
        kit.run()
    kit.configured(registry={"url": stack.registry_url})
    (folder,) = [one for one in kit.versions() if one.startswith(("bronze", "raw_"))]
    assert reasons(kit)["unknown_schema"] == 3
    # That bronze has them says nothing of their tables.
    before = kept(kit, folder)
    (one,) = back(kit).replays
    assert one.became.tables == {kit.folder_of("chess"): 3}
    assert column(kit, "chess", "player") == ["a", "a", "b", "c"]
    assert kept(kit, folder) == before
    assert_all_kept(kit, folder)
    assert contents(kit.settings).open == 0
    assert_sound(kit)
    assert [done.how for done in derive(kit.settings, kit.spark)] == ["added"]
    counts = {row["player"]: row["n"] for row in kit.rows("gold_chess").to_pylist()}
    assert counts == {"a": 2, "b": 1, "c": 1}
    kit.send([new.value(game="chess", player="d", mood="sad")])
    kit.run()
    assert_all_kept(kit, folder)
    assert_sound(kit)
    assert kit.rows("gold_chess").num_rows == 4


# Lighter: test_what_is_kept_as_it_came_is_kept_once_however_often_it_is_decoded brings records back.
@pytest.mark.heavy
def test_what_an_expectation_put_aside_comes_back_by_what_is_expected_today(kit: PipelineKit) -> None:
    pipeline(kit)
    kit.send(RECORDS)
    kit.run()
    assert [row["kafka_offset"] for row in quarantined(kit)] == [2, 4, 5]
    # As long as that is expected nothing comes back.
    assert back(kit).resolved == 0
    assert positions(kit, "go") == [0, 1]
    assert_sound(kit)
    # A record that stops a run stops a replay, and nothing of it is visible.
    stops = {"sane_heart": {"condition": "heart between 20 and 250", "otherwise": "fail"}}
    pipeline(kit, stops)
    with pytest.raises(PolicyStopped, match="sane_heart"):
        back(kit)
    assert positions(kit, "go") == [0, 1]
    relaxed: dict[str, Any] = {**EXPECT, "sane_heart": {"condition": "heart > 1", "otherwise": "quarantine"}}
    pipeline(kit, relaxed)
    done = back(kit)
    became = [one.became for one in done.replays]
    assert sum(one.tables.get("go", 0) for one in became) == 1
    assert sum(one.dropped for one in became) == 1
    assert positions(kit, "go") == [0, 1, 2]
    assert contents(kit.settings).open == 1
    assert_sound(kit)
    kit.send([body(), body(heart=0)])
    kit.run()
    assert positions(kit, "go") == [0, 1, 2, 7]
    assert_sound(kit)


def test_records_of_partitions_that_are_read_no_more_come_back(kit: PipelineKit, stack: LocalStack) -> None:
    old, new = registered(kit), registered_beside(kit, WITH_MOOD)
    with registry_proxy(stack.registry_url) as proxy:
        kit.configured(registry={"url": proxy.url, "unknown_id_wait_seconds": 0.0})
        proxy.deny(new.id, times=100)
        for partition in (0, 1):
            kit.send(
                [old.value(game="chess", player="a"), new.value(game="chess", player="b", mood="glad")],
                partition=partition,
            )
        kit.run()
    kit.configured(registry={"url": stack.registry_url}, source={"partitions": {kit.topic: [0]}})
    assert back(kit).resolved == 2
    assert column(kit, "chess", "player") == ["a", "b", "a", "b"]
    kit.send([old.value(game="chess", player="c")])
    kit.run()
    assert len(rows_of(kit, kit.folder_of("chess"))) == 5
    assert_sound(kit)


def test_a_run_up_to_an_offset_leaves_derived_tables_of_just_that(kit: PipelineKit) -> None:
    schema = registered(kit)
    rule = {"table": "gold_{entity}", "aggregate": {"by": ["player"], "columns": {"n": "count(*)"}}}
    kit.configured(derive=[rule], source={"until": {kit.topic: {"0": 3, "1": 0}}})
    kit.send([schema.value(game="chess", player="a") for _ in range(5)])
    kit.run()
    assert kit.rows("gold_chess").to_pylist() == [{"player": "a", "n": 3}]
    kit.configured(source={"until": {kit.topic: {"0": 5, "1": 0}}})
    kit.run()
    assert kit.rows("gold_chess").to_pylist() == [{"player": "a", "n": 5}]


# Lighter: a replay alone, and a table that is derived of all of another, are in test_replays.py and test_derived_tables.py.
@pytest.mark.heavy
def test_a_table_that_came_by_a_replay_alone_is_one_to_derive_of(kit: PipelineKit, stack: LocalStack) -> None:
    rule = {"table": "gold_{entity}", "aggregate": {"by": ["player"], "columns": {"n": "count(*)"}}}
    kit.configured(derive=[rule])
    old, new = registered(kit), registered_beside(kit, WITH_MOOD)
    with registry_proxy(stack.registry_url) as proxy:
        kit.configured(registry={"url": proxy.url, "unknown_id_wait_seconds": 0.0})
        proxy.deny(new.id, times=100)
        kit.send([old.value(game="chess", player="a"), new.value(game="go", player="b", mood="glad")])
        kit.run()
    kit.configured(registry={"url": stack.registry_url})
    assert back(kit).resolved == 1
    # No batch has a row there.
    first = versions_at(kit.settings)
    only_replayed = first[kit.folder_of("go")]
    assert (only_replayed.batch, rows_at(kit, only_replayed)) == (None, 1)
    assert {done.table: done.how for done in derive(kit.settings, kit.spark)} == {
        "gold_chess": "current",
        "gold_go": "made",
    }
    assert kit.rows("gold_go").to_pylist() == [{"player": "b", "n": 1}]
    kit.send([old.value(game="chess", player="c")])
    kit.run()
    assert {done.table for done in derive(kit.settings, kit.spark)} == {"gold_chess", "gold_go"}
    kit.send([old.value(game="go", player="c")])
    kit.run()
    assert kit.rows("gold_go").num_rows == 2
    now = versions_at(kit.settings)
    assert (now[kit.folder_of("go")].batch, rows_at(kit, now[kit.folder_of("go")])) == (now.batch, 2)
    # As of a batch from before any had a row for it.
    assert versions_at(kit.settings, first.batch)[kit.folder_of("go")] == only_replayed
