"""Tables that keep what was, on the real broker: held against a recomputation from the topic, whatever became of the runs."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.ingest.e2e.handmade import reasons
from tests.ingest.e2e.keyed import GAMES, assert_spark_reads_the_same, counted, rows_of, topic_of
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.test_upserts_in_partitions import nine_days_later
from tests.ingest.e2e.told import RULE, START, Told, expected, held, takes

from distributary.ingest.merge.rule import memory_folder
from distributary.ingest.resolve import resolve
from distributary.ingest.upkeep.maintain import Wish, maintain
from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def telling(kit: PipelineKit, rule: dict[str, Any] | None = None, **more: Any) -> Told:
    return Told(kit, deletes=0.2).configured(rule or RULE, **more)


def assert_told(kit: PipelineKit) -> None:
    """Each key has the rows that the topic says; each record is counted in one place."""
    wanted = expected(kit)
    assert held(kit) == wanted
    spans = [span for found in wanted.values() for span in found]
    assert any(span[2] is None for span in spans)
    assert any(span[2] is not None for span in spans)
    every, told = topic_of(kit), counted(kit)
    placed = [kept for kept in every if takes(kept)]
    assert told["read"] == len(every)
    assert told["tables"] == len(placed)
    assert told["dropped"] == sum(kept.body is None for kept in every)
    assert told["quarantined"] == len(every) - len(placed) - told["dropped"]
    found = verify(kit.settings).differences
    assert not found, "\n".join(map(str, found))


def assert_files_are_told(kit: PipelineKit) -> None:
    """The ledger tells of all data files, those that merges made of a batch's rows and others among them."""
    root = kit.lake.root
    folders = [one for one in root.folders() if not one.startswith((".", "ledger_"))]
    sizes = {
        one.name: one.size for folder in folders for one in root.list(folder) if one.name.endswith(".parquet")
    }
    assert any("-merged-" in name for name in sizes)
    rows = kit.rows("ledger_batches").to_pylist()
    told = sum(row["files"] for row in rows), sum(row["bytes"] for row in rows)
    assert told == (len(sizes), sum(sizes.values()))


# Lighter: test_errors_at_each_step_end_each_row_once ends them at each step.
@pytest.mark.heavy
def test_tables_tell_what_was_true_when_however_the_stream_is_cut(kit: PipelineKit) -> None:
    keyed = telling(kit, limits={"batch_rows": 25})
    keyed.send(60)
    kit.run()
    assert_told(kit)
    keyed.send(60, players=12)
    kit.run()
    assert_told(kit)
    told = counted(kit)
    assert min(told["updated"], told["unchanged"], told["deleted"], told["inserted"]) > 0
    assert set(reasons(kit)) == {"null_key", "null_sequence"}
    for game in GAMES:
        remembered = kit.rows(memory_folder(game))
        mine = [kept for kept in topic_of(kit) if takes(kept) and kept.body and kept.body["game"] == game]
        assert remembered.num_rows == len(mine)
        assert "score" not in remembered.column_names


POINTS = ("amid_schema_change", "after_manifest", "amid_merge", "between_commits", "before_ledger")


# Lighter: tests/ingest/e2e/test_upserts.py has the same steps of the same merge.
@pytest.mark.heavy
def test_errors_at_each_step_end_each_row_once(kit: PipelineKit, fail_at: Callable[..., None]) -> None:
    keyed = telling(kit, supervisor={"failures": {"max": len(POINTS), "first_wait_seconds": 0}})
    keyed.send(40)
    kit.run()
    assert_files_are_told(kit)
    keyed.send(40, level=3)
    fail_at(*(f"{point}:3" for point in POINTS))
    assert kit.run().summary.failures == len(POINTS) - 1
    assert_told(kit)
    assert_spark_reads_the_same(kit)


