"""One replay of a pipeline at a time, whether a run of it is alive or not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from distributary.errors import LeaseHeld
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.lease.holding import keeper_of

_LOCK = "replaying"


@contextmanager
def alone(checkpoint: Checkpoint) -> Iterator[None]:
    """Inside, no other replay of the pipeline is under way. Raises LeaseHeld while one is."""
    lock = keeper_of(Checkpoint(checkpoint.files.below(_LOCK)))
    if not lock.acquire(b"{}"):
        raise LeaseHeld("another replay of this pipeline is under way; say it again when it is done")
    try:
        yield
    finally:
        lock.release()
