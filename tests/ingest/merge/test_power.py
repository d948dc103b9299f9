"""The power fails at any call of a merge and takes whatever was not synced: done again, each row is what it should be, once."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.ingest.merge.test_any_cut import Model, same
from tests.ingest.merge.test_deletes import later
from tests.ingest.merge.test_upsert import COLUMNS, row
from tests.ingest.merge.upserted import Upserted, ordered_by
from tests.ingest.power import Disk, PowerFailed, seeds

from distributary import files
from distributary.ingest.merge.rule import MergeRule, memory_folder
from distributary.ingest.tables.commit import make_lasting
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.mending import mend
from distributary.ingest.tables.transaction import TableCommit

# A file that was being written when the power failed is closed by whoever comes by.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

# The calls of so many batches, at least.
CALLS, BATCHES, SYNCS = 270, 5, 60

Staged = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def records(rng: random.Random, batch: int) -> Staged:
    """Rows and deletes of a batch; their places in Kafka are all different."""
    found: Staged = ([], [])
    for number in range(8):
        one = row(rng.randrange(6), rng.randrange(9), f"{batch}/{number}", offset=batch * 100 + number)
        found[rng.random() < 0.3].append(later(0, one))
    return found


class Pipeline:
    """What decides batches and brings them in, and outlasts a loss of power as a manifest does."""

    def __init__(self, root: Path) -> None:
        self.table = Upserted.made(root, COLUMNS, MergeRule(("id",), ordered_by("seq")), deletes=True)
        self.decided: Sequence[TableCommit] = ()
        self.model = Model(self.table.rule)

    def batch(self, rng: random.Random) -> None:
        if rng.random() < 0.3:
            folder = rng.choice((self.table.folder, memory_folder(self.table.folder)))
            DeltaTable(self.table.root.below(folder).url).optimize.compact()
        rows, deletes = records(rng, self.table.batch + 1)
        decided = self.table.decided(rows, deletes)
        self.table.root.sync([f"{part.table}/{file.name}" for part in decided.parts for file in part.files])
        self.decided = [decided]
        for one in rows:
            self.model.take(one)
        for one in deletes:
            self.model.take(one, removes=True)
        self.finish()

    def tried(self, step: Callable[[], None]) -> None:
        """Do this, or start anew where a sync failed."""
        try:
            step()
        except OSError:
            self.restart()

    def finish(self) -> None:
        commits = self.decided
        while commits:
            there = [one.table for one in commits if not self.commit(one)]
            commits = make_lasting(self.table.root, commits, self.table.commits, there)

    def commit(self, decided: TableCommit) -> bool:
        """Bring it in, what remembers its deletes first; whether its table had it not."""
        *_, fresh = [self.table.commits.commit(part) for part in decided.parts]
        return fresh

    def restart(self) -> None:
        number = self.decided[-1].batch_id if self.decided else 0
        for folder in (self.table.folder, memory_folder(self.table.folder)):
            mend(self.table.root.below(folder), lambda _, synced: synced < number)
        self.table.commits = NativeCommits()
        self.finish()


@pytest.mark.parametrize("seed", seeds(6, 150))
def test_a_loss_of_power_loses_and_doubles_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(files, "MANY", rng.choice((3, 1000)))
    pipeline = Pipeline(tmp_path)
    for call in [rng.randrange(1, CALLS) for _ in range(rng.choice((1, 2, 3)))]:
        disk = Disk((tmp_path,), call, refuses_at=rng.choice((None, rng.randrange(1, SYNCS))))
        try:
            with disk.watched():
                pipeline.tried(pipeline.restart)
                for _ in range(BATCHES):
                    pipeline.tried(lambda: pipeline.batch(rng))
        except PowerFailed:
            disk.fail(rng)
    pipeline.restart()
    table = pipeline.table
    assert same(table.rows()) == same(rows_of(pipeline))
    pipeline.batch(rng)
    assert same(table.rows()) == same(rows_of(pipeline))
    left = {name for name in table.place.names() if name.startswith("deletion_vector_")}
    assert len(left) <= 3 * BATCHES + 2


def rows_of(pipeline: Pipeline) -> list[dict[str, Any]]:
    rows = list(pipeline.model.rows.values())
    found: list[dict[str, Any]] = pa.Table.from_pylist(rows, pipeline.table.schema).to_pylist()
    return found


def test_a_run_makes_as_many_calls_as_those_at_which_the_power_fails(tmp_path: Path) -> None:
    pipeline, disk = Pipeline(tmp_path), Disk((tmp_path,))
    with disk.watched():
        for _ in range(BATCHES):
            pipeline.batch(random.Random(0))
    assert CALLS <= disk.calls <= 1.2 * CALLS
