"""Tables that are kept up between batches, beside them and amid one, killed upkeep, and the page's own commands."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.ingest.e2e.keyed import GAMES, Keyed
from tests.ingest.e2e.pipeline_kit import PATIENCE_SECONDS, PipelineKit
from tests.ingest.e2e.planted import said
from tests.ingest.e2e.test_upserts import BY_FIELD, assert_current

from distributary.errors import BudgetSpent
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.progress import Silent
from distributary.ingest.storage.contract import Files
from distributary.ingest.upkeep.in_runs import MARK
from distributary.ingest.upkeep.maintain import Upkeep, Wish, maintain, time_there
from distributary.ingest.upkeep.undecided import made_by
from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack]

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/upkeep.md"

DAY = 86_400_000


def after_days(days: float) -> Callable[[Files], int]:
    return lambda root: time_there(root) + int(days * DAY)


def kept_up(kit: PipelineKit, days: float = 0) -> Upkeep:
    """Upkeep so many days later than it is."""
    done = maintain(kit.settings, Wish(), clock=after_days(days))
    done.check()
    return done


# Lighter: test_a_run_keeps_its_tables_up_by_itself_when_it_is_time keeps them up, and tests/ingest/upkeep has the steps.
@pytest.mark.heavy
def test_tables_are_kept_up_between_batches_and_amid_one(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    kit.configured(limits={"commit_threads": 1, "batch_rows": 100})
    kit.simulate(1, corrupt=0.05)
    kit.run()
    first = kept_up(kit)
    assert all(one.after.files == 1 and not one.left for one in first.tables)
    assert {BATCHES_TABLE, "quarantine", kit.folder_of(0)} <= {one.table for one in first.tables}
    kit.assert_clean()
    kit.configured(limits={"batch_rows": 100_000})
    kit.simulate(2, games=4, corrupt=0.05)
    last = kit.manifests.last_batch()
    assert last is not None
    # The next number is the start's.
    fail_at(f"between_commits:{last + 2}")
    with pytest.raises(BudgetSpent):
        kit.run()
    # Some tables have the batch, and for the others its files lie there.
    again = kept_up(kit, days=100)
    assert any(one.compacted for one in again.tables)
    assert any(one.deleted.files for one in again.tables)
    fail_at()
    kit.run()
    kit.assert_clean()
    kept_up(kit, days=100)
    kit.assert_clean()


# Lighter: test_a_run_keeps_its_tables_up_by_itself_when_it_is_time keeps them up, and tests/ingest/upkeep has the steps.
@pytest.mark.heavy
def test_tables_are_kept_up_beside_a_run(kit: PipelineKit) -> None:
    kit.configured(limits={"batch_rows": 60})
    kit.simulate(1)
    kit.run()
    before, compacted = kit.truth.records, 0
    with kit.running() as run:
        for version in (2, 3):
            kit.simulate(version)
            run.wait_for(kit.truth.records - before - 200)
            compacted += sum(one.compacted for one in kept_up(kit, days=8).tables)
            run.wait_for(kit.truth.records - before)
    assert compacted
    kit.configured(trigger={"available_now": True})
    kept_up(kit, days=8)
    kit.assert_clean()


class Told(Silent):
    """Keeps what a run tells beside its batches."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def waiting(self, reason: str, seconds: float) -> None:
        self.said.append(reason)


# Lighter: tests/ingest/upkeep/test_in_runs.py has when it is time, and who does it.
@pytest.mark.heavy
def test_a_run_keeps_its_tables_up_by_itself_when_it_is_time(kit: PipelineKit) -> None:
    kit.configured(limits={"batch_rows": 60}, sink={"maintain": {"every_hours": 24}})
    kit.simulate(1, corrupt=0.05)
    told = Told()
    kit.run(told)
    assert [line for line in told.said if re.match(r"upkeep: \d+ files compacted into \d+, 0 deleted", line)]
    assert all(len(kit.delta(table).file_uris()) == 1 for table in kit.versions())
    kit.simulate(2, corrupt=0.05)
    told = Told()
    kit.run(told)
    assert told.said == [], "not before a day is over"
    kit.assert_clean()


# Lighter: test_a_run_keeps_its_tables_up_by_itself_when_it_is_time keeps them up, and tests/ingest/upkeep has the steps.
@pytest.mark.heavy
def test_a_run_that_goes_on_keeps_its_tables_up_beside_its_batches(kit: PipelineKit) -> None:
    kit.configured(limits={"batch_rows": 60}, sink={"maintain": {"every_hours": 0.001}})
    kit.simulate(1)
    told = Told()
    with kit.running(told) as run:
        run.wait_for(kit.truth.records)
        until = time.monotonic() + PATIENCE_SECONDS
        while not kit.checkpoint.files.info(MARK):
            assert time.monotonic() < until
        kit.simulate(2)
        run.wait_for(kit.truth.records)
    assert any(line.startswith("upkeep: ") for line in told.said)
    kit.configured(trigger={"available_now": True}, sink={"maintain": None})
    kit.run()
    kit.assert_clean()


# Lighter: test_a_run_keeps_its_tables_up_by_itself_when_it_is_time keeps them up, and tests/ingest/upkeep has the steps.
@pytest.mark.heavy
def test_what_came_of_upkeep_is_told_though_no_records_come(kit: PipelineKit) -> None:
    """One that fails each hour was told of with the next batch, if that was days later."""
    kit.configured(sink={"maintain": {"every_hours": 0.001}})
    kit.simulate(1)
    told = Told()
    with kit.running(told) as run:
        run.wait_for(kit.truth.records)
        done, until = len(told.said), time.monotonic() + PATIENCE_SECONDS
        while len(told.said) < done + 2:
            assert time.monotonic() < until


