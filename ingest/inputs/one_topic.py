"""The topics of a source that has one, by its name, for ever."""

from __future__ import annotations

from abc import ABC, abstractmethod

from distributary.ingest.kafka.offsets import Positions

OLDER = (
    "it was put back from an older copy, or made anew, and what comes would get offsets that count as read. Restore the newest one. Where the tables "
    "are as old, go on with a new checkpoint and `start: from_tables`; where they are newer, move them away, and read all again with a new one and "
    "`start: again`"
)
"""What there is to say of what gives offsets that are behind what was read by it."""


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

    @abstractmethod
    def require_had(self, read: Positions) -> None:
        """Raises CheckpointMismatch where what is kept beside the tables has not come to these offsets, of which a log tells."""

    def beginning(self) -> Positions:
        """The first record that is there."""
        return self.earliest_offsets()

    @abstractmethod
    def earliest_offsets(self) -> Positions:
        """The first offset still there in each partition."""
