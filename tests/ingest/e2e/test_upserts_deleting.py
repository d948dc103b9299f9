"""Tables with one row a key whose records may delete it, on the real broker: held against the topic, whatever became of the runs."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
from tests.ingest.e2e.handmade import reasons
from tests.ingest.e2e.keyed import GAMES, Kept, Keyed, counted, held, newest, topic_of
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.ingest.merge.rule import memory_folder
from distributary.ingest.parquet.data_file import owner
from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack]

RULE = {"mode": "upsert", "keys": ["player.id"], "sequence_by": ["at"], "deletes": "op = 'd'"}


def takes(kept: Kept) -> bool:
    return kept.body is not None and kept.body["player"] is not None and kept.body["at"] is not None


def by_time(kept: Kept) -> Any:
    assert kept.body is not None
    return kept.body["at"], kept.partition, kept.offset


def assert_current(kit: PipelineKit) -> None:
    """Each key has the row that the topic says, and none whose newest record is a delete; each record is counted in one place."""
    expected = newest(kit, by_time, takes)
    stays = {key: kept.position for key, kept in expected.items() if kept.body and kept.body["op"] == "u"}
    assert 0 < len(stays) < len(expected)
    assert held(kit) == stays
    every, told = topic_of(kit), counted(kit)
    placed = [kept for kept in every if takes(kept)]
    assert told["read"] == len(every)
    assert told["dropped"] == sum(kept.body is None for kept in every)
    assert told["tables"] == len(placed)
    assert told["quarantined"] == len(every) - len(placed) - told["dropped"]
    assert told["deleted"] > 0
    found = verify(kit.settings).differences
    assert not found, "\n".join(map(str, found))


def deleting(kit: PipelineKit, **more: Any) -> Keyed:
    return Keyed(kit, deletes=0.3).configured(RULE, **more)


# Lighter: test_errors_at_each_step_delete_each_row_and_no_other deletes at each step.
@pytest.mark.heavy
def test_a_deleted_key_has_no_row_however_the_stream_is_cut(kit: PipelineKit) -> None:
    keyed = deleting(kit, limits={"batch_rows": 25})
    keyed.send(60)
    kit.run()
    assert_current(kit)
    keyed.send(60, players=12)
    kit.run()
    assert_current(kit)
    told = counted(kit)
    assert min(told["updated"], told["duplicate"], told["older"], told["inserted"]) > 0
    assert set(reasons(kit)) == {"null_key", "null_sequence"}
    for game in GAMES:
        remembered = kit.rows(memory_folder(game))
        assert remembered.num_rows == sum(
            kept.body is not None and takes(kept) and kept.body["op"] == "d" and kept.body["game"] == game
            for kept in topic_of(kit)
        )
        assert {"player", "at", "kafka_offset"} <= set(remembered.column_names)
        assert "score" not in remembered.column_names


POINTS = ("amid_schema_change", "after_manifest", "amid_merge", "between_commits", "before_ledger")


def test_errors_at_each_step_delete_each_row_and_no_other(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    keyed = deleting(kit, supervisor={"failures": {"max": len(POINTS), "first_wait_seconds": 0}})
    keyed.send(40)
    kit.run()
    keyed.send(40, level=3)
    fail_at(*(f"{point}:3" for point in POINTS))
    assert kit.run().summary.failures == len(POINTS) - 1
    assert_current(kit)


# A JVM each: what is killed between what remembers the deletes and the table is in `make test`.
# Lighter: test_errors_at_each_step_delete_each_row_and_no_other deletes at each step.
@pytest.mark.heavy
@pytest.mark.parametrize(
    "point", ["amid_merge", *(pytest.param(one, marks=pytest.mark.heavy) for one in POINTS[:2])]
)
def test_a_killed_run_is_brought_to_its_end_though_files_of_its_deletes_are_lost(
    kit: PipelineKit, point: str
) -> None:
    keyed = deleting(kit, limits={"commit_threads": 1})
    keyed.send(40)
    kit.run()
    keyed.send(40, level=3)
    killed = kit.run_apart(f"{point}:3=kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    if point == "after_manifest":
        root = kit.lake.root
        staged = [info.path for game in GAMES for info in root.list(memory_folder(game)) if owner(info.name)]
        root.delete([path for path in staged if (owner(path.rpartition("/")[2]) or ("", 0))[1] == 3])
    kit.run()
    assert_current(kit)


# Lighter: test_errors_at_each_step_delete_each_row_and_no_other deletes at each step.
@pytest.mark.heavy
@pytest.mark.parametrize("start", ["again", pytest.param("from_tables", marks=pytest.mark.heavy)])
def test_another_checkpoint_brings_no_deleted_row_back(kit: PipelineKit, start: str) -> None:
    keyed = deleting(kit, limits={"commit_threads": 1})
    keyed.send(60)
    kit.run()
    if start == "from_tables":
        keyed.send(40)
        killed = kit.run_apart("amid_merge:3=kill")
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    kit.configured(checkpoint="./another", start=start)
    kit.run()
    expected = newest(kit, by_time, takes)
    assert held(kit) == {
        key: kept.position for key, kept in expected.items() if kept.body and kept.body["op"] == "u"
    }


# What waits does so for tables of any kind; that what remembers the deletes waits with its table is of these alone.
@pytest.mark.heavy
@pytest.mark.folder
def test_deletes_of_a_parked_table_wait_with_it(kit: PipelineKit) -> None:
    more = {
        "policies": {"stuck_table": "park"},
        "supervisor": {"failures": {"max": 3, "first_wait_seconds": 0}},
    }
    keyed = deleting(kit, **more)
    keyed.send(40)
    kit.run()
    keyed.send(40)
    killed = kit.run_apart("after_manifest:3=kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    memory, aside = kit.root / memory_folder("go"), kit.folder / "aside"
    memory.rename(aside)
    assert kit.run().parked == {"go": 1}
    keyed.send(40)
    assert kit.run().parked == {"go": 2}
    for path in aside.iterdir():
        path.rename(memory / path.name)
    keyed.send(40)
    assert not kit.run().parked
    expected = newest(kit, by_time, takes)
    assert held(kit) == {
        key: kept.position for key, kept in expected.items() if kept.body and kept.body["op"] == "u"
    }
    found = verify(kit.settings).differences
    assert not found, "\n".join(map(str, found))
