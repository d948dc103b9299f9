from __future__ import annotations

import pytest
from confluent_kafka.schema_registry import (
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
    topic_subject_name_strategy,
)
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import ConfigError
from distributary.registry.subjects import (
    Part,
    Strategy,
    beside,
    qualified,
    subject_name,
)

CONFLUENTS = {
    "TopicName": topic_subject_name_strategy,
    "RecordName": record_subject_name_strategy,
    "TopicRecordName": topic_record_subject_name_strategy,
}


@pytest.mark.parametrize("part", ["key", "value"])
@pytest.mark.parametrize("strategy", ["TopicName", "RecordName", "TopicRecordName"])
def test_subjects_are_those_of_confluents_own_serializers(strategy: Strategy, part: Part) -> None:
    theirs = CONFLUENTS[strategy](SerializationContext("games", MessageField(part)), "games.v1.Event")
    assert subject_name(strategy, "games", "games.v1.Event", part) == theirs


def test_a_record_without_a_name_has_a_subject_by_its_topic_alone() -> None:
    assert subject_name("TopicName", "games") == "games-value"
    strategies: tuple[Strategy, ...] = ("RecordName", "TopicRecordName")
    for strategy in strategies:
        with pytest.raises(ConfigError, match="TopicName"):
            subject_name(strategy, "games", None)


@pytest.mark.parametrize(
    ("subject", "context", "plain"),
    [
        ("a-value", ".", "a-value"),
        (":.games:a-value", ".games", "a-value"),
        (":.:a-value", ".", "a-value"),
        (":.games", ".", ":.games"),
        (":x:y", ".", ":x:y"),
        (":.games:a:b", ".games", "a:b"),
    ],
)
def test_a_subject_is_taken_apart_into_context_and_name(subject: str, context: str, plain: str) -> None:
    parts = qualified(subject)
    assert (parts.context, parts.subject) == (context, plain)


@given(st.sampled_from([".", ".games", ".a.b"]), st.text(st.characters(exclude_characters=":"), min_size=1))
def test_what_is_taken_apart_can_be_put_together(context: str, plain: str) -> None:
    assert str(qualified(f":{context}:{plain}")) == (plain if context == "." else f":{context}:{plain}")


@pytest.mark.parametrize(
    ("subject", "parent", "meant"),
    [
        ("b", None, "b"),
        ("b", "a", "b"),
        ("b", ":.games:a", ":.games:b"),
        (":.other:b", ":.games:a", ":.other:b"),
    ],
)
def test_a_reference_is_meant_in_the_context_of_what_refers(
    subject: str, parent: str | None, meant: str
) -> None:
    assert beside(subject, parent) == meant
