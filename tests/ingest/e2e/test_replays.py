"""Records of the quarantine brought back: once each, with their own places in Kafka, whatever dies when; and `verify` finds nothing missing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.ingest.e2e.handmade import (
    EVENT,
    Schema,
    column,
    quarantined,
    reasons,
    registered,
    registered_beside,
)
from tests.ingest.e2e.keyed import rows_of
from tests.ingest.e2e.pipeline_kit import PATIENCE_SECONDS, PipelineKit
from tests.ingest.e2e.registry_proxy import registry_proxy

from distributary.errors import LeaseHeld, PipelineError
from distributary.ingest import failpoints
from distributary.ingest.erasure.erase import Wanted, erase
from distributary.ingest.erasure.outcome import TableErasure
from distributary.ingest.erasure.replays import BRING_THEM_BACK
from distributary.ingest.failpoints import Failpoint
from distributary.ingest.lease.replaying import alone
from distributary.ingest.quarantine.chosen import Chosen
from distributary.ingest.quarantine.contents import contents
from distributary.ingest.quarantine.purging import Wish, purge
from distributary.ingest.replay import kept
from distributary.ingest.replay.bring_back import BroughtBack, bring_back
from distributary.producer_sim.stack.local import LocalStack
from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack]

WITH_MOOD = EVENT.replace("int32 level = 3;", "int32 level = 3;\n  string mood = 4;")


@dataclass
class Monday:
    """A pipeline whose registry lost a schema for a while: 6 records of `new` are in quarantine, one that nobody can decode, and one is in its table."""

    kit: PipelineKit
    old: Schema
    new: Schema

    def back(self, chosen: Chosen | None = None) -> BroughtBack:
        return bring_back(self.kit.settings, chosen, spark=self.kit.spark)

    def open(self) -> int:
        return contents(self.kit.settings).open

    def assert_clean(self) -> None:
        found = verify(self.kit.settings)
        assert not found.differences, "\n".join(map(str, found.differences))


@pytest.fixture
def monday(kit: PipelineKit, stack: LocalStack) -> Monday:
    old = registered(kit)
    new = registered_beside(kit, WITH_MOOD)
    with registry_proxy(stack.registry_url) as proxy:
        kit.configured(registry={"url": proxy.url, "unknown_id_wait_seconds": 0.0})
        proxy.deny(new.id, times=100)
        kit.send([old.value(game="chess", player="a")])
        lost = [new.value(game="chess", player=player, mood="glad") for player in "bcd"]
        lost += [new.value(game="go", player=player, mood="calm") for player in "efg"]
        kit.send([*lost, b"\0\1"], partition=1)
        kit.run()
    kit.configured(registry={"url": stack.registry_url})
    assert reasons(kit)["unknown_schema"] == 6
    assert len(quarantined(kit)) == 7
    return Monday(kit, old, new)


def test_what_a_lost_schema_put_there_is_in_its_tables_after_one_command_and_nothing_is_missing(
    monday: Monday,
) -> None:
    kit = monday.kit
    done = monday.back()
    (one,) = done.replays
    assert (one.records, one.resumed) == (7, False)
    assert one.became.tables == {kit.folder_of("chess"): 3, kit.folder_of("go"): 3}
    assert sum(one.became.refused.values()) == 1
    assert column(kit, "chess", "player") == ["a", "b", "c", "d"]
    assert column(kit, "chess", "mood") == [None, "glad", "glad", "glad"]
    assert column(kit, "chess", "kafka_partition") == [0, 1, 1, 1]
    assert column(kit, "go", "kafka_offset") == [3, 4, 5]
    # What fails again adds nothing, and is open still.
    assert len(quarantined(kit)) == 7
    assert monday.open() == 1
    monday.assert_clean()

    assert monday.back().resolved == 0
    assert column(kit, "go", "player") == ["e", "f", "g"]

    # The pipeline goes on in the tables that came meanwhile, also with what grows them.
    newer = registered_beside(kit, WITH_MOOD.replace("mood = 4;", "mood = 4;\n  int64 points = 5;"))
    kit.send([newer.value(game="go", player="h", points=3), monday.old.value(game="chess", player="i")])
    kit.run()
    assert column(kit, "go", "points") == [3, None, None, None]
    assert column(kit, "chess", "player") == ["a", "i", "b", "c", "d"]
    monday.assert_clean()

    assert purge(kit.settings, Wish()).rows == 6
    assert len(quarantined(kit)) == 1
    monday.assert_clean()

    # One that goes missing is missed, though its batch had none for a table.
    kit.delta(kit.folder_of("go")).delete("player = 'e'")
    (lost,) = verify(kit.settings).differences
    assert (lost.kind, "offset 3 had a row in" in lost.detail) == ("ledger_rows", True)


def erased(kit: PipelineKit) -> tuple[TableErasure, ...]:
    """What an erasure of nobody tells of tables."""
    return erase(kit.settings, Wanted("player = 'nobody'", dry_run=True)).tables


def test_one_that_stood_still_while_its_tables_were_handed_over_brings_nothing_twice(
    monday: Monday, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit, settings, reach, met = monday.kit, monday.kit.settings, failpoints.reach, list[int]()

    def handed_over(point: str, number: int) -> None:
        reach(point, number)
        if point == failpoints.BEFORE_MANIFEST and not met:
            met.append(number)
            kit.configured(checkpoint="./checkpoints/second", start="from_tables")
            kit.run()
            assert monday.back().resolved == 6

    monkeypatch.setattr(failpoints, "reach", handed_over)
    with pytest.raises(PipelineError, match=r"were handed over to .*second"):
        bring_back(settings, spark=kit.spark)
    assert column(kit, "go", "player") == ["e", "f", "g"]
    assert column(kit, "chess", "player") == ["a", "b", "c", "d"]
    monday.assert_clean()


def test_what_a_reading_that_began_anew_has_yet_to_come_to_is_not_brought_by_a_checkpoint_that_goes_on_with_it(
    monday: Monday,
) -> None:
    kit = monday.kit
    ends = {"0": 1, "1": 2}
    kit.configured(checkpoint="./checkpoints/second", start="again", source={"until": {kit.topic: ends}})
    kit.run()
    kit.configured(checkpoint="./checkpoints/third", start="from_tables")
    kit.run()
    (one,) = monday.back().replays
    assert (one.became.already, one.became.tables, sum(one.left.values())) == (2, {}, 5)
    kit.configured(source={"until": None})
    with kit.running() as going:
        going.wait_for(5)
        with pytest.raises(LeaseHeld, match="reads again what was read before"):
            monday.back()
    kit.configured(trigger={"available_now": True})
    assert monday.back().resolved == 4
    assert column(kit, "go", "player") == ["e", "f", "g"]
    assert column(kit, "chess", "player") == ["a", "a", "b", "c", "d"]


# Lighter: test_what_a_lost_schema_put_there_is_in_its_tables_after_one_command_and_nothing_is_missing brings records back.
@pytest.mark.heavy
@pytest.mark.parametrize(
    "point",
    [
        failpoints.BEFORE_REPORT,
        failpoints.AMID_SCHEMA_CHANGE,
        failpoints.BEFORE_MANIFEST,
        failpoints.AFTER_MANIFEST,
        failpoints.BETWEEN_COMMITS,
        failpoints.BEFORE_LEDGER,
    ],
)
def test_wherever_it_ends_the_next_call_finishes_it(
    point: str, monday: Monday, fail_at: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = monday.kit
    kit.configured(limits={"commit_threads": 1})
    fail_at(point)
    if point != failpoints.BEFORE_REPORT:  # it is of a task, which Spark does again
        with pytest.raises(Failpoint):
            monday.back()
        monkeypatch.setenv(failpoints.VARIABLE, "")
        if point == failpoints.BEFORE_MANIFEST:
            left = {one.table: one.left for one in erased(kit)}
            assert BRING_THEM_BACK in left["quarantine"]
        done = monday.back()
        (one,) = done.replays
        assert one.resumed
    else:
        monday.back()
    assert column(kit, "chess", "player") == ["a", "b", "c", "d"]
    assert column(kit, "go", "player") == ["e", "f", "g"]
    assert monday.open() == 1
    assert not kit.unnamed_files()
    monday.assert_clean()
    assert len(kit.rows("quarantine_resolved")) == 6


def test_only_what_is_chosen_is_brought_back(monday: Monday, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        # A clock that was years ahead, and a checkpoint that was put back from a copy since, keep no replay from what follows.
        patch.setattr(kept, "time", SimpleNamespace(time=lambda: 10 * time.time()))
        first = monday.back(Chosen(reasons=("unknown_schema",), place=(None, 0)))
    files = monday.kit.checkpoint.files
    files.delete([info.path for info in files.list("replay-numbers")])
    assert first.resolved == 1
    assert monday.open() == 6
    monday.assert_clean()
    assert monday.back(Chosen(reasons=("malformed",))).replays == ()
    # A few at a time, however many wait.
    monday.kit.configured(limits={"batch_rows": 2})
    last = monday.back(Chosen(schemas=(str(monday.new.id),)))
    assert (last.resolved, [one.records for one in last.replays]) == (5, [2, 2, 1])
    assert column(monday.kit, "go", "player") == ["e", "f", "g"]
    monday.assert_clean()


def test_a_record_that_its_table_has_is_not_there_twice(monday: Monday) -> None:
    kit = monday.kit
    (row,) = kit.rows(kit.folder_of("chess")).to_pylist()
    told: dict[str, Any] = {name: row[name] for name in row if name.startswith("kafka_")}
    like = quarantined(kit)[0]
    again = {**like, **told, "value": monday.old.value(game="chess", player="a"), "reason": "malformed"}
    table = kit.delta("quarantine")
    write_deltalake(table, pa.Table.from_pylist([again], pa.schema(table.schema().to_arrow())), mode="append")
    done = monday.back()
    assert done.replays[0].became.already == 1
    assert column(kit, "chess", "player") == ["a", "b", "c", "d"]
    assert monday.open() == 1


def test_beside_a_run_that_is_alive_the_records_come_too(monday: Monday) -> None:
    kit = monday.kit
    more = registered_beside(kit, WITH_MOOD.replace("mood = 4;", "mood = 4;\n  int64 points = 5;"))
    with kit.running() as going:
        going.wait_until_started()
        assert monday.back().resolved == 6
        sent = [more.value(game="go", player="h", points=3), monday.old.value(game="chess", player="i")]
        kit.send([*sent, monday.new.value(game="go", player="j", mood="glad")])
        going.wait_for(3)
    assert column(kit, "chess", "player") == ["a", "i", "b", "c", "d"]
    assert column(kit, "go", "player") == ["h", "j", "e", "f", "g"]
    assert column(kit, "go", "points") == [3, None, None, None, None]
    assert monday.open() == 1
    monday.assert_clean()


# Lighter: test_a_pipeline_that_got_another_name_has_what_it_had_and_whoever_has_that_by_now_has_it_not (tests/ingest/quarantine/test_contents.py).
@pytest.mark.heavy
def test_a_pipeline_that_got_another_name_brings_back_what_waited_before(monday: Monday) -> None:
    monday.back(Chosen(place=(None, 0)))
    monday.kit.configured(name="matches", checkpoint=str(monday.kit.checkpoint))
    assert monday.open() == 6
    assert monday.back().resolved == 5
    assert column(monday.kit, "chess", "player") == ["a", "b", "c", "d"]
    assert monday.open() == 1
    monday.assert_clean()
    assert purge(monday.kit.settings, Wish()).rows == 6
    monday.assert_clean()


def test_two_replays_at_once_are_refused_by_name(monday: Monday) -> None:
    with alone(monday.kit.checkpoint), pytest.raises(LeaseHeld, match="another replay"):
        monday.back()
    assert monday.back().resolved == 6


def test_what_the_quarantine_does_not_keep_stands_in_the_way_by_name(monday: Monday) -> None:
    monday.kit.configured(tables=[{"match": "*", "columns": {"timestamp_type": "kind"}}])
    with pytest.raises(PipelineError, match="time in Kafka"):
        monday.back()
    monday.kit.configured(tables=[{"match": "*", "columns": {"headers": {"trace": "trace"}}}])
    (one,) = monday.back().replays
    assert [(count, "record headers" in why) for why, count in one.left.items()] == [(7, True)]
    assert (one.records, monday.open()) == (0, 7)


# Lighter: test_what_a_lost_schema_put_there_is_in_its_tables_after_one_command_and_nothing_is_missing brings records back.
@pytest.mark.heavy
def test_in_a_table_with_one_row_a_key_what_is_older_stays_older(kit: PipelineKit, stack: LocalStack) -> None:
    old = registered(kit)
    new = registered_beside(kit, WITH_MOOD)
    kit.configured(tables=[{"match": "*", "mode": "upsert", "keys": ["player"]}])
    with registry_proxy(stack.registry_url) as proxy:
        kit.configured(registry={"url": proxy.url, "unknown_id_wait_seconds": 0.0})
        proxy.deny(new.id, times=100)
        kit.send([old.value(game="chess", player="a", level=1), new.value(game="chess", player="a", level=2)])
        kit.send([old.value(game="chess", player="a", level=3), new.value(game="chess", player="b", level=4)])
        kit.run()
    kit.configured(registry={"url": stack.registry_url})
    monday = Monday(kit, old, new)
    assert monday.open() == 2
    with kit.running() as going:
        going.wait_until_started()
        with pytest.raises(LeaseHeld, match="one row a key"):
            monday.back()
    kit.configured(trigger={"available_now": True})
    assert monday.back().resolved == 2
    rows = rows_of(kit, kit.folder_of("chess"))
    assert sorted((row["player"], row["level"]) for row in rows) == [("a", 3), ("b", 4)]
    monday.assert_clean()
    kit.send([old.value(game="chess", player="b", level=5)])
    kit.run()
    rows = rows_of(kit, kit.folder_of("chess"))
    assert sorted((row["player"], row["level"]) for row in rows) == [("a", 3), ("b", 5)]
    monday.assert_clean()


def test_with_records_kept_as_they_came_their_headers_come_back_and_they_are_kept_once(
    kit: PipelineKit, stack: LocalStack
) -> None:
    old = registered(kit)
    new = registered_beside(kit, WITH_MOOD)
    kit.configured(
        bronze={"table": "bronze"}, tables=[{"match": "*", "columns": {"headers": {"trace": "X"}}}]
    )
    with registry_proxy(stack.registry_url) as proxy:
        kit.configured(registry={"url": proxy.url, "unknown_id_wait_seconds": 0.0})
        proxy.deny(new.id, times=100)
        kit.send([old.value(game="chess", player="a")], headers={"X": b"1"})
        kit.send([new.value(game="chess", player="b", mood="glad")], headers={"X": b"2"})
        kit.run()
    kit.configured(registry={"url": stack.registry_url})
    monday = Monday(kit, old, new)
    assert monday.open() == 1
    done = monday.back()
    assert done.replays[0].became.tables == {kit.folder_of("chess"): 1}
    assert column(kit, "chess", "trace") == ["1", "2"]
    assert kit.rows("bronze").num_rows == 2
    assert not kit.unnamed_files()
    monday.assert_clean()


# A death of the process, where another test shows each point by an error.
@pytest.mark.heavy
def test_a_kill_amid_the_commits_is_made_good_by_the_command(monday: Monday) -> None:
    kit = monday.kit
    command = [sys.executable, "-m", "distributary", "quarantine", "replay", str(kit.settings_file), "--json"]

    def said(points: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env={**os.environ, **kit.environment(points)},
            cwd=kit.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    assert said("between_commits=kill").returncode == -9
    done = said("")
    assert done.returncode == 0, done.stderr
    assert '"resolved": 6' in done.stdout
    assert column(kit, "go", "player") == ["e", "f", "g"]
    monday.assert_clean()
