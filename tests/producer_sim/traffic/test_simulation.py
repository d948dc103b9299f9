"""Settings that cannot work are refused with what to write instead."""

from __future__ import annotations

from typing import Any

import pytest

from distributary.errors import ConfigError
from distributary.producer_sim.events.routes import Routed
from distributary.producer_sim.traffic.parts import Pace, Players
from distributary.producer_sim.traffic.simulation import Simulation

GOOD: dict[str, Any] = {"bootstrap_servers": "127.0.0.1:9092", "topic": "games"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"topic": ""}, "topic"),
        ({"partitions": 0}, "partitions"),
        ({"games": 0}, "games"),
        ({"game_names": ("a", "")}, r"players.game_names\[1\]: it is empty"),
        ({"gamers": 0}, "gamers"),
        ({"events": -1}, "events"),
        ({"seed": -1}, "seed"),
        ({"rate": 0}, "rate"),
        ({"gamer_skew": -0.1}, "players.gamer_skew: write a number of at least 0"),
        ({"corrupt": 1.1}, "corrupt"),
        ({"corrupt": 0.6, "tombstones": 0.6}, "together"),
        ({"old_producers": -0.1}, "old_producers"),
        ({"first_version": 3, "versions": 2}, "first_version"),
        ({"compression": "rar"}, "zstd"),
        ({"event_types": 0}, "event_types"),
        ({"event_types": 99}, "event_types"),
        ({"subject_strategy": "Topic"}, "TopicRecordName"),
        ({"event_types": 2, "subject_strategy": "TopicName"}, "one subject"),
        ({"format": "xml"}, "protobuf, avro, jsonschema, json"),
        ({"format": "avro", "corrupt_kinds": ("bad_message_index",)}, "avro has only"),
        ({"corrupt_kinds": ("evil",)}, "bad_magic"),
        ({"corrupt": 0.1, "corrupt_kinds": ()}, "corrupt_kinds"),
        ({"key": "duration_s"}, "the key is made from .* 'duration_s' is double"),
        ({"key": "season"}, "'season' is not there"),
        ({"headers": {"": "country"}}, "writing.headers.: it is empty"),
        ({"headers": {"region": "tags"}}, "the header region is made from .* 'tags' is list"),
        ({"route": Routed("header", "region")}, r"writing.headers: \{region: game_name\}"),
        ({"route": Routed("field", "position.x")}, "'position.x', which is double"),
        (
            {"route": Routed("expression", "if(score > 1, inventory['gold'], 'x')")},
            "'inventory', which is map",
        ),
        ({"route": Routed("expression", "cast(position.x as string)")}, "'position.x', which is double"),
        ({"route": Routed("record", ""), "corrupt_kinds": ("no_entity",)}, "no_entity"),
    ],
)
def test_what_cannot_work_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Simulation.of(**{**GOOD, **wrong})


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("concat(Country, '-', `device`)", ["country", "device"]),
        ("'level' || guild . name", ["guild.name"]),
        ('if(level > 3, "score", upper(season))', ["level", "season"]),
        ("left(country, 1) || replace(device, 'it\\'s country_code', '')", ["country", "device"]),
        ("country_code || elevel || levels", []),
    ],
)
def test_an_expression_s_fields_are_told(expression: str, told: list[str]) -> None:
    settings = Simulation.of(**GOOD, versions=2, route=Routed("expression", expression))
    assert [each.path for each in settings.told] == told


def test_where_nothing_can_lack_an_entity_no_record_does() -> None:
    routes = [Routed("key", ""), Routed("header", "region"), Routed("topic", ""), Routed("field", "country")]
    kinds = {
        route.by: Simulation.of(**GOOD, headers={"region": "country"}, route=route).kinds_of("avro")
        for route in routes
    }
    assert [by for by, there in kinds.items() if "no_entity" in there] == ["key", "header"]


