"""A topic that gets partitions while a pipeline has a batch under way: all of them are read, each record once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from pyspark.sql import DataFrame
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.errors import BudgetSpent
from distributary.ingest.kafka.source import TopicReader
from distributary.ingest.progress import Silent

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def add_partitions(kit: PipelineKit, admin: AdminClient) -> None:
    admin.create_partitions([NewPartitions(kit.topic, 4)])[kit.topic].result(30)
    # The broker learns of the controller's deeds a moment later.
    while len(admin.list_topics(kit.topic, timeout=30).topics[kit.topic].partitions) < 4:
        continue


# What was not decided is planned anew, with all partitions that there are: test_partitions_added_while_a_query_begins_cost_no_failure.
@pytest.mark.parametrize(
    "point", [pytest.param("before_manifest", marks=pytest.mark.heavy), "after_manifest"]
)
def test_partitions_added_while_a_batch_was_unfinished_are_read_by_the_next_run(
    kit: PipelineKit, admin: AdminClient, fail_at: Callable[..., None], point: str
) -> None:
    kit.simulate(games=1, events=100)
    fail_at(point)
    with pytest.raises(BudgetSpent, match=f"failpoint {point}"):
        kit.run()
    fail_at()

    add_partitions(kit, admin)
    kit.simulate(games=1, events=100)

    outcome = kit.run()
    assert (outcome.summary.rows, outcome.summary.failures) == (200, 0)
    kit.assert_clean()


def test_partitions_added_while_a_query_begins_cost_no_failure(
    kit: PipelineKit, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit.simulate(games=1, events=50)
    stream = TopicReader.stream

    def grown(topics: TopicReader, *told: Any) -> DataFrame:
        monkeypatch.setattr(TopicReader, "stream", stream)
        add_partitions(kit, admin)
        return stream(topics, *told)

    monkeypatch.setattr(TopicReader, "stream", grown)
    summary = kit.run().summary
    assert (summary.rows, summary.failures) == (50, 0)
    kit.assert_clean()


class Adding(Silent):
    """Adds partitions, and records in them, once the first batch of a run is done."""

    def __init__(self, kit: PipelineKit, admin: AdminClient) -> None:
        self._kit, self._admin, self._done = kit, admin, False

    def batch_done(self, *batch: Any) -> None:
        if self._done:
            return
        self._done = True
        add_partitions(self._kit, self._admin)
        self._kit.simulate(games=1, events=40)


# Partitions that a run finds new are the first test's.
@pytest.mark.heavy
def test_partitions_added_between_two_batches_of_a_bounded_run_do_not_end_it(
    kit: PipelineKit, admin: AdminClient
) -> None:
    kit.configured(limits={"batch_rows": 50})
    kit.simulate(games=1, events=100)
    first = kit.run(Adding(kit, admin)).summary
    second = kit.run().summary
    assert (first.rows + second.rows, first.failures + second.failures) == (140, 0)
    assert first.rows >= 100, "what was there when it began"
    kit.assert_clean()


# Partitions that a run finds new are the first test's.
@pytest.mark.heavy
def test_partitions_added_while_a_schema_evolves_are_read(kit: PipelineKit, admin: AdminClient) -> None:
    class AddingAtRestart(Silent):
        def reading(self) -> None:
            if not self.added:
                self.added = True
                add_partitions(kit, admin)

        added = False

    kit.simulate(1, games=1, events=50)
    kit.run()
    kit.simulate(2, games=1, events=50)
    outcome = kit.run(AddingAtRestart())
    kit.simulate(2, games=1, events=50)
    assert (outcome.summary.failures, kit.run().summary.failures) == (0, 0)
    kit.assert_clean()
