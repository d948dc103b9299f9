"""Pipelines that begin and end where the settings say: exactly there, and on from there."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.ingest.e2e.handmade import registered
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.errors import BudgetSpent, CheckpointMismatch
from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack]

NOON = datetime(2026, 11, 1, 12, tzinfo=timezone.utc)


def send(kit: PipelineKit, count: int = 60) -> None:
    """A record a minute from noon on, by turns in two partitions."""
    schema = registered(kit)
    producer = Producer({"bootstrap.servers": kit.bootstrap_servers})
    for n in range(count):
        when = int((NOON + timedelta(minutes=n)).timestamp() * 1000)
        value = schema.value(game="golf", level=n)
        producer.produce(kit.topic, value=value, partition=n % 2, timestamp=when)
    assert producer.flush(60) == 0


def levels(kit: PipelineKit) -> list[int]:
    return sorted(kit.rows(kit.folder_of("golf"))["level"].to_pylist())


def assert_verified(kit: PipelineKit, unread: int = 0) -> None:
    verdict = verify(kit.settings)
    assert not verdict.differences, "\n".join(map(str, verdict.differences))
    assert verdict.unread == unread


def test_a_range_of_time_is_read_exactly_in_bounded_batches_and_gone_on_with_behind(kit: PipelineKit) -> None:
    send(kit)
    bounds: dict[str, Any] = {"starting_offsets": "2026-11-01T12:20:00Z", "until": "2026-11-01T12:45:00Z"}
    kit.configured(source=bounds, limits={"batch_rows": 10}, trigger={"available_now": False})
    summary = kit.run().summary
    assert (summary.rows, summary.batches) == (25, 3)
    assert levels(kit) == list(range(20, 45))
    assert_verified(kit)
    assert kit.run().summary.rows == 0, "the end is where it was"

    kit.configured(source={"until": None}, trigger={"available_now": True})
    assert_verified(kit, unread=15)
    assert kit.run().summary.rows == 15
    assert levels(kit) == list(range(20, 60))
    assert_verified(kit)


# That a range is read exactly is the first test's; what offsets mean is in `tests/ingest/source/test_moments.py`.
@pytest.mark.heavy
def test_offsets_bound_a_range_and_what_they_leave_out_is_read_whole(kit: PipelineKit) -> None:
    send(kit)
    bounds = {"starting_offsets": {kit.topic: {"0": 10}}, "until": {kit.topic: {"0": 20}}}
    kit.configured(source=bounds)
    assert kit.run().summary.rows == 10 + 30
    of_even = [level for level in levels(kit) if level % 2 == 0]
    assert of_even == list(range(20, 40, 2))
    assert_verified(kit)


def test_a_run_that_dies_amid_a_range_loses_and_doubles_nothing_of_it(kit: PipelineKit, fail_at: Any) -> None:
    send(kit)
    kit.configured(source={"until": "2026-11-01T12:30:00Z"}, limits={"batch_rows": 8})
    for point in ("before_manifest:1", "after_manifest:2"):
        fail_at(point)
        with pytest.raises(BudgetSpent, match="failpoint"):
            kit.run()
    fail_at()
    kit.run()
    assert levels(kit) == list(range(30))
    assert_verified(kit)


# What is lost is told by `test_records_gone.py`, and a range's end by the first test.
@pytest.mark.heavy
def test_what_is_gone_behind_the_end_is_no_loss_and_before_it_is(
    kit: PipelineKit, admin: AdminClient
) -> None:
    send(kit)
    kit.configured(source={"until": {kit.topic: {"0": 10, "1": 10}}})
    assert kit.run().summary.rows == 20
    place = TopicPartition(kit.topic, 0, 15)
    admin.delete_records([place])[place].result(30)
    assert kit.run().summary.rows == 0
    assert_verified(kit)
    kit.configured(source={"until": {kit.topic: {"0": 20, "1": 20}}})
    with pytest.raises(CheckpointMismatch, match=f"no more of {kit.topic}/0 from offset 10 to before 15"):
        kit.run()
    kit.configured(source={"on_data_loss": "record", "until": {kit.topic: {"0": 12, "1": 12}}})
    outcome = kit.run()
    assert [(one.partition, one.first, one.before) for one in outcome.lost] == [(0, 10, 12)]
    assert outcome.summary.rows == 2
