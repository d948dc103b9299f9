"""Records as they were that replays left when they died: an erasure leaves none of them, but of one that brings them yet."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from distributary.ingest.checkpoint.folder import DONE, Checkpoint
from distributary.ingest.erasure.replays import have_records
from distributary.ingest.lease.replaying import alone
from distributary.ingest.replay.kept import kept_as
from distributary.ingest.storage.opening import files_at
from distributary.ingest.storage.posix import PosixFiles


class Store(PosixFiles):
    """A place whose workers are on other machines."""

    remote = True

    def below(self, folder: str) -> Store:
        """As everywhere."""
        return Store(os.path.join(self.url, folder))


def payloads(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.rglob("*") if file.is_file() and b"said" in file.read_bytes())


@pytest.mark.parametrize("place", [PosixFiles, Store])
def test_what_died_while_it_took_records_leaves_none_of_them(
    tmp_path: Path, place: Callable[[str], PosixFiles]
) -> None:
    checkpoint, root = Checkpoint(files_at(tmp_path / "checkpoint")), place(str(tmp_path / "lake"))
    for name in ("taking", "done", "begun"):
        one = kept_as(checkpoint.files, root, name)
        one.announce()
        one.records.put(f"{name}.parquet", b"what somebody said")
        # Killed while it wrote one.
        one.records.put(f".{name}.tmp", b"what somebody said")
        if name != "taking":
            one.begin({"id": name, "at": "2026-01-01"})
        if name == "done":
            one.place.put_new(DONE, b"{}")
    assert have_records(checkpoint, root, dry_run=True)
    assert len(payloads(tmp_path)) == 6
    with alone(checkpoint):
        assert have_records(checkpoint, root, dry_run=False)
    assert len(payloads(tmp_path)) == 6, "one that is just taking them is alive"
    assert have_records(checkpoint, root, dry_run=False)
    assert payloads(tmp_path) == [".begun.tmp", "begun.parquet"]
    kept_as(checkpoint.files, root, "begun").place.put_new(DONE, b"{}")
    assert not have_records(checkpoint, root, dry_run=False)
    assert payloads(tmp_path) == []
