"""Tables with one row a key, on the real broker: held against the topic, whatever became of the runs that filled them."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
from tests.ingest.e2e.handmade import reasons
from tests.ingest.e2e.keyed import (
    GAMES,
    Kept,
    Keyed,
    assert_spark_reads_the_same,
    counted,
    held,
    newest,
    topic_of,
)
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.errors import CommitImpossible
from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack]

BY_KEY = {"mode": "upsert", "keys": "kafka_key"}
BY_FIELD = {"mode": "upsert", "keys": ["player.id"], "sequence_by": ["at"]}

POINTS = (
    "amid_schema_change",
    "before_manifest",
    "after_manifest",
    "amid_merge",
    "between_commits",
    "before_ledger",
    "before_spark_commit",
)


def has_key(kept: Kept) -> bool:
    return kept.key is not None


def has_key_and_time(kept: Kept) -> bool:
    return kept.body is not None and kept.body["player"] is not None and kept.body["at"] is not None


def by_position(kept: Kept) -> Any:
    return kept.offset


def by_time(kept: Kept) -> Any:
    assert kept.body is not None
    return kept.body["at"], kept.offset


def assert_current(kit: PipelineKit, rule: dict[str, Any]) -> None:
    """Each key has the row that the topic says, and each record is counted in one place."""
    order, takes = (by_position, has_key) if rule is BY_KEY else (by_time, has_key_and_time)
    expected = newest(kit, order, takes)
    assert held(kit) == {key: kept.position for key, kept in expected.items()}
    every, told = topic_of(kit), counted(kit)
    placed = [kept for kept in every if kept.body is not None and takes(kept)]
    assert told["read"] == len(every)
    assert told["dropped"] == sum(kept.body is None for kept in every)
    assert told["tables"] == len(placed)
    assert told["quarantined"] == len(every) - len(placed) - told["dropped"]
    assert told["inserted"] == len(expected)
    found = verify(kit.settings).differences
    assert not found, "\n".join(map(str, found))


# Lighter: tests/ingest/merge/test_any_cut.py cuts the stream without Spark, test_errors_at_each_step_leave_one_row_a_key_and_no_record_counted_twice
# has rows by a field, and test_change_capture.py by the record's key.
@pytest.mark.heavy
@pytest.mark.parametrize("rule", [pytest.param(BY_KEY, id="by_key"), pytest.param(BY_FIELD, id="by_field")])
def test_each_key_has_its_newest_row_however_the_stream_is_cut(
    kit: PipelineKit, rule: dict[str, Any]
) -> None:
    keyed = Keyed(kit).configured(rule, limits={"batch_rows": 25})
    keyed.send(60)
    kit.run()
    assert_current(kit, rule)
    keyed.send(60, players=12)
    kit.run()
    assert_current(kit, rule)
    told = counted(kit)
    assert min(told["updated"], told["duplicate"]) > 0
    assert (told["older"] > 0) == (rule is BY_FIELD)
    lacking = {"null_key"} if rule is BY_KEY else {"null_key", "null_sequence"}
    assert set(reasons(kit)) == lacking
    assert kit.unnamed_files() == set()


# By key and by field in the test above; what dies between the steps is of no mode.
@pytest.mark.parametrize("evolution", ["inline", pytest.param("restart", marks=pytest.mark.heavy)])
def test_errors_at_each_step_leave_one_row_a_key_and_no_record_counted_twice(
    kit: PipelineKit, fail_at: Callable[..., None], evolution: str
) -> None:
    keyed = Keyed(kit).configured(
        BY_FIELD, supervisor={"failures": {"max": len(POINTS), "first_wait_seconds": 0}}
    )
    kit.configured(decode={"evolution": evolution})
    keyed.send(40)
    kit.run()
    # A batch that lets tables grow.
    keyed.send(40, level=3)
    fail_at(*(f"{point}:3" for point in POINTS))
    outcome = kit.run()
    # One table fails amid its merge, and the other one's commit is the one that fails behind it: one attempt has both.
    assert outcome.summary.failures == len(POINTS) - 1
    assert_current(kit, BY_FIELD)
    assert_spark_reads_the_same(kit)
    assert kit.unnamed_files() == set()


# A JVM a point: one amid the commits is in `make test`, and all of them as errors above.
# Lighter: test_errors_at_each_step_leave_one_row_a_key_and_no_record_counted_twice ends it at each step.
@pytest.mark.heavy
@pytest.mark.parametrize(
    "point",
    [
        point if point == "between_commits" else pytest.param(point, marks=pytest.mark.heavy)
        for point in POINTS
    ],
)
def test_a_killed_run_is_brought_to_its_end(kit: PipelineKit, point: str) -> None:
    keyed = Keyed(kit).configured(BY_FIELD, limits={"commit_threads": 1})
    keyed.send(40)
    kit.run()
    keyed.send(40, level=3)
    killed = kit.run_apart(f"{point}:3=kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    kit.run()
    assert_current(kit, BY_FIELD)
    assert kit.unnamed_files() == set()


# Lighter: test_a_table_is_held_against_its_rule_before_anything_is_decided_by_it (tests/ingest/tables/test_modes.py), and the refusals around it.
@pytest.mark.heavy
def test_a_table_that_each_row_was_added_to_is_not_made_one_of_one_row_a_key(kit: PipelineKit) -> None:
    keyed = Keyed(kit).configured({})
    keyed.send(10)
    kit.run()
    before = {game: kit.delta(game).version() for game in GAMES}
    keyed.configured(BY_KEY)
    keyed.send(10)
    with pytest.raises(CommitImpossible, match=r"tables\[0\] says mode upsert, keys kafka_key"):
        kit.run()
    assert {game: kit.delta(game).version() for game in GAMES} == before


# Lighter: test_another_checkpoint_tells_the_same reads a topic again, tests/ingest/merge/test_any_cut.py has batches come once more.
@pytest.mark.heavy
def test_a_replay_of_the_topic_changes_no_row(kit: PipelineKit) -> None:
    keyed = Keyed(kit).configured(BY_FIELD)
    keyed.send(60)
    kit.run()
    first = held(kit)
    kit.configured(checkpoint="./another", start="again")
    kit.run()
    assert held(kit) == first
    told = [
        row
        for row in kit.rows("ledger_batches").to_pylist()
        if row["rows_updated"] == row["rows_inserted"] == 0
    ]
    assert (
        sum(row["rows_older"] + row["rows_duplicate"] for row in told)
        == sum(row["rows_tables"] for row in told)
        > 0
    )
