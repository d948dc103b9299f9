"""One holder of a lock file among all processes of this machine; the system frees it when the holder dies."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Wait until nobody else holds `path`, and hold it inside the `with` block.

    The file stays behind: deleting it would let two holders lock two files of one name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
