"""Files on their way to where they belong: into a folder at once, to another machine by threads while the task goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq

from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.stream import Upload

# A thousand small files at 30 ms each are two seconds then.
_AT_ONCE = 16

# Encoded and not yet there: above this, and above so many, the task waits.
MOST_BYTES_UNDER_WAY = 64 * 2**20
_MOST_UNDER_WAY = 256

# What a stream that is closed may still hold: its last part, and those under way.
_STREAM_BYTES = 24 * 2**20


class Uploads:
    """Puts files, and finishes streams into files. An error shows with the next of them, at the latest by `finish`."""

    def __init__(self, files: Files) -> None:
        """Starts no thread before there is something to put."""
        self._files = files
        self._pool = ThreadPoolExecutor(_AT_ONCE, "upload") if files.remote else None
        self._under_way: dict[Future[None], int] = {}

    def put(self, path: str, data: pa.Buffer) -> None:
        """Put a file under a name that nobody else has."""
        self._do(data.size, lambda: self._files.put(path, data, named_later=True))

    def close(self, stream: Upload) -> None:
        """Let a stream's file be there, whole."""
        self._do(min(stream.tell(), _STREAM_BYTES), stream.close)

    def finish(self) -> None:
        """Wait until all files are there. Raises the OSError of the first that cannot be."""
        self._collect(list(self._under_way))
        self._end(cancel=False)

    def abandon(self) -> None:
        """Begin nothing any more; what is under way comes to its end, whichever that is."""
        self._end(cancel=True)

    def _do(self, size: int, work: Callable[[], None]) -> None:
        if self._pool is None:
            work()
            return
        self._make_room(size)
        self._under_way[self._pool.submit(work)] = size

    def _make_room(self, size: int) -> None:
        self._collect([one for one in self._under_way if one.done()])
        while self._under_way and self._is_full(size):
            self._collect(wait(self._under_way, return_when=FIRST_COMPLETED).done)

    def _is_full(self, size: int) -> bool:
        waiting = sum(self._under_way.values())
        return waiting + size > MOST_BYTES_UNDER_WAY or len(self._under_way) >= _MOST_UNDER_WAY

    def _collect(self, done: Iterable[Future[None]]) -> None:
        for one in done:
            del self._under_way[one]
            one.result()

    def _end(self, *, cancel: bool) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=cancel)


def give_up(writer: pq.ParquetWriter | None, stream: Upload) -> None:
    """End a Parquet file that is not to be."""
    if writer is not None:
        # Left open it would write its end into what is closed by then, whenever Python comes by.
        with suppress(Exception):
            writer.close()
    stream.abandon()
