"""One process of a race for names: threads that all put each name."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from distributary.ingest.storage.contract import Files


def body(writer: str) -> bytes:
    """What a writer puts: nobody else's."""
    return writer.encode() * 50


def race(files: Files, racer: str, names: Sequence[str], threads: int) -> list[tuple[str, str]]:
    """Per name that one of this process's writers won, the name and the writer."""
    together = Barrier(threads)

    def run(thread: int) -> list[tuple[str, str]]:
        writer, won = f"{racer}-{thread}", []
        for name in names:
            together.wait()
            if files.put_new(name, body(writer)):
                won.append((name, writer))
        return won

    with ThreadPoolExecutor(threads) as pool:
        return [one for won in pool.map(run, range(threads)) for one in won]
