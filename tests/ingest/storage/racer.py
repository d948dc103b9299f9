"""One process of a race for names: threads that all put each name, told to go by a line. Prints who was told that it won.

Its first input is a pickle: the files, what its writers are called, the names, and how many threads.
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from distributary.ingest.storage.contract import Files


def body(writer: str) -> bytes:
    """What a writer puts: nobody else's."""
    return writer.encode() * 50


def race(files: Files, racer: str, names: Sequence[str], threads: int) -> list[tuple[str, str]]:
    """Per name that a writer won, the name and the writer."""
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


def main() -> None:
    """Run one process of the race."""
    given = pickle.load(sys.stdin.buffer)  # noqa: S301
    print("ready", flush=True)
    sys.stdin.buffer.readline()
    print(json.dumps(race(*given)))


if __name__ == "__main__":
    main()
