"""Settings that cannot work are refused with what to write instead."""

from __future__ import annotations

from typing import Any

import pytest

from distributary.errors import ConfigError
from distributary.producer_sim.events.routes import Routed
from distributary.producer_sim.traffic.simulation import Simulation

GOOD: dict[str, Any] = {"bootstrap_servers": "127.0.0.1:9092", "topic": "games"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"bootstrap_servers": ""}, "bootstrap_servers"),
        ({"topic": ""}, "topic"),
        ({"partitions": 0}, "partitions"),
        ({"games": 0}, "games"),
        ({"game_names": ("a", "")}, "name"),
        ({"gamers": 0}, "gamers"),
        ({"events": -1}, "events"),
        ({"seed": -1}, "seed"),
        ({"rate": 0}, "rate"),
        ({"gamer_skew": -0.1}, "skew"),
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
        ({"headers": {"": "country"}}, "a header must have a name"),
        ({"headers": {"region": "tags"}}, "the header region is made from .* 'tags' is list"),
        ({"route": Routed("header", "region")}, "--header region=game_name"),
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
        Simulation(**{**GOOD, **wrong})


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
    settings = Simulation(**GOOD, versions=2, route=Routed("expression", expression))
    assert [each.path for each in settings.told] == told


def test_where_nothing_can_lack_an_entity_no_record_does() -> None:
    routes = [Routed("key", ""), Routed("header", "region"), Routed("topic", ""), Routed("field", "country")]
    kinds = {
        route.by: Simulation(**GOOD, headers={"region": "country"}, route=route).kinds_of("avro")
        for route in routes
    }
    assert [by for by, there in kinds.items() if "no_entity" in there] == ["key", "header"]


def test_the_total_counts_the_versions_sent() -> None:
    assert Simulation(**GOOD, events=100, versions=3).total == 300
    assert Simulation(**GOOD, events=100, versions=3, first_version=3).total == 100


def test_several_types_of_events_have_a_subject_each() -> None:
    one = Simulation(**GOOD)
    assert [one.subject_of(record) for record in one.records] == ["games-value"]
    two = Simulation(**GOOD, event_types=2)
    assert [two.subject_of(record) for record in two.records] == [
        "games-games.GameEvent",
        "games-games.PurchaseEvent",
    ]
    named = Simulation(**GOOD, event_types=2, subject_strategy="RecordName")
    assert named.subject_of("PurchaseEvent") == "games.PurchaseEvent"


def test_given_names_come_before_invented_ones() -> None:
    assert Simulation(**GOOD, game_names=("golf",)).population.games == ("golf",)
    assert len(Simulation(**GOOD, games=7).population.games) == 7


def test_client_options_stay_out_of_the_truth_and_of_logs() -> None:
    settings = Simulation(**GOOD, kafka={"sasl.password": "hush"})
    assert "hush" not in f"{settings!r} {settings.for_truth()}"
    assert settings.for_truth()["topic"] == "games"
