"""Where a reading begins and ends, as users write it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from distributary.errors import ConfigError
from distributary.ingest.settings.model import Settings

UTC = timezone.utc
NOVEMBER = datetime(2026, 11, 1, tzinfo=UTC)


def settings(source: str, topics: str = "events") -> Settings:
    return Settings.from_yaml(
        f"""
name: games
source:
  kafka: {{bootstrap.servers: "127.0.0.1:9092"}}
  topics: [{topics}]
  {source}
registry: {{url: "http://127.0.0.1:8081"}}
route: {{field: game_name}}
sink: {{root: ./lake}}
"""
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("2026-11-01T00:00:00Z", NOVEMBER),
        ("'2026-11-01T00:00:00Z'", NOVEMBER),
        ("2026-11-01T00:00Z", NOVEMBER),
        ("2026-11-01T02:00:00+02:00", NOVEMBER),
        ("2026-11-01T00:00:00.250Z", NOVEMBER + timedelta(milliseconds=250)),
        ('{events: {"0": 100, "1": 0}}', {"events": {0: 100, 1: 0}}),
    ],
)
def test_a_beginning_as_it_is_written(written: str, meant: Any) -> None:
    assert settings(f"starting_offsets: {written}").source.starting_offsets == meant


def test_an_end_as_it_is_written() -> None:
    assert settings("until: 2026-11-01T00:00:00Z").source.until == NOVEMBER
    assert settings('until: {events: {"3": 7}}').source.until == {"events": {3: 7}}
    assert settings("headers: true").source.until is None


def test_partitions_as_they_are_written() -> None:
    assert settings("partitions: {events: [2, 0]}").source.partitions == {"events": (0, 2)}
    assert settings("headers: true").source.partitions == {}


@pytest.mark.parametrize(
    ("topics", "said"),
    [
        ('"/^a(/"', "it is no expression: missing"),
        ('"//a b"', "a pattern of names stands between slashes"),
        ("a, a", "this topic is written twice"),
    ],
)
def test_what_is_no_topic_and_no_pattern_is_told(topics: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        settings("headers: true", topics)


def test_a_pattern_may_be_bounded_by_any_name_and_has_no_partitions() -> None:
    source = settings('until: {e1: {"0": 5}}', '"/^e/", other').source
    assert (source.topics, source.until) == (("/^e/", "other"), {"e1": {0: 5}})
    with pytest.raises(ConfigError, match="a pattern has no partitions to name"):
        settings("partitions: {other: [0]}", '"/^e/", other')


def test_what_is_shown_of_them_may_be_written() -> None:
    shown = settings("until: 2026-11-01T00:00:00Z").effective()
    again = settings(f"until: {shown['source']['until']}")
    assert again.source.until == NOVEMBER


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("starting_offsets: first", "write earliest, latest, a point in time with its zone"),
        ("starting_offsets: 5", "write earliest, latest, a point in time with its zone"),
        ("starting_offsets: 2026-11-01T00:00:00", "a time without its zone"),
        ("starting_offsets: 2026-11-01", "a time without its zone"),
        ("until: latest", "source.until: write a point in time with its zone"),
        ("until: {events: 5}", "source.until.events: write a point in time with its zone"),
        ('until: {events: {"a": 5}}', "a partition is a whole number"),
        ('until: {events: {"0": -1}}', "an offset is a whole number"),
        ('until: {events: {"0": true}}', "an offset is a whole number"),
        ("partitions: {events: 0}", "write the numbers of partitions by their topics"),
        ("partitions: [0]", "write the numbers of partitions by their topics"),
        ("partitions: {events: []}", "write the numbers of partitions by their topics"),
        ("partitions: {events: [-1]}", "write the numbers of partitions by their topics"),
        ("partitions: {other: [0]}", "source.topics.0.: source.partitions has none of this topic"),
        ("partitions: {events: [0], other: [0]}", "source.partitions.other: source.topics has no such topic"),
        ('until: {other: {"0": 5}}', "source.until.other: source.topics has no such topic"),
        ('starting_offsets: {other: {"0": 5}}', "source.topics has no such topic"),
    ],
)
def test_what_is_neither_is_told_with_what_to_write(written: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        settings(written)
