"""One process of several that all run one log: it begins anew whenever it is shut out."""

from __future__ import annotations

from contextlib import suppress

from tests.ingest.commit_log.logs import begun, decided

from distributary.errors import Fenced
from distributary.ingest.storage.contract import Files


def contend(files: Files, wanted: int) -> list[tuple[int, str]]:
    """The numbers and ids of so many batches that it was told are its own, decided in spite of all others."""
    mine: list[tuple[int, str]] = []
    while len(mine) < wanted:
        with suppress(Fenced):
            writer = begun(files)
            while len(mine) < wanted:
                batch = decided(writer)
                mine.append((batch.number, batch.id))
    return mine
