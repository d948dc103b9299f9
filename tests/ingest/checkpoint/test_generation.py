"""A checkpoint's identity, and what it notices about the world."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.ingest.pipelines import settings

from distributary.errors import CheckpointMismatch
from distributary.ingest.checkpoint.folder import GENERATION, Checkpoint
from distributary.ingest.checkpoint.generation import (
    FORMAT,
    Generation,
    Start,
    World,
    born,
    check_same_topics,
    check_same_world,
    fingerprint,
    read_generation,
)
from distributary.ingest.commit_log.entries import Owner, Standing
from distributary.ingest.settings.model import Settings

TOPICS = {"events": "uuid-1", "more": "uuid-2"}
FINGERPRINT = {
    "route.field": "game_name",
    "decode.format": "protobuf",
    "sink.columns": {"b": 1, "a": ("x", "y")},
}
WORLD = World("cluster-1", TOPICS, FINGERPRINT)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint.at(tmp_path / "games")


@pytest.fixture
def generation(checkpoint: Checkpoint) -> Generation:
    return born(checkpoint, "games", WORLD)


def test_a_new_checkpoint_has_no_generation(checkpoint: Checkpoint) -> None:
    assert read_generation(checkpoint) is None


def test_what_was_born_is_read_back(checkpoint: Checkpoint) -> None:
    start = Start("from_tables", {"events": {0: 5, 1: 0}}, {"silver_a": {"events": {0: 7}}})
    made = born(checkpoint, "games", WORLD, start)
    assert read_generation(checkpoint) == made
    assert made.start == start
    assert made.app_id("silver_a") == f"{made.id}/silver_a"


def test_what_earlier_programs_would_place_twice_they_refuse_to_read(checkpoint: Checkpoint) -> None:
    start = Start("from_tables", {"events": {0: 5}}, placed={"events": {0: [(5, 7), (9, 10)]}})
    made = born(checkpoint, "games", WORLD, start)
    assert read_generation(checkpoint) == made
    assert made.format == FORMAT > born(Checkpoint(checkpoint.files.below("other")), "games", WORLD).format


def test_whose_tables_it_takes_is_kept_and_earlier_versions_say_nothing_of_it(checkpoint: Checkpoint) -> None:
    after = Owner("games", "/old", "old-id", "lineage")
    made = born(
        checkpoint, "games", WORLD, Start("from_tables", lineage="lineage", after=after, dead=("a", "b"))
    )
    kept = read_generation(checkpoint)
    assert kept == made and kept.start.after is not None
    assert kept.start.after.lineage == "lineage"
    value = json.loads(checkpoint.files.read(GENERATION))
    del value["start"]["after"], value["start"]["dead"]
    checkpoint.files.put(GENERATION, json.dumps(value).encode())
    assert read_generation(checkpoint) == replace(made, start=Start("from_tables", lineage="lineage"))


def test_what_counts_as_committed_ends_behind_the_highest_offset_of_any_table() -> None:
    already = {"chess": {"a": {0: 3, 1: 9}}, "go": {"a": {0: 5}}}
    start = Start("from_tables", already=already, placed={"a": {1: [(2, 4), (6, 12)], 2: []}})
    assert start.counted() == {"a": {0: 5, 1: 12}}
    assert Start().counted() == {}


def test_a_root_that_was_kept_with_two_slashes_is_that_with_one(generation: Generation) -> None:
    kept, now = ({**FINGERPRINT, "sink.root": root} for root in ("//mnt/lake", "/mnt/lake"))
    before = replace(generation, world=World("cluster-1", TOPICS, kept))
    check_same_world(before, World("cluster-1", TOPICS, now))
    check_same_world(before, World("cluster-1", TOPICS, kept))
    with pytest.raises(CheckpointMismatch, match=r'sink\.root was "//mnt/lake" and is "/mnt/pond"'):
        check_same_world(before, World("cluster-1", TOPICS, {**FINGERPRINT, "sink.root": "/mnt/pond"}))


def test_no_two_are_alike(tmp_path: Path) -> None:
    made = {born(Checkpoint.at(tmp_path / name), "games", WORLD).id for name in "ab"}
    assert len(made) == 2


def test_a_checkpoint_is_born_once(checkpoint: Checkpoint, generation: Generation) -> None:
    with pytest.raises(CheckpointMismatch, match="has a generation already"):
        born(checkpoint, "games", WORLD)
    assert read_generation(checkpoint) == generation


def test_the_same_world_is_accepted(generation: Generation) -> None:
    check_same_world(generation, World("cluster-1", dict(reversed(TOPICS.items())), FINGERPRINT))


def test_another_cluster_is_named(generation: Generation) -> None:
    with pytest.raises(CheckpointMismatch, match=r"'cluster-1'.*'cluster-2'.*start: again"):
        check_same_world(generation, World("cluster-2", TOPICS, FINGERPRINT))


def test_a_topic_made_anew_is_named(generation: Generation) -> None:
    with pytest.raises(
        CheckpointMismatch, match=r"'more' was made anew.*uuid-2.*uuid-9.*start: again"
    ) as caught:
        check_same_world(generation, World("cluster-1", {**TOPICS, "more": "uuid-9"}, FINGERPRINT))
    assert "'events'" not in str(caught.value)


@pytest.mark.parametrize("now", [{"events": "uuid-1"}, {**TOPICS, "third": "uuid-3"}])
def test_topics_that_come_and_go_are_no_other_world(generation: Generation, now: dict[str, str]) -> None:
    check_same_world(generation, World("cluster-1", now, {**FINGERPRINT, "source.topics": sorted(now)}))


def test_topics_that_came_and_went_are_known_by_its_log(generation: Generation) -> None:
    so_far = Standing(
        ends={"events": {0: 5}, "third": {0: 1}}, left={"more": {0: 3}}, topics={"third": "uuid-3"}
    )
    now = generation.as_of(so_far)
    assert now.world.topics == {"events": "uuid-1", "third": "uuid-3"}
    assert now.topics == {**TOPICS, "third": "uuid-3"}
    for name in ("third", "more"):
        with pytest.raises(CheckpointMismatch, match=f"{name!r} was made anew"):
            check_same_topics(now, {**now.topics, name: "uuid-9"})
    assert generation.as_of(None) == generation


def test_a_topic_made_anew_since_the_start_is_named(generation: Generation) -> None:
    check_same_topics(generation, TOPICS)
    with pytest.raises(CheckpointMismatch, match=r"'more' was made anew"):
        check_same_topics(generation, {**TOPICS, "more": "uuid-9"})


def test_topic_ids_an_old_broker_does_not_have_are_not_compared(generation: Generation) -> None:
    check_same_world(generation, World("cluster-1", {"events": "", "more": ""}, FINGERPRINT))


def test_a_topic_id_is_one_in_either_spelling(checkpoint: Checkpoint) -> None:
    kept = born(checkpoint, "games", World("cluster-1", {"events": "ab+/cdefghijklmnopqr+A"}, {}))
    check_same_world(kept, World("cluster-1", {"events": "ab-_cdefghijklmnopqr-A"}, {}))
    with pytest.raises(CheckpointMismatch, match="'events' was made anew"):
        check_same_world(kept, World("cluster-1", {"events": "ab__cdefghijklmnopqr-A"}, {}))


def test_every_changed_setting_is_named(generation: Generation) -> None:
    now = {"route.field": "player", "decode.format": "protobuf", "sink.mode": "append", "sink.columns": {}}
    with pytest.raises(CheckpointMismatch) as caught:
        check_same_world(generation, World("cluster-1", TOPICS, now))
    text = str(caught.value)
    assert 'route.field was "game_name" and is "player"' in text
    assert 'sink.mode was not set and is "append"' in text
    assert "sink.columns" in text and "decode.format" not in text


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 2}', '{"format": 1, "id": "x"}', "\xff"])
def test_a_broken_file_is_no_new_checkpoint(
    checkpoint: Checkpoint, generation: Generation, text: str
) -> None:
    (Path(str(checkpoint)) / GENERATION).write_text(text, encoding="latin-1")
    with pytest.raises(CheckpointMismatch):
        read_generation(checkpoint)


def test_an_unknown_way_to_start_is_refused(checkpoint: Checkpoint, generation: Generation) -> None:
    text = (Path(str(checkpoint)) / GENERATION).read_text()
    (Path(str(checkpoint)) / GENERATION).write_text(text.replace('"resume"', '"sideways"'))
    with pytest.raises(CheckpointMismatch, match="cut off or edited"):
        read_generation(checkpoint)


def test_a_generation_is_a_value(generation: Generation) -> None:
    assert replace(generation) == generation


def fingerprint_of(chosen: Settings) -> dict[str, Any]:
    return fingerprint(chosen.source, chosen.route, chosen.decode, chosen.sink)


def test_the_fingerprint_holds_what_may_not_change(tmp_path: Path) -> None:
    before = fingerprint_of(settings(tmp_path))
    same = settings(tmp_path, route={"max_tables": 7}, trigger={"available_now": True})
    assert fingerprint_of(same) == before
    other = fingerprint_of(settings(tmp_path, route={"field": "title"}, source={"topics": ["others"]}))
    assert {name for name in before if before[name] != other[name]} == {"route.field", "source.topics"}
    assert json.loads(json.dumps(before)) == before


def test_settings_that_came_later_are_in_the_fingerprint_only_where_they_say_something(
    tmp_path: Path,
) -> None:
    plain = fingerprint_of(settings(tmp_path))
    assert not {"decode.key", "sink.columns.key_text", "route.expression"} & set(plain)
    assert (
        fingerprint_of(settings(tmp_path, decode={"format": "auto", "key": "auto"}))["decode.key"] == "auto"
    )


def test_no_secret_is_in_the_fingerprint(tmp_path: Path) -> None:
    kafka = {"bootstrap.servers": "127.0.0.1:1", "ssl.truststore.password": "hunter2"}
    login = {"user": "me", "password": "hunter2"}
    told = json.dumps(fingerprint_of(settings(tmp_path, source={"kafka": kafka}, registry=login)))
    assert "hunter2" not in told
