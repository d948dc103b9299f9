"""A log as far as it had come, for who decides nothing in it: whoever writes it knows more (`writing.py`)."""

from __future__ import annotations

from typing import Protocol

from distributary.ingest.commit_log.entries import Batch, Rewritten, Standing


class Followed(Protocol):
    """What is known of a log, whether this process writes it or another one does."""

    @property
    def next(self) -> int:
        """The number of the next entry."""
        ...

    @property
    def so_far(self) -> Standing:
        """How far the log has come."""
        ...

    def look(self) -> object:
        """Learn how far it has come by now. Raises the PipelineError that says why nobody can tell."""
        ...

    def last(self) -> tuple[Batch | None, tuple[Rewritten, ...]]:
        """The newest batch, which may not be in all its tables yet, and what was written again of it."""
        ...

    def confirm(self) -> None:
        """Asked right before anything is changed that a run may see. Raises the PipelineError that says why nothing may be."""
        ...
