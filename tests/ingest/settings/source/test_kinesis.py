"""What settings say of a Kinesis stream, and what they cannot say of it."""

from __future__ import annotations

from typing import Any

import pytest

from distributary.errors import ConfigError
from distributary.ingest.settings.model import Settings


def settings(kinesis: dict[str, Any], **source: Any) -> Settings:
    return Settings.from_dict(
        {
            "name": "games",
            "source": {"kinesis": kinesis, **source},
            "decode": {"format": "json"},
            "route": {"by": "topic"},
            "sink": {"root": "./lake"},
        }
    )


def test_a_stream_is_a_topic_by_its_name() -> None:
    assert settings({"stream": "games"}).source.topics == ("games",)
    arn = "arn:aws:kinesis:eu-central-1:123456789012:stream/games"
    found = settings({"stream": arn}).source
    assert found.topics == ("games",)
    assert found.kinesis is not None
    assert found.kinesis.named == {"StreamARN": arn}
    assert found.kinesis.where == "kinesis:eu-central-1"


@pytest.mark.parametrize(
    ("kinesis", "source", "told"),
    [
        ({"stream": "no stream"}, {}, r"source\.kinesis\.stream"),
        ({}, {}, r"source\.kinesis\.stream: this setting is missing"),
        (
            {"stream": "a", "endpoint": "http://user:secret@host"},
            {},
            r"source\.kinesis\.endpoint: it is no http",
        ),
        (
            {"stream": "a"},
            {"topics": ["a"]},
            r"source\.topics: source\.kinesis has a stream read, .* Kafka's",
        ),
        ({"stream": "a"}, {"files": {"path": "./in"}}, "another source's"),
        (
            {"stream": "a"},
            {"starting_offsets": {"a": {"0": 1}}},
            r"source\.starting_offsets: offsets of a stream are numbers given as it is read.*earliest or latest",
        ),
        ({"stream": "a"}, {"until": {"a": {"0": 1}}}, r"source\.until: .* write a point in time$"),
    ],
)
def test_what_does_not_go_together_is_told(
    kinesis: dict[str, Any], source: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        settings(kinesis, **source)
