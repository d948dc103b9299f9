"""Whoever cleans a table's log up and stands still between a look at it and its deletes: others go on meanwhile, for as long as it takes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from deltalake import DeltaTable
from tests.ingest.tables.test_in_stores import read
from tests.ingest.tables.test_log_checkpoint import A, commit

from distributary.ingest.log_paths import LOG
from distributary.ingest.storage.contract import Info
from distributary.ingest.storage.opening import files_at
from distributary.ingest.storage.posix import PosixFiles
from distributary.ingest.tables.change import create
from distributary.ingest.tables.log_checkpoint import Committed, clean_up
from distributary.ingest.tables.log_commit import NativeCommits

NOW, NEWEST = 1_800_000_000, 12


class StandsStill(PosixFiles):
    """As in a store, where no file is looked into behind the look at all of them."""

    remote = True
    meanwhile: Callable[[], object]

    def list(self, folder: str = "", after: str = "") -> Iterator[Info]:
        found = [*super().list(folder, after)]
        self.meanwhile()
        return iter(found)


@pytest.fixture
def table(tmp_path: Path) -> PosixFiles:
    """A table of twelve commits, one an hour, with a checkpoint at each second one."""
    create(tmp_path / "t", A, {"delta.checkpointInterval": "1000"})
    with closing(NativeCommits()) as commits:
        commit(commits, files_at(tmp_path), 0, NEWEST)
    for version in range(2, NEWEST, 2):
        DeltaTable(tmp_path / "t", version=version).create_checkpoint()
    for path in (tmp_path / "t" / LOG).iterdir():
        if path.name[0] != "_":
            os.utime(path, (NOW - (NEWEST - int(path.name[:20])) * 3_600,) * 2)
    return PosixFiles(tmp_path / "t")


def cleaned(table: PosixFiles, hours: int) -> int:
    return clean_up(
        Committed(table, NEWEST, {"delta.logRetentionDuration": f"interval {hours} hours"}, None, {})
    )


def test_nothing_goes_that_others_stand_on_by_then(
    table: PosixFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distributary.ingest.tables.log_checkpoint._CHECKPOINT_BYTES", 0)
    asleep = StandsStill(table.url)
    asleep.meanwhile = lambda: cleaned(table, 6)
    # Alone it would take those of 6 and 8 away, as the log has more of them than it needs.
    assert cleaned(asleep, 72) == 0
    assert [len(DeltaTable(table.url, version=version).file_uris()) for version in range(6, NEWEST + 1)] == [
        *range(6, NEWEST + 1)
    ]


def test_nothing_goes_of_a_table_that_was_made_anew(table: PosixFiles) -> None:
    root = files_at(Path(table.url).parent)

    def made_anew() -> None:
        shutil.rmtree(table.url)
        create(table, A, {})
        with closing(NativeCommits()) as commits:
            commit(commits, root, 0, 3)

    asleep = StandsStill(table.url)
    asleep.meanwhile = made_anew
    assert cleaned(asleep, 2) == 0
    assert sorted(row["a"] for row in read(table)) == [0, 1, 2]
