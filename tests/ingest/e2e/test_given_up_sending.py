"""A row that no topic takes, turn for turn, on the real broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.test_sinks_of_derived_tables import Topic

from distributary.ingest.derived import sinks
from distributary.ingest.derived.refresh import derive

# A minute of sending; lighter: test_what_was_taken_back_has_nothing_sent_again_and_what_came_behind_it_has.
pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.heavy]


def test_a_row_that_the_topic_does_not_take_has_no_other_rows_sent_at_each_turn(
    kit: PipelineKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was sent before it is taken back, and takes room in the topic all the same."""
    topic, folder, pairs = Topic(kit, "some"), kit.folder_of(0), sinks._pairs

    def settle(text: str) -> None:
        sql = f"SELECT kafka_partition AS p, kafka_offset AS o, {text} AS text FROM {folder}"  # noqa: S608 - a test's own
        sink = {"kafka": {"topic": topic.name, "keys": ["p", "o"]}}
        kit.configured(derive=[{"table": "gold_some", "inputs": [folder], "sql": sql, "sink": sink}])

    def largest_last(frame: Any) -> Iterator[tuple[bytes, bytes | None]]:
        before = held(kit, topic)
        *small, largest = sorted(pairs(frame), key=lambda pair: len(pair[1] or b""))
        yield from small
        # As where Spark takes its time for the next rows.
        while small and held(kit, topic) == before:
            yield small[-1]
        yield largest

    settle("'a'")
    kit.simulate(1, games=1)
    kit.run()
    sent = len(topic.records())
    settle("IF(kafka_offset = 3, repeat('x', 2000000), IF(kafka_offset < 5, 'b', 'a'))")
    monkeypatch.setattr(sinks, "_pairs", largest_last)
    for _ in range(3):
        before = held(kit, topic)
        (failed,) = derive(kit.settings, kit.spark)
        assert (failed.how, "larger than the topic takes" in failed.why) == ("failed", True)
        assert held(kit, topic) - before < sent / 2
    settle("'b'")
    monkeypatch.setattr(sinks, "_pairs", pairs)
    derive(kit.settings, kit.spark)
    assert {row["text"] for row in topic.rows()} == {"b"}


def held(kit: PipelineKit, topic: Topic) -> int:
    """How many places its records have taken."""
    consumer = Consumer({"bootstrap.servers": kit.bootstrap_servers, "group.id": "tests"})
    found = [consumer.get_watermark_offsets(TopicPartition(topic.name, n), timeout=30)[1] for n in (0, 1)]
    consumer.close()
    return sum(found)