# A JVM each: what is killed between what remembers the records and the table is in `make test`.
# Lighter: test_errors_at_each_step_end_each_row_once ends them at each step.
@pytest.mark.heavy
@pytest.mark.parametrize(
    "point", ["amid_merge", *(pytest.param(one, marks=pytest.mark.heavy) for one in POINTS[:2])]
)
def test_a_killed_run_is_brought_to_its_end(kit: PipelineKit, point: str) -> None:
    keyed = telling(kit, limits={"commit_threads": 1})
    keyed.send(40)
    kit.run()
    keyed.send(40, level=3)
    killed = kit.run_apart(f"{point}:3=kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    kit.run()
    assert_told(kit)


@pytest.mark.parametrize("start", ["again", pytest.param("from_tables", marks=pytest.mark.heavy)])
def test_another_checkpoint_tells_the_same(kit: PipelineKit, start: str) -> None:
    keyed = telling(kit, limits={"commit_threads": 1})
    keyed.send(60)
    kit.run()
    if start == "from_tables":
        keyed.send(40)
        killed = kit.run_apart("amid_merge:3=kill")
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    kit.configured(checkpoint="./another", start=start)
    kit.run()
    assert held(kit) == expected(kit)


# Somebody moves it, which nobody does in a store.
# Lighter: test_errors_at_each_step_end_each_row_once ends them at each step.
@pytest.mark.heavy
@pytest.mark.folder
def test_a_table_that_is_moved_away_takes_what_is_remembered_with_it(kit: PipelineKit) -> None:
    keyed = telling(kit)
    keyed.send(40)
    kit.run()
    kit.configured(checkpoint="./another", start="again")
    shutil.rmtree(kit.root / "go")
    with pytest.raises(Exception, match="go__deleted remembers records of the one before it"):
        kit.run()
    shutil.rmtree(kit.root / memory_folder("go"))
    kit.run()
    assert held(kit) == expected(kit)


# Lighter: test_errors_at_each_step_end_each_row_once ends them at each step.
@pytest.mark.heavy
def test_a_new_column_makes_history_and_one_of_the_bounds_names_gets_another(kit: PipelineKit) -> None:
    keyed = telling(kit)
    keyed.send(30)
    kit.run()
    keyed.send(30, level=3, valid_from="of theirs")
    kit.run()
    assert held(kit) == expected(kit, "valid_from")
    rows = [row for game in GAMES for row in rows_of(kit, game) if row["level"] == 3]
    theirs = {name for row in rows for name, value in row.items() if value == "of theirs"}
    assert len(theirs) == 1
    assert "valid_from" not in theirs
    changed = kit.rows("ledger_changes").to_pylist()
    assert {row["column"] for row in changed if row["kind"] == "added"} == {"level", *theirs}


def test_deletes_alone_make_a_table_that_an_older_record_then_finds(kit: PipelineKit) -> None:
    keyed = telling(kit)
    body = {"game": "chess", "player": 1, "score": 1, "op": "d", "at": 5}
    keyed.send_one(1, body)
    kit.run()
    assert held(kit) == {}
    keyed.send_one(1, {**body, "op": "u", "at": 2})
    kit.run()
    assert held(kit) == expected(kit)
    ((_, since, until, _),) = held(kit)["chess", 1]
    assert (since, until) == (START + timedelta(hours=2), START + timedelta(hours=5))


def test_a_number_says_nothing_of_when(kit: PipelineKit) -> None:
    keyed = telling(kit, {**RULE, "sequence_by": ["at"], "history": {"ignore": ["time"]}})
    keyed.send_one(1, {"game": "chess", "score": 1, "op": "u", "at": 5})
    with pytest.raises(Exception, match="at is int64, which is neither a time nor a day"):
        kit.run()


# Lighter: test_errors_at_each_step_end_each_row_once ends them at each step.
@pytest.mark.heavy
def test_a_table_that_has_rows_stays_what_it_is(kit: PipelineKit) -> None:
    keyed = telling(kit)
    keyed.send(10)
    kit.run()
    for other in (
        {**RULE, "mode": "upsert", "history": None},
        {**RULE, "history": {"ignore": ["score"]}},
        {"mode": "append"},
    ):
        keyed.configured({name: value for name, value in other.items() if value is not None})
        keyed.send(5)
        with pytest.raises(Exception, match="has rows that landed with mode history"):
            kit.run()
    keyed.configured({**RULE, "history": {"ignore": ["at"], "remember_days": 3}})
    kit.run()
    assert_told(kit)


# Histories that are killed, and partitions that are brought together, are each in `make test`.
@pytest.mark.heavy
def test_tables_in_partitions_that_keep_what_was_are_kept_up_and_killed(kit: PipelineKit) -> None:
    keyed = telling(kit, {**RULE, "partition_by": ["score"]}, limits={"commit_threads": 1, "batch_rows": 25})
    keyed.send(60)
    kit.run()
    keyed.send(40, level=3)
    killed = kit.run_apart("amid_merge:5=kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = maintain(kit.settings, Wish(older_than_days=8), clock=nine_days_later)
    assert [one.failed for one in done.tables if one.failed] == []
    kit.run()
    assert_told(kit)
    done = maintain(kit.settings, Wish(older_than_days=8), clock=nine_days_later)
    assert [one.failed for one in done.tables if one.failed] == []
    keyed.send(30, players=12)
    kit.run()
    assert_told(kit)
    for game in GAMES:
        assert kit.delta(game).metadata().partition_columns == ["score"]


# What waits does so for tables of any kind; that what remembers the records waits with its table is of these alone.
@pytest.mark.heavy
@pytest.mark.folder
def test_records_of_a_parked_table_wait_with_it(kit: PipelineKit) -> None:
    more: dict[str, Any] = {
        "policies": {"stuck_table": "park"},
        "supervisor": {"failures": {"max": 3, "first_wait_seconds": 0}},
    }
    keyed = telling(kit, {**RULE, "history": {"ignore": ["at", "seen"]}}, **more)
    keyed.send(40)
    kit.run()
    keyed.send(40)
    killed = kit.run_apart("after_manifest:3=kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    memory, aside = kit.root / memory_folder("go"), kit.folder / "aside"
    memory.rename(aside)
    assert kit.run().parked == {"go": 1}
    keyed.send(40, level=4, seen=4)
    assert kit.run().parked == {"go": 2}
    for path in aside.iterdir():
        path.rename(memory / path.name)
    keyed.send(40)
    assert not kit.run().parked
    assert held(kit) == expected(kit)
    # What came with a column that nobody had is remembered with it.
    assert {row["seen"] for row in kit.rows(memory_folder("go")).to_pylist()} == {None, 4}
    found = verify(kit.settings).differences
    assert not found, "\n".join(map(str, found))


# Each half is shown without the other in `make test`: what became of lost files, and a table that was made anew.
@pytest.mark.heavy
@pytest.mark.folder
def test_a_table_that_is_made_anew_goes_on_by_what_is_remembered(kit: PipelineKit) -> None:
    keyed = telling(kit)
    keyed.send(40)
    kit.run()
    keyed.send(10)
    killed = kit.run_apart("after_manifest:3=kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    shutil.rmtree(kit.root / "go" / "_delta_log")
    with pytest.raises(Exception, match="no Delta table any more"):
        kit.run()
    resolve(kit.settings, "go", "recreate")
    kit.run()
    wanted = expected(kit)
    found = held(kit)
    assert {key: spans for key, spans in found.items() if key[0] == "chess"} == {
        key: spans for key, spans in wanted.items() if key[0] == "chess"
    }
    # Of the rows that are gone nothing comes back, and none is true while another one is.
    assert not [one for one in verify(kit.settings).differences if one.kind == "key_twice"]
    keyed.send(20)
    kit.run()
    assert not [one for one in verify(kit.settings).differences if one.kind == "key_twice"]
