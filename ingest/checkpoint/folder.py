"""The checkpoint's place: the log, and what is beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from distributary.ingest.commit_log.reading import CLOSED, ENTRIES, CommitLog
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import At, files_at, open_files
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place
from distributary.ingest.storage.probe import require_folder, require_usable

# Where in a checkpoint each kind of our files is: changes of tables, written before they are made; every schema ever used;
# rows set aside during a batch, raw; commits that can never succeed, and what the user decided about them; who runs it.
CHANGES, PINS, ASIDE, STUCK = "changes", "pins", "aside", "stuck"
RESOLUTIONS, GENERATION, LEASE = "resolutions", "generation.json", "lease"

# Tables that are emptied and made again; what upkeep has read of tables' logs.
RESETS, UPKEEP = "resets", "upkeep"

BEGUN, DONE = "begun.json", "done.json"
"""What says in a folder of its own that a replay or a reset was begun, and that it is done."""

# Schemas of keys, below the pins.
KEYS = "keys"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything of a checkpoint.

    files  all our files, each by its path from here
    """

    files: Files

    @classmethod
    def at(cls, place: At) -> Checkpoint:
        """The checkpoint in a folder, or by a URL that the environment has the keys for."""
        return cls(files_at(place))

    def __str__(self) -> str:
        return self.files.url

    @property
    def log(self) -> CommitLog:
        """Who ran the pipeline, and what each batch decided."""
        return CommitLog(self.files)

    @property
    def folder(self) -> Path:
        """Its folder. Raises ValueError for a checkpoint in a store, which has none: `files.remote` tells."""
        if self.files.remote:
            raise ValueError(f"{self} is no folder")
        return Path(self.files.url)

    def make(self) -> None:
        """Make its folders, so that they survive a loss of power; a store is asked whether it keeps what is promised of it.

        Nothing happens to what is there. Raises SetupError for a place that cannot be used.
        """
        if self.files.remote:
            require_usable(self.files)
            return
        for name in (CHANGES, PINS, ASIDE, LEASE, STUCK, RESOLUTIONS):
            require_folder(self.folder / name)

    def sweep(self) -> int:
        """How many leftovers of killed writers were removed; only for the holder of the lease."""
        # Upkeep that goes on meanwhile does without what it was to keep there.
        folders = ("", ENTRIES, CLOSED, CHANGES, PINS, f"{PINS}/{KEYS}", STUCK, RESOLUTIONS, LEASE, UPKEEP)
        return sum(map(self.files.sweep, folders))


def going(checkpoint: Files, kind: str) -> Iterator[str]:
    """The ids of those of a kind, in a checkpoint, that were begun and are not done. Raises OSError."""
    place = checkpoint.below(kind)
    for name in place.folders():
        if place.info(f"{name}/{BEGUN}") is not None and place.info(f"{name}/{DONE}") is None:
            yield name


def checkpoint_at(storage: StorageOptions, log: str) -> Checkpoint:
    """The checkpoint that has a log."""
    return Checkpoint(open_files(Place.parse(log), storage))
