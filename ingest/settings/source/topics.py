"""Which topics are read, and which of their partitions, as users write them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from distributary.ingest.settings.patterns import Pattern, is_pattern
from distributary.values import Wrong, WrongValues


def _checked(topic: str) -> str:
    if is_pattern(topic):
        if why := Pattern(topic, folds=False).refusal():
            raise ValueError(f"it is no expression: {why}; https://github.com/google/re2/wiki/Syntax")
        return topic
    if not topic or len(topic) > 249 or topic in (".", "..") or not set(topic) <= _TOPIC_CHARACTERS:
        raise ValueError(
            "no topic can be called so: Kafka allows a-z, A-Z, 0-9, dot, _ and -, up to 249 characters; a pattern of names stands between slashes"
        )
    return topic


_TOPIC_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def _distinct(topics: tuple[str, ...]) -> tuple[str, ...]:
    twice = [((n,), "this topic is written twice; keep one") for n, t in enumerate(topics) if t in topics[:n]]
    if twice:
        raise WrongValues(*twice)
    return topics


Topics: TypeAlias = Annotated[
    tuple[Annotated[str, AfterValidator(_checked)], ...], Field(min_length=1), AfterValidator(_distinct)
]


def wrong_topics(topics: Sequence[str], named: Collection[str], setting: str) -> Iterator[Wrong]:
    """The topics that a setting names and that are none of the source's, as far as that can be told of patterns."""
    if not any(map(is_pattern, topics)):
        for topic in sorted(set(named) - set(topics)):
            yield (setting, topic), "source.topics has no such topic; add it there, or correct it here"


def wrong_partitions(topics: Sequence[str], partitions: Collection[str]) -> Iterator[Wrong]:
    """Topics without partitions, where any has some, and the other way round."""
    if not partitions:
        return
    for place, topic in enumerate(topics):
        if topic not in partitions:
            what = (
                "a pattern has no partitions to name"
                if is_pattern(topic)
                else "source.partitions has none of this topic"
            )
            yield ("topics", place), f"{what}; name those of each topic, or leave source.partitions out"
    yield from wrong_topics(topics, partitions, "partitions")


# What the sources that are not Kafka's have read, by their settings.
_READ = {"delta": "tables", "files": "files", "kinesis": "a stream"}


def wrong_beside(setting: str, given: Collection[str]) -> Iterator[Wrong]:
    """What is given of another source beside the one that has tables, files or a stream read."""
    for name in ("kafka", "topics", "preset", "partitions", *_READ):
        if name != setting and name in given:
            whose = "another source's" if name in _READ else "Kafka's"
            yield (
                (name,),
                f"source.{setting} has {_READ[setting]} read, and this is {whose}; keep one of the two",
            )
