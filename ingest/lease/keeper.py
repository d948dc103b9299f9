"""What keeps a second run out while a first one is alive and well.

It is courtesy: nothing rests on it. Who decides what a batch is, is told by the log, whatever clocks and locks say
(docs/adr/0015-the-log-of-a-pipeline.md, rule 14).
"""

from __future__ import annotations

from typing import Protocol

HOLDER = "holder.json"
"""The file, beside the locks, that says who holds them: for people to read, and in a store the sign of life itself."""


class Keeper(Protocol):
    """One lease as one process sees it."""

    def look(self) -> None:
        """Begin to look, aside, whether another process holds it, where that takes a while."""
        ...

    def acquire(self, holder: bytes) -> bool:
        """Whether it is held now; others read `holder`, a JSON object."""
        ...

    def holder(self) -> bytes:
        """What its holder says of himself. Raises FileNotFoundError where he says nothing."""
        ...

    def release(self) -> None:
        """Let go of what is held."""
        ...
