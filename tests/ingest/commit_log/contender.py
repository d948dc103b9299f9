"""One process of several that all run one log: it begins anew whenever it is shut out. Prints the batches that it was told are its own.

Its input is a pickle: the files, and how many batches it wants.
"""

from __future__ import annotations

import json
import pickle
import sys
from contextlib import suppress

from tests.ingest.commit_log.logs import begun, decided

from distributary.errors import Fenced
from distributary.ingest.storage.contract import Files


def contend(files: Files, wanted: int) -> list[tuple[int, str]]:
    """The numbers and ids of so many batches, decided in spite of all others."""
    mine: list[tuple[int, str]] = []
    while len(mine) < wanted:
        with suppress(Fenced):
            writer = begun(files)
            while len(mine) < wanted:
                batch = decided(writer)
                mine.append((batch.number, batch.id))
    return mine


def main() -> None:
    """Run one process of the contest."""
    given = pickle.load(sys.stdin.buffer)  # noqa: S301
    print("ready", flush=True)
    sys.stdin.buffer.readline()
    print(json.dumps(contend(*given)))


if __name__ == "__main__":
    main()
