"""What the Kafka cluster is asked besides its records: who it is, which partitions there are, how far they have come."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import TimeoutError as NotInTime
from contextlib import suppress
from typing import TypeVar

from distributary.errors import BrokerUnavailable, CredentialsRefused
from distributary.ingest.interruptible import QUIET_SECONDS, Stopped, answer_to, until_answered, when_quiet
from distributary.ingest.kafka.client import Complaints, KafkaClient, Moment, NoLeader, Topic, TopicMissing
from distributary.ingest.kafka.offsets import Positions
from distributary.ingest.settings.patterns import Pattern, is_pattern

# What a topic's id is on a broker that has none (before Kafka 2.8): it is not compared.
UNKNOWN = ""

TIMEOUT_SECONDS = 15.0

# A request ends by its own time limit; this much later nobody waits any more for a client that does not say so. Asking
# about some thousands of partitions takes seconds by itself.
_LATE_SECONDS = 30.0

_CLOSE_SECONDS = 1.0

_SETTLE_SECONDS = 3.0

_ASK_AGAIN_SECONDS = 0.1

T = TypeVar("T")

# Told why Kafka is waited for, and for how many seconds nobody asks it again.
Tell = Callable[[str, float], None]


class KafkaCluster:
    """The cluster a pipeline reads from; close it at the end.

    Every question may raise BrokerUnavailable, SetupError for a missing topic or right, and Stopped once `stop` is set and
    no answer comes. With `tell` an outage is no error: it is waited for however long it lasts, and told of.
    """

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        connect: Callable[[], KafkaClient],
        topics: Sequence[str],
        complaints: Complaints,
        stop: threading.Event | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        tell: Tell | None = None,
    ) -> None:
        """Connect. Raises ConfigError where the options do not work."""
        self._topics, self._complaints, self._tell = tuple(topics), complaints, tell
        self._names = None if any(map(is_pattern, topics)) else self._topics
        self._stop, self._timeout = stop or threading.Event(), timeout_seconds
        # Until it has answered once its address may be wrong: who waits then is told so sooner.
        self._connect, self._is_told_of = connect, tell is None
        self._client = self._answered(lambda: self._ask_once(connect))

    def close(self) -> None:
        """End the connection, or leave it where that takes long or fails: its client's process may have died."""
        with suppress(Exception):
            answer_to(self._client.close, self._stop, _CLOSE_SECONDS)

    def cluster_id(self) -> str:
        """The cluster's own id, made when it was formatted."""
        return self._answered(lambda: self._ask(self._client.cluster_id))

    def was_away(self) -> bool:
        """Wait until it answers; whether it did not at once."""
        told: list[str] = []

        def tell(reason: str, seconds: float) -> None:
            told.append(reason)
            if self._tell is not None:
                self._tell(reason, seconds)

        until_answered(lambda: self._ask(self._client.cluster_id), BrokerUnavailable, tell, self._stop)
        return bool(told)

    def names(self) -> tuple[str, ...]:
        """The topics that are read: those of the settings, and those that fitted their patterns when it was first asked.

        Raises TopicMissing where there are none.
        """
        if self._names is None:
            self._names = self._found(self._answered(lambda: self._ask(self._client.names)))
        if not self._names:
            raise self._complaints.none_fits(self._topics)
        return self._names

    def look(self) -> bool:
        """Whether other topics fit the patterns by now; those are read then. Nobody waits for a broker that does not answer, or refuses for a moment."""
        if not any(map(is_pattern, self._topics)):
            return False
        try:
            found = self._found(self._ask(self._client.names))
        except (BrokerUnavailable, CredentialsRefused, Stopped):
            return False
        is_other = bool(found) and found != self._names
        self._names = found or self._names
        return is_other

    def is_found(self, topic: str) -> bool:
        """Whether a topic is read since it fits a pattern, not by its name."""
        return topic not in self._topics

    def _found(self, there: Sequence[str]) -> tuple[str, ...]:
        """These of the topics that are there, and those that the settings name."""
        exact = [name for name in self._topics if not is_pattern(name)]
        patterns = [Pattern(text, folds=False) for text in self._topics if is_pattern(text)]
        fitting = [name for name in sorted(there) if any(pattern.fits(name) for pattern in patterns)]
        return tuple(dict.fromkeys([*exact, *fitting]))

    def topic_ids(self) -> dict[str, str]:
        """Each topic's UUID, which is another one after the topic was made anew; UNKNOWN from a broker without any."""
        return {name: topic.uuid for name, topic in self._described().items()}

    def partitions(self) -> dict[str, Sequence[int]]:
        """The numbers of each topic's partitions."""
        return {name: topic.partitions for name, topic in self._described().items()}

    def earliest_offsets(self) -> Positions:
        """The first offset still there in each partition."""
        return self._offsets("earliest")

    def end_offsets(self) -> Positions:
        """Where each partition ends for a reader with this pipeline's isolation level."""
        return self._offsets("latest")

    def ends(self) -> Positions:
        """Where each partition ends, records of transactions that are not over included."""
        return self._offsets("end")

    def offsets_from(self, milliseconds: int) -> Positions:
        """The first record of each partition that was written at this time (since the epoch) or later, where there is one."""
        return self._offsets(milliseconds)

    def require_had(self, read: Positions) -> None:
        """Its ends tell."""

    def lag(self, read: Mapping[str, Mapping[int, int]], ends: Positions | None = None) -> Positions:
        """How many offsets are still to be read of each partition, where these were read, up to these ends or to now."""
        return lag(self.end_offsets() if ends is None else ends, read)

    def _described(self) -> Mapping[str, Topic]:
        names = self.names()
        return self._answered(lambda: self._settled(lambda: self._client.topics(names)))

    def _offsets(self, moment: Moment) -> Positions:
        partitions = self.partitions()
        found = self._answered(lambda: self._settled(lambda: self._client.offsets(partitions, moment)))
        return {name: found.get(name, {}) for name in partitions}

    def _answered(self, ask: Callable[[], T]) -> T:
        if self._tell is None:
            return ask()
        return until_answered(ask, BrokerUnavailable, self._tell, self._stop)

    def _settled(self, ask: Callable[[], T]) -> T:
        """The answer, once there is one: a topic just made, or any topic right after a broker's start, is unknown to the
        broker for a moment, and then without a leader.
        """
        until = time.monotonic() + _SETTLE_SECONDS
        while True:
            try:
                return self._ask(ask)
            except (TopicMissing, NoLeader):
                if time.monotonic() >= until:
                    raise
            if self._stop.wait(_ASK_AGAIN_SECONDS):
                raise Stopped

    def _ask(self, question: Callable[[], T]) -> T:
        try:
            answer = self._ask_once(question)
        except CredentialsRefused:
            self._connect_anew()
            raise
        self._is_told_of = True
        return answer

    def _connect_anew(self) -> None:
        """A client reads keys and certificates once, when it is made, and their files may have been replaced since."""
        with suppress(Exception):
            before, self._client = self._client, self._ask_once(self._connect)
            answer_to(before.close, self._stop, _CLOSE_SECONDS)

    def _ask_once(self, question: Callable[[], T]) -> T:
        try:
            return answer_to(
                question,
                self._stop,
                self._timeout + _LATE_SECONDS,
                when_quiet(self._tell_of_silence, QUIET_SECONDS),
            )
        except NotInTime as error:
            raise self._complaints.silent("no answer in time") from error

    def _tell_of_silence(self) -> None:
        if self._tell is not None and not self._is_told_of:
            self._is_told_of = True
            self._tell(self._complaints.quiet(QUIET_SECONDS), 0.0)


def lag(ends: Mapping[str, Mapping[int, int]], read: Mapping[str, Mapping[int, int]]) -> Positions:
    """How many offsets are still to be read of each partition; of one never read, all of them."""
    return {
        topic: {
            number: max(0, end - read.get(topic, {}).get(number, 0)) for number, end in partitions.items()
        }
        for topic, partitions in ends.items()
    }
