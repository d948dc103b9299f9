"""A file that landed, by its number; and offsets made of numbers and rows.

The offset of a record is its file's number times 2^32, and its row in there: so offsets only grow, have gaps, and a range of them that
begins and ends with a file names whole files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from distributary.ingest.storage.contract import Info

_BITS = 32

MOST_ROWS = 1 << _BITS
"""How many rows a file may have."""

Kind = Literal["new", "rewritten", "same", "gone"]
"""What a file is: one to be read; one at whose path another was read, and that is to be told in quarantine; one that is known already; one that is told as gone for good by its number, by which nothing else is ever read."""


@dataclass(frozen=True, slots=True)
class Landed:
    """A file as it was when it was registered.

    number      its own; of one that is the `same` that of the file that it is, and where one is told as `gone` that of which this is told
    path        from the folder that files land in
    size        bytes
    modified    milliseconds since the epoch
    tag         the store's word for its content, by which it is known again when it is read
    identity    what two files with the same content have in common
    instead_of  the number of the file that was registered at this path and had not been read when this one took its place
    """

    number: int
    path: str
    size: int
    modified: int
    tag: str
    identity: str
    kind: Kind = "new"
    instead_of: int | None = None

    @property
    def is_numbered(self) -> bool:
        """Whether it got the number by being registered so."""
        return self.kind not in ("same", "gone")


def is_as_registered(file: Landed, info: Info | None) -> bool:
    """Whether a file is what it was when it was registered."""
    return info is not None and (info.size, info.tag) == (file.size, file.tag)


def first_offset(number: int) -> int:
    """The offset of a file's first row."""
    return number << _BITS


def number_of(offset: int) -> int:
    """The number of the file that an offset is in; of an end the one behind the last file."""
    return offset >> _BITS


def row_of(offset: int) -> int:
    """The row of an offset in its file."""
    return offset % MOST_ROWS
