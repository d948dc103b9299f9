"""Tables made again from bronze: each record once, at its own place in Kafka, whatever dies when; and `verify` finds nothing missing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from deltalake import write_deltalake
from tests.ingest.e2e.handmade import column, quarantined, reasons, registered
from tests.ingest.e2e.keyed import rows_of
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.test_bronze import send_mixed

from distributary.errors import BudgetSpent, CheckpointMismatch, ConfigError, LeaseHeld, PipelineError
from distributary.ingest import failpoints
from distributary.ingest.checkpoint.generation import read_generation
from distributary.ingest.failpoints import Failpoint
from distributary.ingest.quarantine.chosen import Chosen
from distributary.ingest.quarantine.contents import contents
from distributary.ingest.rebuild.dry import lacking
from distributary.ingest.rebuild.emptying import empty
from distributary.ingest.rebuild.reset import reset
from distributary.ingest.rebuild.resets import Reset
from distributary.ingest.rebuild.silver import Replayed, replay
from distributary.ingest.storage.opening import open_files
from distributary.ingest.table_versions import versions_at
from distributary.ingest.upkeep.replayed import REPLAYS
from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def again(kit: PipelineKit, chosen: Chosen | None = None) -> Replayed:
    return replay(kit.settings, chosen, spark=kit.spark)


def silver(kit: PipelineKit) -> dict[str, list[dict[str, Any]]]:
    """All rows of all entities' tables, in Kafka's order."""
    found = {}
    for name in kit.lake.entity_tables():
        rows = kit.rows(name).to_pylist()
        found[name] = sorted(
            rows, key=lambda row: (row["kafka_topic"], row["kafka_partition"], row["kafka_offset"])
        )
    return found


def forget(kit: PipelineKit) -> None:
    """The topic deleted: nobody can read any of its records."""
    client = AdminClient({"bootstrap.servers": kit.bootstrap_servers})
    for one in client.delete_topics([kit.topic]).values():
        one.result(60)


def assert_clean(kit: PipelineKit) -> None:
    found = verify(kit.settings)
    assert not found.differences, "\n".join(map(str, found.differences))


def without_rows(kit: PipelineKit, game: str, where: str) -> None:
    kit.delta(kit.folder_of(game)).delete(where)


@pytest.fixture
def kept(kit: PipelineKit) -> PipelineKit:
    """A pipeline that has kept all kinds of records as they came, in several batches."""
    kit.configured(bronze={}, decode={"evolution": "inline"}, limits={"batch_rows": 11})
    send_mixed(kit)
    kit.run()
    return kit


def test_rows_that_are_gone_come_back_once_and_nothing_else_changes(kept: PipelineKit) -> None:
    before, waiting = silver(kept), quarantined(kept)
    assert again(kept).tables == {}
    checkpoint = open_files(kept.settings.checkpoint, kept.settings.storage)
    those = set(checkpoint.folders(REPLAYS))
    looked = again(kept).portions
    assert len(set(checkpoint.folders(REPLAYS)) - those) < looked, "what lacked nothing leaves nothing"
    # Of whose batch a tombstone was tried again, and landed nowhere.
    without_rows(kept, "g2", "title = 'again'")
    assert [one.kind for one in verify(kept.settings).differences] == ["ledger_rows"]
    assert again(kept).tables == {kept.folder_of("g2"): 1}
    without_rows(kept, "g1", "level > 4")
    assert silver(kept) != before
    dry = lacking(kept.settings)
    done = again(kept)
    assert set(done.tables) == {kept.folder_of("g1")}
    assert (dry.records, dry.there) == (done.records, done.there)
    assert silver(kept) == before
    assert quarantined(kept) == waiting
    assert_clean(kept)
    assert again(kept).tables == {}
    assert silver(kept) == before
    # What was done under another name counts, and the pipeline goes on.
    kept.configured(name="matches", checkpoint=str(kept.checkpoint))
    assert_clean(kept)
    send_mixed(kept)
    kept.run()
    assert_clean(kept)
    assert kept.unnamed_files() == set()


# One that does not end is shown below, and replays that end early in test_replays.py.
@pytest.mark.heavy
@pytest.mark.parametrize(
    "point",
    [
        failpoints.BEFORE_REPORT,
        failpoints.BEFORE_MANIFEST,
        failpoints.AFTER_MANIFEST,
        failpoints.BETWEEN_COMMITS,
        failpoints.BEFORE_LEDGER,
        failpoints.AMID_RESET,
    ],
)
def test_wherever_a_reset_ends_the_next_call_makes_the_same_tables(
    point: str, kept: PipelineKit, fail_at: Callable[..., None]
) -> None:
    before, waiting = silver(kept), quarantined(kept)
    kept.configured(limits={"commit_threads": 1, "batch_rows": 8})
    fail_at(point)
    if point != failpoints.BEFORE_REPORT:  # it is of a task, which Spark does again
        with pytest.raises(Failpoint):
            reset(kept.settings, spark=kept.spark)
        fail_at()
    reset(kept.settings, spark=kept.spark)
    assert silver(kept) == before
    assert quarantined(kept) == waiting
    assert_clean(kept)
    assert kept.unnamed_files() == set()


def test_what_kafka_has_forgotten_is_made_again_without_it(kept: PipelineKit) -> None:
    before, versions = silver(kept), versions_at(kept.settings)
    forget(kept)
    done = reset(kept.settings, spark=kept.spark)
    # Its versions of before are of files that upkeep deletes.
    now, there = versions_at(kept.settings), kept.versions()
    assert now.batch == versions.batch
    assert all(now[name].version == there[name] > versions[name].version for name in before)
    assert set(done.emptied) == set(before)
    assert done.replayed is not None
    assert sum(done.replayed.tables.values()) == sum(map(len, before.values()))
    assert silver(kept) == before
    assert not verify(kept.settings, offline=True).differences


# Of replays the same is shown in test_replays.py.
@pytest.mark.heavy
def test_a_reset_whose_tables_were_handed_over_empties_none_of_them(
    kept: PipelineKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, settings, begin = silver(kept), kept.settings, Reset.begin

    def handed_over(one: Reset, *given: Any) -> None:
        begin(one, *given)
        kept.configured(checkpoint="./checkpoints/second", start="from_tables")
        kept.run()

    monkeypatch.setattr(Reset, "begin", handed_over)
    with pytest.raises(PipelineError, match=r"were handed over to .*second"):
        reset(settings, spark=kept.spark)
    assert silver(kept) == before
    assert_clean(kept)


def test_what_would_be_lost_for_good_is_refused(kept: PipelineKit) -> None:
    with pytest.raises(ConfigError, match="Say --force"):
        reset(kept.settings, "bronze", spark=kept.spark)
    kept.delta("bronze").delete("kafka_offset = 3")
    before = silver(kept)
    with pytest.raises(ConfigError, match="records that bronze does not have"):
        reset(kept.settings, spark=kept.spark)
    assert silver(kept) == before
    with kept.running() as going:
        going.wait_until_started()
        with pytest.raises(LeaseHeld):
            reset(kept.settings, spark=kept.spark)


# Without a run the same is shown above.
@pytest.mark.heavy
def test_beside_a_run_what_is_lacking_comes_once(kept: PipelineKit) -> None:
    before = silver(kept)
    without_rows(kept, "g0", "level > 4")
    with kept.running() as going:
        going.wait_until_started()
        assert set(again(kept).tables) == {kept.folder_of("g0")}
        assert silver(kept) == before
        kept.send([registered(kept).value(game="g0")])
        going.wait_for(1)
    assert_clean(kept)


# What is chosen of quarantine is shown in test_replays.py.
@pytest.mark.heavy
def test_only_what_is_chosen_is_made_again(kept: PipelineKit) -> None:
    before = silver(kept)
    for game in ("g0", "g1"):
        without_rows(kept, game, "level > 4")
    done = again(kept, Chosen(entities=("g0",)))
    assert set(done.tables) == {kept.folder_of("g0")}
    assert silver(kept)[kept.folder_of("g0")] == before[kept.folder_of("g0")]
    again(kept, Chosen(until=datetime(2000, 1, 1, tzinfo=timezone.utc)))
    assert silver(kept) != before
    again(kept)
    assert silver(kept) == before
    assert_clean(kept)


# Of quarantine alone the same is shown in test_replays.py.
@pytest.mark.heavy
def test_what_can_be_decoded_by_now_leaves_quarantine(kit: PipelineKit) -> None:
    kit.configured(bronze={}, route={"field": "nobody"})
    schema = registered(kit)
    kit.configured(route={"field": "player"})
    kit.send([schema.value(game="chess"), schema.value(game="go", player="a")])
    kit.run()
    assert reasons(kit) == {"no_entity": 1}
    kit.configured(policies={"no_entity": {"table": "other"}})
    assert again(kit, Chosen(reasons=("malformed",))).records == 0
    done = again(kit, Chosen(reasons=("no_entity",)))
    assert done.tables == {"other": 1}
    assert contents(kit.settings).open == 0
    assert_clean(kit)


# Of batches the same is shown in test_upserts.py.
@pytest.mark.heavy
def test_in_a_table_with_one_row_a_key_what_is_older_stays_older(kit: PipelineKit) -> None:
    kit.configured(bronze={}, limits={"batch_rows": 4})
    schema = registered(kit)
    kit.configured(tables=[{"match": "*", "mode": "upsert", "keys": ["player"]}])
    kit.send([schema.value(game="chess", player="ab"[n % 2], level=n) for n in range(10)])
    kit.run()

    def levels() -> list[int]:
        return sorted(row["level"] for row in rows_of(kit, kit.folder_of("chess")))

    assert levels() == [8, 9]
    again(kit)
    assert levels() == [8, 9]
    reset(kit.settings, spark=kit.spark)
    assert levels() == [8, 9]
    assert_clean(kit)


# A reset that ends early and is gone on with is shown above.
@pytest.mark.heavy
def test_a_reset_that_is_gone_on_with_loses_nothing_of_a_run_that_died_since(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    kit.configured(bronze={})
    schema = registered(kit)
    kit.send([schema.value(game=f"g{number % 2}", level=number) for number in range(4)])
    kit.run()
    whole = versions_at(kit.settings)
    fail_at(failpoints.AMID_RESET)
    with pytest.raises(Failpoint):
        reset(kit.settings, spark=kit.spark)
    # Of tables that are half full those of before belong together.
    assert versions_at(kit.settings) == whole
    kit.send([schema.value(game=f"g{number % 2}", level=number) for number in range(4, 8)])
    fail_at(failpoints.BEFORE_LEDGER)
    with pytest.raises(BudgetSpent):
        kit.run()
    fail_at()
    assert reset(kit.settings, spark=kit.spark).resumed
    kit.run()
    assert sorted(row["level"] for rows in silver(kit).values() for row in rows) == list(range(8))
    assert_clean(kit)


# One of this version is gone on with above.
@pytest.mark.heavy
def test_a_reset_that_an_earlier_version_began_misses_nothing_that_the_settings_let_go_since(
    kit: PipelineKit,
) -> None:
    kit.configured(bronze={})
    schema = registered(kit)
    kit.send([schema.value(game="chess", level=level) for level in range(4)])
    kit.run()
    table, generation = kit.folder_of("chess"), read_generation(kit.checkpoint)
    assert generation is not None
    # It had no number, and told nobody of which records it emptied tables.
    begun = Reset("e" * 32, (table,), None)
    begun.begin(kit.checkpoint.files, "2026-01-01T00:00:00+00:00")
    root = open_files(kit.settings.sink.root, kit.settings.storage)
    assert empty(root.below(table), begun.transaction(generation.id), begun.id) is not None
    small = {"condition": "level < 2", "otherwise": "drop"}
    kit.configured(tables=[{"match": "chess", "expect": {"small": small}}])
    assert reset(kit.settings, spark=kit.spark).resumed
    assert column(kit, "chess", "level") == [0, 1]
    assert_clean(kit)


# What is not in bronze is refused before anything is emptied in a test above.
@pytest.mark.heavy
def test_a_reset_that_is_gone_on_with_takes_no_rows_that_bronze_was_not_given_since(
    kit: PipelineKit, fail_at: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    kit.configured(bronze={})
    schema = registered(kit)
    kit.send([schema.value(game="chess", level=1)])
    kit.run()
    fail_at(failpoints.AMID_RESET)
    with pytest.raises(Failpoint):
        reset(kit.settings, spark=kit.spark)
    fail_at()
    kit.configured(bronze=None)
    kit.send([schema.value(game="chess", level=2)])
    kit.run()
    assert "a reset was begun and is not done" in caplog.text
    kit.configured(bronze={})
    with pytest.raises(ConfigError, match="records that bronze does not have"):
        reset(kit.settings, spark=kit.spark)
    assert column(kit, "chess", "level") == [1, 2]
    assert reset(kit.settings, spark=kit.spark, force=True).resumed
    assert column(kit, "chess", "level") == [1]


def test_records_of_a_topic_that_is_read_no_more_stay_its_own(
    kit: PipelineKit, make_topic: Callable[[int], str]
) -> None:
    first, other = kit.topic, make_topic(1)
    kit.configured(bronze={}, source={"topics": [first, other]})
    schema = registered(kit)
    for kit.topic in (other, first):
        kit.send([schema.value(game="chess", level=level) for level in range(3)])
    kit.run()
    kit.configured(source={"topics": [first]})
    kit.send([schema.value(game="chess", level=3)])
    kit.run()
    before = silver(kit)
    # What is there twice goes by Spark, that of other topics in its portion with it.
    raw = kit.delta("bronze")
    write_deltalake(raw, raw.to_pyarrow_table().slice(0, 1), mode="append")
    reset(kit.settings, spark=kit.spark)
    assert silver(kit) == before
    assert quarantined(kit) == []


@pytest.mark.folder
def test_a_table_that_lacks_the_newest_batch_gets_that_by_a_start_alone(kit: PipelineKit) -> None:
    kit.configured(bronze={})
    schema = registered(kit)
    kit.send([schema.value(game="chess", level=1)])
    kit.run()
    table, copy = kit.root / kit.folder_of("chess"), kit.folder / "copy"
    shutil.copytree(table, copy)
    kit.send([schema.value(game="chess", level=2)])
    kit.run()
    names = {path.name for path in table.glob("*.parquet")} - {path.name for path in copy.glob("*.parquet")}
    for path in (table / "_delta_log").iterdir():
        if not (copy / "_delta_log" / path.name).exists():
            path.unlink()
    assert names, "the files of the batch are still there"
    for one in (again, lambda kit: reset(kit.settings, spark=kit.spark)):
        with pytest.raises(PipelineError, match="lacks batch 3"):
            one(kit)
    kit.run()
    assert column(kit, "chess", "level") == [1, 2]
    assert again(kit).tables == {}
    assert reset(kit.settings, spark=kit.spark).emptied
    assert column(kit, "chess", "level") == [1, 2]
    assert_clean(kit)


@pytest.mark.checkpoint_folder
def test_by_an_older_copy_of_the_checkpoint_nothing_is_emptied(kept: PipelineKit) -> None:
    checkpoint, copy = kept.settings.checkpoint.path, kept.folder / "copy"
    shutil.copytree(checkpoint, copy)
    kept.send([registered(kept).value(game="g0", level=77)])
    kept.run()
    before = silver(kept)
    shutil.rmtree(checkpoint)
    shutil.copytree(copy, checkpoint)
    with pytest.raises(CheckpointMismatch, match="put back from an older copy"):
        reset(kept.settings, spark=kept.spark)
    assert silver(kept) == before
