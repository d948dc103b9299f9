"""Several topics, message types and schema versions at once: each record is decoded with its own schema."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.ingest.e2e.handmade import (
    EVENT,
    Schema,
    assert_each_record_in_one_place,
    column,
    quarantined,
    registered,
    registered_beside,
)
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.ingest.columns.safe_names import CHANGES_TABLE

pytestmark = [pytest.mark.spark, pytest.mark.stack]

FAMILY = """
syntax = "proto3";
message Started {
  string game = 1;
  int64 at = 2;
  message Paused { string game = 1; int64 until = 2; }
  message Resumed { string game = 1; string by = 2; }
}
message Won { string game = 1; string winner = 2; }
"""
SECOND = EVENT.replace("level = 3;", "level = 3;\n  string mood = 4;")
THIRD = SECOND.replace("mood = 4;", "mood = 4;\n  repeated int32 scores = 5;")


def test_message_types_of_one_schema_in_one_topic_are_each_decoded_as_what_they_are(kit: PipelineKit) -> None:
    schema = registered(kit, FAMILY)
    values = [
        schema.value((0,), game="chess", at=1),
        schema.value((1,), game="chess", winner="a"),
        schema.value((0, 0), game="chess", until=2),
        schema.value((0, 1), game="chess", by="b"),
    ]
    kit.send(values)
    kit.send(values[::-1], partition=1)
    kit.run()

    assert column(kit, "chess", "at") == [1, None, None, None, None, None, None, 1]
    assert column(kit, "chess", "winner") == [None, "a", None, None, None, None, "a", None]
    assert column(kit, "chess", "until") == [None, None, 2, None, None, 2, None, None]
    assert column(kit, "chess", "by") == [None, None, None, "b", "b", None, None, None]
    assert quarantined(kit) == []
    assert_each_record_in_one_place(kit)


def test_several_topics_in_one_pipeline_share_tables_and_keep_their_coordinates(
    kit: PipelineKit, make_topic: Callable[[int], str]
) -> None:
    schema = registered(kit)
    first, second = kit.topic, make_topic(1)
    other = registered_beside(kit, SECOND)
    kit.configured(source={"topics": [first, second]})
    kit.send([schema.value(game="chess", player="a"), b"junk", None])
    kit.topic = second
    kit.send([other.value(game="chess", player="b", mood="glad"), b"junk too"])
    kit.run()
    kit.send([other.value(game="chess", player="c")])
    kit.topic = first
    kit.send([schema.value(game="go", player="d")], partition=1)
    kit.run()

    rows = kit.rows(kit.folder_of("chess")).to_pylist()
    assert {(row["kafka_topic"], row["kafka_offset"], row["player"]) for row in rows} == {
        (first, 0, "a"),
        (second, 0, "b"),
        (second, 2, "c"),
    }
    assert column(kit, "go", "kafka_topic") == [first]
    assert {(row["kafka_topic"], row["value"]) for row in quarantined(kit)} == {
        (first, b"junk"),
        (second, b"junk too"),
    }


# `inline` beside old producers is in `make test` too: test_three_versions_in_any_format.
@pytest.mark.parametrize("mode", ["restart", pytest.param("inline", marks=pytest.mark.heavy)])
def test_two_new_versions_meet_in_one_batch_beside_old_producers(kit: PipelineKit, mode: str) -> None:
    kit.configured(decode={"evolution": mode})
    first = registered(kit)
    kit.send([first.value(game="chess", player="a"), first.value(game="go", player="b")])
    kit.run()
    # Nobody has told the pipeline of these: only the records do.
    second, third = registered_beside(kit, SECOND), registered_beside(kit, THIRD)
    # In one task: one entity in all versions; in the other: the newest first.
    kit.send([first.value(game="chess", player="c"), second.value(game="chess", player="d", mood="glad")])
    kit.send([third.value(game="chess", player="e", scores=[1, 2]), first.value(game="go", player="f")])
    kit.send([third.value(game="chess", player="g", mood="calm", scores=[3])], partition=1)
    kit.send([first.value(game="chess", player="h"), second.value(game="go", player="i")], partition=1)
    outcome = kit.run()

    assert column(kit, "chess", "player") == ["a", "c", "d", "e", "g", "h"]
    assert column(kit, "chess", "mood") == [None, None, "glad", "", "calm", None]
    assert column(kit, "chess", "scores") == [None, None, None, [1, 2], [3], None]
    # Only what an entity's own records carried reaches its table.
    assert column(kit, "go", "mood") == [None, None, ""]
    assert "scores" not in kit.rows(kit.folder_of("go")).schema.names
    assert len(outcome.restarts) == (1 if mode == "restart" else 0)
    assert quarantined(kit) == []
    changed = kit.rows(CHANGES_TABLE).to_pylist()
    added = {(row["entity"], row["column"], row["schema_id"]) for row in changed if row["kind"] == "added"}
    assert {(entity, name) for entity, name, _ in added} == {
        ("chess", "mood"),
        ("chess", "scores"),
        ("go", "mood"),
    }
    assert_each_record_in_one_place(kit)


# Old producers in three versions: test_three_versions_over_several_games (test_evolution.py).
@pytest.mark.heavy
def test_old_producers_keep_sending_beside_new_ones_and_every_value_is_right(kit: PipelineKit) -> None:
    kit.simulate(1)
    kit.run()
    kit.simulate(2, old_producers=0.5)
    kit.simulate(5, old_producers=0.7, corrupt=0.02, tombstones=0.02)
    kit.run()

    verdict = kit.assert_clean()

    assert verdict.rows_quarantined > 0
    versions = {row.version for row in kit.truth.sent.values()}
    assert versions == {1, 2, 3, 4, 5}


def test_a_schema_of_another_name_for_the_message_takes_part(kit: PipelineKit) -> None:
    first = registered(kit)
    text = 'syntax = "proto3"; package other; message Strange { int32 level = 9; string game = 7; }'
    other: Schema = registered_beside(kit, text)
    kit.send([first.value(game="chess", level=1), other.value(game="chess", level=2)])
    kit.run()

    assert column(kit, "chess", "level") == [1, 2]
    assert column(kit, "chess", "player") == ["", None]