def test_the_total_counts_the_versions_sent() -> None:
    assert Simulation.of(**GOOD, events=100, versions=3).total == 300
    assert Simulation.of(**GOOD, events=100, versions=3, first_version=3).total == 100


def test_several_types_of_events_have_a_subject_each() -> None:
    one = Simulation.of(**GOOD)
    assert [one.subject_of(record) for record in one.records] == ["games-value"]
    two = Simulation.of(**GOOD, event_types=2)
    assert [two.subject_of(record) for record in two.records] == [
        "games-games.GameEvent",
        "games-games.PurchaseEvent",
    ]
    named = Simulation.of(**GOOD, event_types=2, subject_strategy="RecordName")
    assert named.subject_of("PurchaseEvent") == "games.PurchaseEvent"


def test_given_names_come_before_invented_ones() -> None:
    assert Simulation.of(**GOOD, game_names=("golf",)).population.games == ("golf",)
    assert len(Simulation.of(**GOOD, games=7).population.games) == 7


def test_client_options_stay_out_of_the_truth_and_of_logs() -> None:
    settings = Simulation.of(**GOOD, kafka={"sasl.password": "hush"})
    assert "hush" not in f"{settings!r} {settings.for_truth()}"
    assert settings.for_truth()["topic"] == "games"


def test_all_problems_are_told_at_once_each_with_its_setting() -> None:
    with pytest.raises(ConfigError) as caught:
        Simulation.of(events=-1, corrupt=2, topic="", kafka={"sasl.password": "hush"})
    assert str(caught.value).splitlines() == [
        "3 settings cannot work:",
        "  settings: target.topic: it is empty; write a value or remove the line",
        "  settings: pace.events: write a number of at least 0",
        "  settings: faults.corrupt: write a number of at most 1.0",
    ]


def test_what_its_parts_make_impossible_together_is_told_at_once() -> None:
    with pytest.raises(ConfigError, match=r"(?s)^3 settings .*first_version.*corrupt_kinds.*writing.key"):
        Simulation.of(first_version=2, corrupt_kinds=("evil",), key="nothing")


def test_a_setting_that_is_in_no_part_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="no setting is called tombstone; did you mean tombstones"):
        Simulation.of(tombstone=0.1)


def test_parts_and_names_make_the_same() -> None:
    parts = Simulation(players=Players(games=3), pace=Pace(events=7), seed=2)
    assert (
        parts == Simulation.of(games=3, events=7, seed=2) == Simulation.of(seed=2).changed(games=3, events=7)
    )
    assert Simulation.of(players=Players(games=3), events=7, seed=2) == parts


def test_a_change_keeps_the_rest() -> None:
    before = Simulation.of(
        **GOOD, versions=3, headers={"region": "country"}, route=Routed("header", "region")
    )
    after = before.changed(events=5)
    assert after.changed(events=10_000) == before
    with pytest.raises(ConfigError, match="pipeline: the pipeline routes by the header 'region'"):
        before.changed(headers={})


@pytest.mark.parametrize(
    ("asked", "first", "versions", "changes"),
    [
        ((1, None), 1, 1, ()),
        ((2, 3), 2, 3, ()),
        ((3, 4), 3, 3, ("widened",)),
        ((4, None), 4, 3, ("widened",)),
        ((1, 5), 1, 3, ("widened", "changed")),
    ],
)
def test_some_of_its_versions(asked: Any, first: int, versions: int, changes: tuple[str, ...]) -> None:
    part = Simulation.of(versions=3, changes=("widened", "changed")).only(*asked).evolution
    assert (part.first_version, part.versions, part.changes) == (first, versions, changes)


@pytest.mark.parametrize("asked", [(0, 1), (2, 1), (1, 6), (6, None)])
def test_versions_that_it_does_not_have(asked: Any) -> None:
    with pytest.raises(ConfigError, match="has versions 1 to 5"):
        Simulation.of(versions=3, changes=("widened", "changed")).only(*asked)
