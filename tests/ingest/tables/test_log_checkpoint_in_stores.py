"""Checkpoints of logs in a store, which are made from copies of what was written here."""

from __future__ import annotations

import random
from contextlib import closing

import pytest
from deltalake import DeltaTable
from tests.ingest.tables.test_in_stores import read
from tests.ingest.tables.test_log_checkpoint import A, checkpoints, commit

from distributary.ingest.log_paths import LOG
from distributary.ingest.storage.clients import sent
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.change import create
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log_commit import NativeCommits


@pytest.mark.parametrize("seed", range(5))
def test_checkpoints_in_a_store_are_those_of_the_whole_log(in_s3: Files, seed: int) -> None:
    """Made of the entries that were written here, of those asked for, and of the checkpoint before, as each may be missing."""
    chance = random.Random(seed)
    create(in_s3.below("t"), A, {"delta.checkpointInterval": str(chance.randint(2, 6))})
    number = 0
    for _ in range(3):
        with closing(NativeCommits()) as commits:
            count = chance.randint(1, 9)
            commit(commits, in_s3, number, count)
            number += count
    table = in_s3.below("t")
    for version in checkpoints(table):
        # Only from the checkpoint: what is before it is away.
        table.delete([f"{LOG}/{other:020d}.json" for other in range(version)])
    assert sorted(row["a"] for row in read(table)) == list(range(number))
    assert opened(table).transaction_version("app") == number - 1


def test_a_checkpoint_in_a_store_costs_a_few_requests_whatever_it_is_made_of(in_s3: Files) -> None:
    create(in_s3.below("t"), A, {"delta.checkpointInterval": "20"})
    commits = NativeCommits()
    commit(commits, in_s3, 0, 3)
    before = sent()
    commit(commits, in_s3, 3, 57)
    commits.close()
    found = checkpoints(in_s3.below("t"))
    assert len(found) >= 2
    # Beside four a commit, two for its data file; the first asks for the table's first entry.
    assert sent() - before <= 57 * 4 + 8 * len(found) + 1


def test_a_log_in_a_store_that_does_not_tell_of_its_checkpoint_gets_the_next_one(in_s3: Files) -> None:
    table = in_s3.below("t")
    create(table, A, {"delta.checkpointInterval": "4"})
    with closing(NativeCommits()) as commits:
        commit(commits, in_s3, 0, 8)
    newest = checkpoints(table)[-1]
    table.delete([f"{LOG}/_last_checkpoint", *(f"{LOG}/{version:020d}.json" for version in range(newest))])
    with closing(NativeCommits()) as commits:
        commit(commits, in_s3, 8, 8)
    assert checkpoints(table)[-1] > newest
    assert sorted(row["a"] for row in read(table)) == list(range(16))


def test_a_table_made_anew_meanwhile_gets_no_checkpoint_of_the_one_before(
    in_s3: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = in_s3.below("t")
    create(table, A, {"delta.checkpointInterval": "1"})
    made_anew = False
    create_checkpoint = DeltaTable.create_checkpoint

    def amid(handle: DeltaTable) -> None:
        nonlocal made_anew
        create_checkpoint(handle)
        table.clear()
        create(table, A, {})
        made_anew = True

    monkeypatch.setattr(DeltaTable, "create_checkpoint", amid)
    with closing(NativeCommits()) as commits:
        commit(commits, in_s3, 0, 1)
    assert made_anew
    assert checkpoints(table) == [] and read(table) == []
