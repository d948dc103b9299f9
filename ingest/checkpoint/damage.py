"""A file of the checkpoint that is not what was written there: one error for all of them, with what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from distributary.errors import CheckpointMismatch

RESTORE = "restore it, or go on with a new checkpoint and `start: from_tables`"


@contextmanager
def undamaged(path: str | os.PathLike[str], remedy: str = RESTORE) -> Iterator[None]:
    """Inside, the file at `path` is read. Raises CheckpointMismatch, with the remedy, if it is not what was written.

    A file that is not there, or that cannot be read just now, raises its OSError as ever: that says nothing of what is in
    it, and the next attempt may read it.
    """
    try:
        yield
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, pa.ArrowException) as error:
        raise damaged(path, str(error) or type(error).__name__, remedy) from error


def damaged(path: str | os.PathLike[str], why: str, remedy: str = RESTORE) -> CheckpointMismatch:
    """The error for a file that is not what was written there."""
    return CheckpointMismatch(f"{path} was cut off or edited, or another version wrote it ({why}); {remedy}")
