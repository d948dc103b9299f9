"""How long a registry's answers are waited for, and how long they are believed."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import Self

from distributary.values import Group, PositiveSeconds, Seconds


class Waits(Group):
    """How long is waited for answers, and how long they are believed."""

    timeout_seconds: PositiveSeconds = 10.0
    """How long connecting, and each wait for more of an answer, may take; a whole answer may take six times as long."""
    retry_seconds: Seconds = 15.0
    """For how long a request that fails is tried again before the registry counts as not answering."""
    latest_cache_seconds: Seconds = 30.0
    """How long the list of a subject's versions is believed."""
    unknown_id_wait_seconds: Seconds = 3.0
    """For how long an unknown schema id is asked for again before it is believed to be unknown."""
    unknown_id_cache_seconds: Seconds = 300.0
    """For how long an id found unknown is not asked for again."""
    failing_id_wait_seconds: Seconds = 60.0
    """For how long a schema id is asked for again that the registry answers with an error of its own, such as HTTP 500, or never, while it answers other questions; its records then go to quarantine."""
    cached_schemas: Annotated[int, Field(ge=1)] = 10_000
    """How many answers of each kind are kept in memory at most."""

    def impatient(self) -> Self:
        """The same for somebody who waits: shorter than a stream would, long enough for a registry that has just started."""
        most = {"retry_seconds": 5.0, "unknown_id_wait_seconds": 1.0, "failing_id_wait_seconds": 5.0}
        return self.model_copy(
            update={name: min(getattr(self, name), seconds) for name, seconds in most.items()}
        )
