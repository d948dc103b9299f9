"""Records kept as they came: each one that is read, whatever becomes of it, once and byte for byte, whatever dies when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.ingest.e2e.as_they_came import assert_all_kept, in_kafka, kept, send
from tests.ingest.e2e.handmade import (
    UNKNOWN_ID,
    header,
    quarantined,
    reasons,
    registered,
    registered_beside,
)
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.errors import BudgetSpent, CommitImpossible, ConfigError
from distributary.ingest.checkpoint.generation import read_generation
from distributary.ingest.erasure.erase import Wanted, erase
from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack]

# Several passes: what is not known is asked for amid a batch.
IN_PASSES = {"evolution": "inline"}

LATER = """
syntax = "proto3";
message Event {
  string game = 1;
  string player = 2;
  int32 level = 3;
  string title = 4;
}
"""


def send_mixed(kit: PipelineKit) -> None:
    """Records that land, that wait for a schema, that cannot be decoded, that nobody knows, tombstones; headers of all kinds."""
    schema = registered(kit)
    later = registered_beside(kit, LATER)
    twice = [("trace", b"\x00\xff"), ("trace", b"2"), ("nothing", None), ("", b"")]
    for number in range(20):
        value, key = schema.value(game=f"g{number % 3}", level=number), None if number % 3 else b"\x00gamer"
        send(kit, value, partition=number % 2, key=key)
    send(kit, schema.value(game="g0"), twice, key=b"")
    send(kit, later.value(game="g1", title="new"), twice[:1])
    send(kit, b"no header", twice, key=b"broken")
    send(kit, schema.value()[:-1] + b"\x0a\xff", [("why", b"cut off")])
    send(kit, header(UNKNOWN_ID) + b"anything", twice[2:])
    send(kit, None, twice, key=b"gone")
    send(kit, schema.value(player="nobody's"))
    send(kit, later.value(game="g2", title="again"), partition=1)


def assert_whole(kit: PipelineKit, *tables: str) -> None:
    assert_all_kept(kit, *tables)
    differences = verify(kit.settings).differences
    assert not differences, "\n".join(map(str, differences))
    assert kit.unnamed_files() == set()


def test_each_record_is_kept_once_as_it_came_whatever_becomes_of_it(kit: PipelineKit) -> None:
    kit.configured(bronze={}, decode=IN_PASSES, limits={"batch_rows": 11})
    send_mixed(kit)
    kit.run()
    assert_whole(kit)
    assert {"unknown_schema", "no_entity"} < set(reasons(kit))
    assert kit.delta("bronze").metadata().partition_columns == ["kafka_date"]
    batches = kit.rows("ledger_batches").to_pylist()
    assert len(batches) > 1
    assert [row["rows_kept"] for row in batches] == [row["rows_read"] for row in batches]
    # What is in quarantine can be sent once more whole.
    sent = in_kafka(kit)
    for row in quarantined(kit):
        place = (row["kafka_topic"], row["kafka_partition"], row["kafka_offset"])
        assert row["headers"] == sent[place]["headers"]

    send_mixed(kit)
    kit.run()
    assert_whole(kit)


def test_a_batch_that_dies_and_is_brought_to_its_end_keeps_each_record_once(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    points = ("before_manifest", "after_manifest", "between_commits", "before_ledger")
    kit.configured(
        bronze={},
        decode=IN_PASSES,
        limits={"commit_threads": 1},
        supervisor={"failures": {"max": len(points), "first_wait_seconds": 0}},
    )
    send_mixed(kit)
    fail_at(*points)
    kit.run()
    assert_whole(kit)


# Lighter: test_a_batch_that_dies_and_is_brought_to_its_end_keeps_each_record_once; lost files of other tables are in test_crashes.py.
@pytest.mark.heavy
def test_a_lost_file_of_a_decided_batch_is_written_again(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    kit.configured(bronze={"table": "raw"}, decode=IN_PASSES)
    send_mixed(kit)
    fail_at("after_manifest")
    with pytest.raises(BudgetSpent):
        kit.run()
    fail_at()
    lost = [name for name in kit.unnamed_files() if name.startswith("raw/")]
    assert lost
    kit.lake.root.delete(lost)
    kit.run()
    assert_whole(kit, "raw")


@pytest.mark.heavy
def test_each_topic_has_a_table_of_its_own_where_the_name_says_so(
    kit: PipelineKit, make_topic: Callable[[int], str]
) -> None:
    first, other = kit.topic, make_topic(1)
    kit.configured(bronze={"table": "bronze_{topic}"}, source={"topics": [first, other]})
    send_mixed(kit)
    schema = registered(kit)
    kit.topic = other
    send(kit, schema.value(game="g0"), [("of", b"another")], key=b"k")
    send(kit, b"\x01")
    kit.topic = first
    kit.run()
    where = kit.settings.rule_book().kept.by_topic
    assert len(set(where.values())) == 2
    for topic, table in where.items():
        assert_all_kept(kit, table, topics=[topic])
    assert not verify(kit.settings).differences


# Most other pipelines of these tests are without it, and look into quarantine.
@pytest.mark.heavy
def test_without_it_nothing_is_kept_and_quarantined_records_have_no_headers(kit: PipelineKit) -> None:
    send_mixed(kit)
    kit.run()
    assert kit.rows("bronze").num_rows == 0
    assert {row["rows_kept"] for row in kit.rows("ledger_batches").to_pylist()} == {None}
    assert all(row["headers"] is None for row in quarantined(kit))
    # From here on they have, and what was there before stays as it is.
    before = len(quarantined(kit))
    kit.configured(policies={"quarantine_headers": True})
    send(kit, b"no header", [("a", b"1"), ("a", None)])
    kit.run()
    (row,) = [row for row in quarantined(kit) if row["headers"] is not None]
    assert row["headers"] == [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    assert len(quarantined(kit)) == before + 1
    # And from here on all are kept; those of before are not brought back.
    kit.configured(bronze={})
    send(kit, b"no header", key=b"late")
    kit.run()
    assert [row["kafka_key"] for row in kept(kit)] == [b"late"]
    assert not verify(kit.settings).differences


@pytest.mark.heavy
def test_a_new_checkpoint_goes_on_where_the_table_ends_though_others_lack_a_batch(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    kit.configured(bronze={}, decode=IN_PASSES, limits={"commit_threads": 1})
    schema = registered(kit)
    send(kit, schema.value(game="g0"))
    kit.run()
    send_mixed(kit)
    # Bronze has the batch then, and the ledger does not tell of it.
    fail_at("before_ledger")
    with pytest.raises(BudgetSpent):
        kit.run()
    fail_at()
    generation = read_generation(kit.checkpoint)
    assert generation is not None
    kit.checkpoint.files.clear()
    send(kit, schema.value(game="g1"), key=b"later")
    kit.configured(checkpoint="./other", start="from_tables", confirm_dead=[generation.id])
    kit.run()
    assert_all_kept(kit)
    differences = verify(kit.settings).differences
    assert not differences, "\n".join(map(str, differences))


def test_a_table_of_its_name_that_was_made_for_something_else_is_refused(kit: PipelineKit) -> None:
    kit.configured(route={"table": "{entity}"})
    schema = registered(kit)
    kit.configured(route={"table": "{entity}"})
    send(kit, schema.value(game="bronze"))
    kit.run()
    kit.configured(bronze={})
    send(kit, schema.value(game="chess"))
    with pytest.raises(
        CommitImpossible, match=r"to keep each record as it came, and was made for something else"
    ):
        kit.run()
    # An entity of that name gets no table then.
    kit.configured(bronze={"table": "raw"})
    send(kit, schema.value(game="raw"))
    kit.run()
    assert reasons(kit) == {"table_limit": 1}
    assert [row["kafka_offset"] for row in kept(kit, "raw")] == [1, 2]
    assert not verify(kit.settings).differences


def test_what_is_erased_by_its_content_does_not_go_with_keeping_all(kit: PipelineKit) -> None:
    with pytest.raises(ConfigError, match=r"bronze: `erased` keeps records out by what their fields say"):
        _ = kit.configured(bronze={}, erased=["player = 'ann'"]).settings


@pytest.mark.heavy
def test_records_whose_rows_are_erased_are_kept_no_more(kit: PipelineKit) -> None:
    kit.configured(bronze={})
    schema = registered(kit)
    for player in ("ann", "bob", "ann"):
        send(kit, schema.value(game="chess", player=player), key=b"k")
    send(kit, b"no header", key=b"ann")
    send(kit, None, key=b"ann")
    send(kit, None, key=b"bob")
    kit.run()
    done = erase(kit.settings, Wanted("player = 'ann'", keys=("ann",)))
    told = {one.table: one for one in done.tables}
    assert told["bronze"].rows == 4
    assert any("go by their keys alone" in why for why in told["bronze"].left)
    assert [row["kafka_offset"] for row in kept(kit)] == [1, 5]
    differences = verify(kit.settings).differences
    assert not differences, "\n".join(map(str, differences))


# Each is a pair of a way to write, or to read, whose halves are tested in others.
@pytest.mark.heavy
@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"limits": {"batch_files": 1}}, id="rows of tables brought together"),
        pytest.param({"limits": {"worker_bytes": 2**20, "arrow_rows": 5}}, id="spilled"),
    ],
)
def test_however_rows_are_made_and_written(kit: PipelineKit, more: dict[str, Any]) -> None:
    kit.configured(bronze={}, decode=IN_PASSES)
    kit.configured(**more)
    send_mixed(kit)
    send(kit, registered(kit).value(game="g0", player="x" * 20_000), [("large", b"y" * 9_000)])
    kit.run()
    assert_whole(kit)
