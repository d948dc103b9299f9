"""Whether this version reads the format that a file says it is in."""

from __future__ import annotations

import os

from distributary.errors import NewerFormat


def require_readable(path: str | os.PathLike[str], found: object, newest: int) -> None:
    """Raises NewerFormat where the format that a file says is newer than the newest one that this version reads, TypeError where it is none.

    Such a file is whole, and means something to whoever wrote it: so nobody is told to remove it.
    """
    if not isinstance(found, int):
        raise TypeError(f"{found!r} is no format")
    if found > newest:
        raise NewerFormat(
            f"{path} has format {found}, and this version of distributary reads up to {newest}: a newer version wrote it. Nothing is "
            "wrong with the file, so leave it as it is; use the version that made it, or a later one"
        )
