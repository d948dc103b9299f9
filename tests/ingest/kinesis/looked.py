"""A stream in memory, a clock that tests move, and readings of the one by the other."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from tests.ingest.kinesis.emulated import Emulated

from distributary.ingest.kinesis.kept import Kept
from distributary.ingest.kinesis.looking import Looking
from distributary.ingest.kinesis.questions import Questions
from distributary.ingest.kinesis.reading import parts_of, rows_of
from distributary.ingest.settings.source.kinesis import KinesisStream
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.posix import PosixFiles

HOUR = 3600.0


class Clock:
    def __init__(self) -> None:
        self.at = 1_800_000_000.0

    def __call__(self) -> float:
        return self.at


class World:
    """A stream, a clock, and a folder for what is read."""

    def __init__(self, folder: Path, shards: int = 1, page: int = 10_000) -> None:
        self.clock = Clock()
        self.stream = Emulated(shards, now=self.clock, page=page)
        self.kept: Files = PosixFiles(folder / "kept")
        self.questions = Questions(self.stream, KinesisStream(stream="games"))

    def looking(self, begins: int | None = None) -> Looking:
        """A reading of it, as by a process of its own."""
        return Looking(self.questions, Kept(self.kept), self.questions.stream(), lambda _: begins)

    def rows(self, looking: Looking, number: int = 0) -> list[tuple[int, bytes]]:
        """Offset and value of all that is kept of a shard."""
        return [(row["offset"], row["value"]) for row in self.records(looking, number).to_pylist()]

    def records(self, looking: Looking, number: int = 0) -> pa.Table:
        """The same, as records."""
        line = looking.lines[number]
        parts = parts_of(line.pieces, 0, line.end)
        batches = [batch for part in parts for batch in rows_of(self.kept, "games", part)]
        return pa.Table.from_batches(batches) if batches else pa.table({})


def kinds(looking: Looking, number: int = 0) -> list[str]:
    """What the pieces of a shard are."""
    return [piece.kind for piece in looking.lines[number].pieces]
