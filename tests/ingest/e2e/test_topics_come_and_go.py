"""Topics that come and go while a checkpoint lives: each is read once, from where it is to begin to where it ends."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.ingest.e2e.handmade import Schema, registered
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.errors import BudgetSpent, CheckpointMismatch, SetupError
from distributary.ingest import supervisor
from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack]


class Topics:
    """Topics whose names begin alike, and a schema for their records, which count up."""

    def __init__(self, kit: PipelineKit, admin: AdminClient) -> None:
        self._kit, self._admin = kit, admin
        self.prefix = f"come-{uuid.uuid4().hex[:8]}"
        self._schema: Schema = registered(kit)
        self._sent = 0

    def name(self, letter: str) -> str:
        return f"{self.prefix}-{letter}"

    def make(self, letter: str) -> str:
        name = self.name(letter)
        self._admin.create_topics([NewTopic(name, num_partitions=2)])[name].result(30)
        return name

    def delete(self, letter: str) -> None:
        name = self.name(letter)
        self._admin.delete_topics([name])[name].result(30)
        while name in self._admin.list_topics(timeout=30).topics:
            continue

    def send(self, letter: str, count: int) -> None:
        producer = Producer({"bootstrap.servers": self._kit.bootstrap_servers})
        for _ in range(count):
            value = self._schema.value(game="golf", level=self._sent)
            producer.produce(self.name(letter), value=value, partition=self._sent % 2)
            self._sent += 1
        assert producer.flush(60) == 0

    def assert_all_there(self) -> None:
        """Each record in one place, and nothing that `verify` names."""
        rows = self._kit.rows(self._kit.folder_of("golf"))
        assert sorted(rows["level"].to_pylist()) == list(range(self._sent))
        verdict = verify(self._kit.settings)
        assert not verdict.differences, "\n".join(map(str, verdict.differences))


@pytest.fixture
def topics(kit: PipelineKit, admin: AdminClient) -> Topics:
    return Topics(kit, admin)


def reading(kit: PipelineKit, *topics: str, **more: Any) -> PipelineKit:
    return kit.configured(source={"topics": list(topics), **more})


def test_topics_of_a_living_checkpoint_are_added_taken_out_and_put_back(
    kit: PipelineKit, topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = topics.make("a"), topics.make("b")
    topics.send("a", 10)
    topics.send("b", 6)
    assert reading(kit, a).run().summary.rows == 10
    assert reading(kit, a, b).run().summary.rows == 6
    topics.assert_all_there()

    topics.send("a", 5)
    topics.send("b", 4)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert reading(kit, b).run().summary.rows == 4
    assert f"topic {a} is read no more: it was read up to before offset 5 of partition 0" in caplog.text
    assert not verify(kit.settings).differences
    assert reading(kit, a, b).run().summary.rows == 5
    topics.assert_all_there()

    # A new checkpoint goes on with both, also with the one that came while the log lived.
    topics.send("b", 3)
    kit.configured(checkpoint=str(kit.folder / "second"), start="from_tables")
    assert reading(kit, a).run().summary.rows == 0
    assert reading(kit, b, a).run().summary.rows == 3
    topics.assert_all_there()

    topics.delete("b")
    topics.make("b")
    for chosen in ([a, b], [b]):
        with pytest.raises(CheckpointMismatch, match=f"topic '{b}' was made anew"):
            reading(kit, *chosen).run()


# Topics that are added are the first test's.
@pytest.mark.heavy
def test_a_topic_added_at_its_end_has_what_was_there_before_left_out(
    kit: PipelineKit, topics: Topics
) -> None:
    a, b = topics.make("a"), topics.make("b")
    topics.send("a", 4)
    reading(kit, a).run()
    topics.send("b", 6)
    assert reading(kit, a, b, starting_offsets="latest").run().summary.rows == 0
    assert not verify(kit.settings).differences
    topics.send("b", 2)
    assert kit.run().summary.rows == 2


# Lighter: test_topics_of_a_living_checkpoint_are_added_taken_out_and_put_back; lost files are in test_crashes.py.
@pytest.mark.heavy
def test_lost_files_of_a_batch_of_several_topics_are_written_again_though_one_is_read_now(
    kit: PipelineKit, topics: Topics, fail_at: Callable[..., None]
) -> None:
    a, b = topics.make("a"), topics.make("b")
    topics.send("a", 4)
    topics.send("b", 4)
    fail_at("after_manifest")
    with pytest.raises(BudgetSpent, match="failpoint"):
        reading(kit, a, b).run()
    fail_at()
    lost = [path for path in kit.unnamed_files() if path.startswith(kit.folder_of("golf"))]
    assert lost
    kit.lake.root.delete(lost)
    reading(kit, a).run()
    rows = kit.rows(kit.folder_of("golf"))
    assert sorted(rows["kafka_topic"].to_pylist()) == sorted([a] * 4 + [b] * 4)
    topics.assert_all_there()


def test_topics_that_come_to_fit_a_pattern_are_taken_up_by_a_run_and_those_that_go_end_it_not(
    kit: PipelineKit, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_LOOK_FOR_TOPICS_SECONDS", 0.5)
    reading(kit, f"/^{topics.prefix}-/", starting_offsets="latest")
    with pytest.raises(SetupError, match=rf"no topic on .* fits /\^{topics.prefix}-/"):
        kit.run()
    topics.make("a")
    with kit.running() as run:
        run.wait_until_started()
        topics.send("a", 4)
        run.wait_for(4)
        topics.make("b")
        topics.send("b", 6)
        run.wait_for(10)
        topics.send("a", 2)
        run.wait_for(12)
        topics.delete("b")
        topics.send("a", 3)
        run.wait_for(15)
    assert run.outcome().summary.failures == 0
    topics.assert_all_there()
