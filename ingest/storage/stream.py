"""Files as Arrow takes them: one that is there once it is closed, and never if it is left by an exception or forgotten; and one that is read by parts."""

from __future__ import annotations

import io
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol

from typing_extensions import Buffer, Self


def plain(data: Buffer) -> memoryview | bytes:
    """The data as obstore takes it: one dimension of bytes alone, and no buffer of Arrow's as it is."""
    return data if isinstance(data, bytes) else memoryview(data).cast("B")


class Draft(Protocol):
    """A file in the making, which nobody sees."""

    def write(self, data: memoryview) -> None:
        """Take in all of this."""
        ...

    def finish(self) -> None:
        """Let it be seen."""
        ...

    def abandon(self) -> None:
        """Let it never be seen."""
        ...


class Upload(io.RawIOBase):
    """The stream, as Arrow's ParquetWriter and others take one. Used as a context manager it is abandoned by an exception."""

    _draft: Draft | None = None
    _written = 0

    def __init__(self, draft: Draft, native: Any = None) -> None:
        """`native` is a stream of Arrow's own into the same file, where there is one."""
        self._draft, self._native = draft, native

    @property
    def sink(self) -> Any:
        """What Arrow writes into: a stream of its own, which needs no interpreter for each page, or this one.

        Whoever has written there closes this one, and not that.
        """
        return self if self._native is None else self._native

    def writable(self) -> bool:
        """It is for writing alone."""
        return True

    def tell(self) -> int:
        """How many bytes were written; to be asked while it is open."""
        return self._written if self._native is None else int(self._native.tell())

    def write(self, data: Buffer) -> int:
        """Takes in all of the data."""
        if self._draft is None:
            raise ValueError("this stream is closed")
        whole = memoryview(data).cast("B")
        self._draft.write(whole)
        self._written += len(whole)
        return len(whole)

    def close(self) -> None:
        """Lets the file be seen; nothing happens to a stream that is closed. Where that fails, it is never seen."""
        draft = self._taken()
        if draft is not None:
            _finish(draft)

    def abandon(self) -> None:
        """Closes it so that the file is never seen."""
        draft = self._taken()
        if draft is not None:
            draft.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()

    def __del__(self) -> None:
        # Python's own would close it, and so finish a file that somebody forgot half way.
        self.abandon()

    def _taken(self) -> Draft | None:
        draft, self._draft = self._draft, None
        super().close()
        return draft


def _finish(draft: Draft) -> None:
    try:
        draft.finish()
    except BaseException:
        draft.abandon()
        raise


# So many bytes of its file, from one of them on.
Part = Callable[[int, int], bytes]


class Parts(io.RawIOBase):
    """A file of which each part is a request; nothing of it is kept."""

    def __init__(self, part: Part, size: int) -> None:
        """`size` is the file's."""
        self._part, self._size, self._place = part, size, 0

    def readable(self) -> bool:
        """It is for reading alone."""
        return True

    def seekable(self) -> bool:
        """Anywhere in it."""
        return True

    def tell(self) -> int:
        """Where the next part begins."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Begin the next part elsewhere."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = max(start + offset, 0)
        return self._place

    def readinto(self, buffer: Buffer) -> int:
        """As much as there is room for."""
        into = memoryview(buffer).cast("B")
        count = min(len(into), max(self._size - self._place, 0))
        if count:
            into[:count] = self._part(self._place, count)
            self._place += count
        return count
