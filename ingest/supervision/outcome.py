"""What a whole run came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from distributary.ingest.kafka.source import Lost
from distributary.ingest.progress import Summary


@dataclass(frozen=True, slots=True)
class Restart:
    """A restart because a schema evolved.

    changes      what changed, in words
    met_at       when the attempt began that met the new schema, in seconds since the epoch
    decoding_at  when the attempt began that decodes it, likewise
    """

    changes: tuple[str, ...]
    met_at: float
    decoding_at: float

    @property
    def gap_seconds(self) -> float:
        """All that the evolution cost: the attempt given up, and the way back to where it was."""
        return self.decoding_at - self.met_at


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a whole run came to.

    summary   its counts: batches, records, tables, seconds
    restarts  each restart because a schema evolved, in order
    parked    the folders of tables that are parked at its end, and how many batches wait for each; 0 where one cannot be opened and none does yet
    remade    the folders of tables that somebody had taken away, and that were made anew
    lost      the offsets that Kafka had no more before they were read, where the settings say to go on
    """

    summary: Summary
    restarts: tuple[Restart, ...]
    parked: Mapping[str, int] = field(default_factory=dict)
    remade: tuple[str, ...] = ()
    lost: tuple[Lost, ...] = ()
