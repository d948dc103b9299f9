"""An earlier log whose place does not answer just now: it is there all the same, with what waits in it alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.ingest.handover.test_heritage import NO_SPARK, WORLD, heritage
from tests.ingest.queries import batches
from tests.ingest.storage.stores import Store

from distributary.errors import TablesOfAnotherRun
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.commit_log.entries import Owner
from distributary.ingest.commit_log.owners import Owners, Records
from distributary.ingest.commit_log.writing import hand_over
from distributary.ingest.handover.heritage import Heritage
from distributary.ingest.handover.reaching import Reaching
from distributary.ingest.settings.groups import Columns
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.place import Place
from distributary.ingest.tables.known import TableBook
from distributary.ingest.tables.log_commit import NativeCommits


def test_a_log_in_a_folder_that_cannot_be_read_just_now_is_not_taken_for_one_that_is_gone(
    tmp_path: Path,
) -> None:
    """Though the user said, as a start before told him to, that its run is dead."""
    first = batches(tmp_path, 2)
    dead = first.runner.attempts.run.generation.id
    file = first.here.folder / "generation.json"
    file.rename(aside := tmp_path / "aside.json")
    os.symlink(file, file)
    for confirmed in ((), (dead,)):
        with pytest.raises(OSError, match="symbolic links"):
            heritage(tmp_path).start("from_tables", "games", confirmed, WORLD)
    file.unlink()
    aside.rename(file)
    assert heritage(tmp_path).start("from_tables", "games", (dead,), WORLD).after is not None


def test_a_table_is_not_refused_while_nobody_can_tell_to_whom_its_owners_log_was_handed_over(
    tmp_path: Path,
) -> None:
    """It may be to the one who asks: an outage amid a run is waited for, and not told of as tables of another."""
    first = batches(tmp_path, 2)
    checkpoint, run = first.here, first.runner.attempts.run
    found, records = heritage(tmp_path), Records(run.root)
    (table, owner), *_ = records.all().items()
    heir = Owner("games", str(tmp_path / "another"), "another")
    hand_over(checkpoint.log, heir)
    owners = Owners(records, heir, found.log)
    file = checkpoint.folder / "generation.json"
    file.rename(aside := tmp_path / "aside.json")
    os.symlink(file, file)
    for _ in range(2):
        with pytest.raises(OSError, match="symbolic links"):
            owners.claim([table])
    file.unlink()
    aside.rename(file)
    owners.claim([table])
    assert owner != heir and records.of(table) == heir


def test_a_log_in_the_tables_own_store_is_not_gone_because_that_does_not_answer(s3_store: Store) -> None:
    root = s3_store.files().below("lake")
    tables = TableBook(root, Columns(), None, 4, NativeCommits())
    place = Place.parse(root.url)
    nobody = s3_store.options_by(1)
    silent = nobody.model_copy(update={"http": nobody.http.model_copy(update={"retry_seconds": 0.5})})
    assert Records(root).put("golf", 0, Owner("games", f"{place}/log", "dead"))
    found = Heritage(
        Reaching(
            tables, NativeCommits(), NO_SPARK, lambda log: Checkpoint(open_files(Place.parse(log), silent))
        )
    )
    with pytest.raises(ConnectionError):
        found.start("from_tables", "games", ("dead",), WORLD)
    # One elsewhere may be gone for good: then the user says so.
    assert Records(root).put("golf", 1, Owner("games", "s3://elsewhere/log", "gone"))
    with pytest.raises(TablesOfAnotherRun, match="its log cannot be reached from here"):
        found.start("from_tables", "games", (), WORLD)
    assert found.start("from_tables", "games", ("gone",), WORLD).dead == ("gone",)
