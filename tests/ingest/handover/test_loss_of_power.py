"""A new checkpoint over tables from which a loss of power took the newest batch: it is brought in before anything is gone on from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.ingest.handover.test_heritage import begin_at, heritage, stopped, taken_over, unfinished
from tests.ingest.kafka_records import TOPIC
from tests.ingest.queries import GOLF, batches

from distributary.errors import PolicyStopped
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.commit_log.owners import Owners

TABLES = pytest.mark.parametrize("tables", [(BATCHES_TABLE,), (GOLF, BATCHES_TABLE)])


def cut_short(lake: Path, tables: Sequence[str]) -> None:
    """The newest entry of each table's log, as a loss of power leaves one that was not synced."""
    for table in tables:
        newest = max((lake / table / "_delta_log").glob("*.json"))
        newest.write_bytes(newest.read_bytes()[:-20])


@TABLES
def test_tables_from_which_a_loss_of_power_took_the_newest_batch_are_taken_over_whole(
    tmp_path: Path, tables: tuple[str, ...]
) -> None:
    first = batches(tmp_path, 2)
    cut_short(tmp_path / "lake", tables)
    assert taken_over(tmp_path, "second", "from_tables")[1] == {TOPIC: {0: 2}}
    assert (first.rows(GOLF), first.rows(BATCHES_TABLE)) == (2, 2)


@TABLES
def test_a_loss_of_power_amid_taking_over_takes_nothing_of_the_earlier_checkpoints_batch(
    tmp_path: Path, tables: tuple[str, ...]
) -> None:
    first = batches(tmp_path, 1)
    unfinished(first, 1)
    new, owners = begin_at(tmp_path, "second", "from_tables")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(PolicyStopped):
        patch.setattr(Owners, "take_over", stopped)
        heritage(tmp_path).complete(new, owners)
    cut_short(tmp_path / "lake", tables)
    assert heritage(tmp_path).complete(new, owners) == {TOPIC: {0: 2}}
    assert (first.rows(GOLF), first.rows(BATCHES_TABLE)) == (2, 2)
