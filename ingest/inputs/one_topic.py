"""The topics of a source that has one, by its name, for ever."""

from __future__ import annotations

from abc import ABC, abstractmethod

from distributary.ingest.kafka.offsets import Positions


class OneTopic(ABC):
    """What is answered of the topics of such a source.

    topic  what it is called
    """

    topic: str

    def names(self) -> tuple[str, ...]:
        """The topic."""
        return (self.topic,)

    def look(self) -> bool:
        """No other one comes."""
        return False

    def is_found(self, topic: str) -> bool:
        """It is read by its name."""
        return False

    def require_had(self, read: Positions) -> None:  # noqa: B027 - most ask for nothing
        """Its ends tell."""

    def beginning(self) -> Positions:
        """The first record that is there."""
        return self.earliest_offsets()

    @abstractmethod
    def earliest_offsets(self) -> Positions:
        """The first offset still there in each partition."""
