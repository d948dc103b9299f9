"""Checkpoint and tables put back from copies of any two moments: either the run is refused, or each record is in its table once.

Nothing that is committed is deleted, whichever it is.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from tests.ingest.batch.test_standing_still import assert_each_once, goes_on, query, records
from tests.ingest.kafka_records import TOPIC
from tests.ingest.queries import Query

from distributary.errors import CheckpointMismatch, CommitImpossible, PolicyStopped
from distributary.ingest.batch.finish import Finisher
from distributary.ingest.commit_log import writing
from distributary.ingest.tables.transaction import TableCommit

MOMENTS = (
    "begun",
    "one batch",
    "decided",
    "finished by a start",
    "in one table",
    "and one more",
    "often begun in vain",
    "in all tables but the ledger",
    "two more",
)


@contextmanager
def dying(before: str | None) -> Iterator[None]:
    """A run that dies amid its commits: when one table has its own, or before the tables of this role have theirs."""
    commit = Finisher._commit

    def part(of: Finisher, commits: Sequence[TableCommit], *more: Any) -> None:
        if before is None:
            commit(of, commits[:1], *more)
        if before in (None, *(one.app_id.rpartition("/")[2] for one in commits)):
            raise PolicyStopped("the process dies")
        commit(of, commits, *more)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(PolicyStopped):
        patch.setattr(Finisher, "_commit", part)
        yield


def batch(of: Query) -> None:
    begin = of.log.so_far.ends[TOPIC][0]
    of.batch(begin, records(begin, begin + 4))


def lived(root: Path, copies: Path) -> None:
    """A life of a pipeline, with a copy of checkpoint and tables of each of these moments."""
    moments = iter(MOMENTS)

    def copied() -> None:
        shutil.copytree(root, copies / next(moments))

    run = goes_on(query(root))
    copied()
    batch(run)
    copied()
    with dying("events"):
        batch(run)
    copied()
    run = goes_on(query(root))
    copied()
    with dying(None):
        batch(run)
    copied()
    run = goes_on(query(root), (1,))
    copied()
    for _ in range(8):
        run = goes_on(query(root))
    copied()
    with dying("batches"):
        batch(run)
    copied()
    goes_on(query(root), (1, 1))
    copied()


def committed(root: Path) -> set[Path]:
    tables = [log.parent for log in (root / "lake").glob("*/_delta_log")]
    return {table / Path(uri).name for table in tables for uri in DeltaTable(table).file_uris()}


@pytest.mark.heavy
@pytest.mark.parametrize("closing", [False, True], ids=["", "closed"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_checkpoint_and_tables_of_any_two_moments_lose_and_double_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, closing: bool
) -> None:
    if closing:
        monkeypatch.setattr(writing, "KEPT", 3)
        monkeypatch.setattr(writing, "AT_ONCE", 2)
    root = tmp_path / "pipeline"
    root.mkdir()
    lived(root, tmp_path / "copies")
    for tables in MOMENTS:
        shutil.rmtree(root)
        shutil.copytree(tmp_path / "copies" / moment, root)
        shutil.rmtree(root / "lake")
        shutil.copytree(tmp_path / "copies" / tables / "lake", root / "lake")
        before = committed(root)
        try:
            ends = goes_on(query(root), (1, 1)).log.so_far.ends
        except (CheckpointMismatch, CommitImpossible):
            assert tables != moment, "they belong together"
        else:
            assert_each_once(root, ends[TOPIC][0])
        assert all(file.exists() for file in before), f"tables of {tables!r}"
