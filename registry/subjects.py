"""Under which subject a record's schema is registered, and which context a subject lies in.

Producers choose among three strategies; a registry with contexts keeps ids and subjects apart in each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from distributary.errors import ConfigError

Strategy = Literal["TopicName", "RecordName", "TopicRecordName"]

Part = Literal["key", "value"]

# https://docs.confluent.io/platform/current/schema-registry/schema-linking-cp.html#schema-contexts
_DEFAULT_CONTEXT = "."


def subject_name(strategy: Strategy, topic: str, record: str | None = None, part: Part = "value") -> str:
    """The subject under which a topic's keys or values are registered.

    strategy  `TopicName`, `RecordName` or `TopicRecordName`
    record    the record type's full name, such as `games.v1.Event`
    part      `value` or `key`

    Raises ConfigError where the strategy needs a record's name and there is none: a schema such as `"string"`
    has none, and serializers refuse it too.

    >>> distributary.subject_name("TopicName", "game-events")
    'game-events-value'
    """
    if strategy == "TopicName":
        return f"{topic}-{part}"
    if not record:
        raise ConfigError(
            f"the subject name strategy {strategy} needs a record's name, and the schema of topic {topic!r} has none; "
            "use TopicName"
        )
    return record if strategy == "RecordName" else f"{topic}-{record}"


@dataclass(frozen=True, slots=True)
class QualifiedSubject:
    """A subject and the context it lies in; the default context is `.`."""

    context: str
    subject: str

    def __str__(self) -> str:
        return self.subject if self.context == _DEFAULT_CONTEXT else f":{self.context}:{self.subject}"


def qualified(subject: str) -> QualifiedSubject:
    """A subject taken apart: `:.games:a-value` lies in the context `.games`, `a-value` in the default one."""
    if subject.startswith(":."):
        context, colon, plain = subject[1:].partition(":")
        if colon:
            return QualifiedSubject(context, plain)
    return QualifiedSubject(_DEFAULT_CONTEXT, subject)


def beside(subject: str, parent: str | None) -> str:
    """`subject` as a schema of the subject `parent` means it: in the parent's context, unless it names one itself."""
    if parent is None or subject.startswith(":."):
        return subject
    return str(QualifiedSubject(qualified(parent).context, subject))