# Lighter: test_a_run_keeps_its_tables_up_by_itself_when_it_is_time keeps them up, and tests/ingest/upkeep has the steps.
@pytest.mark.heavy
def test_tables_with_one_row_a_key_are_kept_up_between_batches_and_beside_them(kit: PipelineKit) -> None:
    keyed = Keyed(kit).configured(BY_FIELD, limits={"batch_rows": 15})
    keyed.send(60)
    kit.run()
    kept_up(kit)
    assert_current(kit, BY_FIELD)
    kit.configured(trigger={"available_now": False})
    with kit.running() as run:
        for _ in range(3):
            keyed.send(30)
            kept_up(kit, days=8)
        run.wait_for(90)
    kit.configured(trigger={"available_now": True})
    assert_current(kit, BY_FIELD)
    kept_up(kit)
    # The next batch notes that this one is settled: until then what was compacted behind it stays.
    keyed.send(15)
    kit.run()
    kept_up(kit, days=8)
    assert_current(kit, BY_FIELD)
    there = {name: made_by(name) for folder in GAMES for name in kit.lake.root.names(folder)}
    assert {of[1] for of in there.values() if of is not None} <= {kit.manifests.last_batch()}
    # What a table was compacted into before that batch and behind it.
    assert sum(of is None for of in there.values()) == 2 * len(GAMES)
    keyed.send(30)
    kit.run()
    assert_current(kit, BY_FIELD)


# Lighter: test_a_run_keeps_its_tables_up_by_itself_when_it_is_time keeps them up, and tests/ingest/upkeep has the steps.
@pytest.mark.heavy
def test_an_old_record_goes_and_a_new_checkpoint_goes_on_by_what_is_left(kit: PipelineKit) -> None:
    days = {"batches_days": 30, "changes_days": 30, "quarantine_days": 30}
    kit.configured(limits={"batch_rows": 60}, sink={"keep": days})
    kit.simulate(1, corrupt=0.05)
    kit.run()
    before = len(kit.rows(BATCHES_TABLE))
    kept_up(kit, days=100)
    whole = verify(kit.settings)
    assert not whole.differences, "\n".join(map(str, whole.differences))
    rows = sorted(kit.rows(BATCHES_TABLE).to_pylist(), key=lambda row: int(row["batch_id"]))
    assert (len(rows), rows[0]["first_batch_id"] is not None) == (3, True)
    assert before > 3
    assert rows[0]["rows_purged"] == rows[0]["rows_quarantined"] > 0
    young = {row["batch_id"] for row in rows[1:]}
    assert set(kit.rows("quarantine")["batch_id"].to_pylist()) <= young
    kit.simulate(2, corrupt=0.05)
    kit.run()
    kit.configured(start="from_tables", checkpoint=str(kit.settings.checkpoint) + "-new")
    kit.simulate(3, corrupt=0.05)
    kit.run()
    kept_up(kit, days=200)
    whole = verify(kit.settings)
    assert not whole.differences, "\n".join(map(str, whole.differences))
    assert sum(row["rows_read"] for row in kit.rows(BATCHES_TABLE).to_pylist()) == kit.truth.records


# Lighter: test_a_run_keeps_its_tables_up_by_itself_when_it_is_time keeps them up, and tests/ingest/upkeep has the steps.
@pytest.mark.heavy
def test_upkeep_that_is_killed_leaves_nothing_wrong(kit: PipelineKit) -> None:
    kit.configured(limits={"batch_rows": 60})
    kit.simulate(1, corrupt=0.05)
    kit.run()
    before = kit.versions()
    command = [sys.executable, "-m", "distributary", "maintain", str(kit.settings_file)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as going:
        until = time.monotonic() + PATIENCE_SECONDS
        while kit.versions() == before and going.poll() is None:
            assert time.monotonic() < until
        going.kill()
    kit.assert_clean()
    kit.simulate(2, corrupt=0.05)
    kit.run()
    done = kept_up(kit, days=8)
    assert all(one.after.files == 1 for one in done.tables)
    kit.assert_clean()


def numberless(line: str) -> str:
    """A line with nothing in it that another pipeline has otherwise."""
    return re.sub(r"[\d,.]+( files?| B| KiB| MiB)?", "N", line)


# Lighter: test_a_run_keeps_its_tables_up_by_itself_when_it_is_time keeps them up, and tests/ingest/upkeep has the steps.
@pytest.mark.heavy
def test_the_pages_commands_do_what_it_says(kit: PipelineKit) -> None:
    kit.configured(limits={"batch_rows": 100})
    kit.simulate(1, corrupt=0.05)
    kit.run()
    assert kit.settings_file.name == "games.yaml"
    text = PAGE.read_text(encoding="utf-8")
    versions = kit.versions()
    for line in re.findall(r"^    distributary (.*)$", text, re.MULTILINE):
        words = line.partition("#")[0].split()
        answered, output = said(kit, *words)
        assert answered == 0, output
        if "--json" in words:
            told = json.loads(output)
            assert {one["table"] for one in told["tables"]} == set(versions)
        if "--dry-run" in words:
            assert "would be compacted into 1" in output
            assert kit.versions() == versions
    assert all(len(kit.delta(table).file_uris()) == 1 for table in versions)
    last = re.compile(r"^games: .*$", re.MULTILINE)
    printed = last.findall(said(kit, "maintain", "games.yaml")[1])
    assert [numberless(line) for line in printed] == [numberless(line) for line in last.findall(text)]
    answered, output = said(kit, "maintain", "games.yaml", "--older-than", "1")
    assert (answered, "--force" in output) == (2, True)
    answered, output = said(kit, "maintain", "games.yaml", "--table", "nobodys")
    assert (answered, "no such table of the pipeline" in output) == (2, True)
    kit.assert_clean()
