"""Pipelines that read some partitions of a topic, and later others: each record once."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from tests.ingest.e2e.handmade import Schema, registered
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.errors import ConfigError
from distributary.ingest.run import run
from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def send(kit: PipelineKit, schema: Schema, first: int, count: int) -> None:
    for n in range(first, first + count):
        kit.send([schema.value(game="golf", level=n)], partition=n % 2)


def reading(kit: PipelineKit, *partitions: int) -> PipelineKit:
    return kit.configured(source={"partitions": {kit.topic: list(partitions)}})


def levels(kit: PipelineKit) -> list[int]:
    assert not verify(kit.settings).differences
    return sorted(kit.rows(kit.folder_of("golf"))["level"].to_pylist())


def test_partitions_of_a_living_checkpoint_are_added_and_taken_out(kit: PipelineKit) -> None:
    schema = registered(kit)
    send(kit, schema, 0, 10)
    assert reading(kit, 0).run().summary.rows == 5
    assert levels(kit) == [0, 2, 4, 6, 8]
    send(kit, schema, 10, 4)
    assert reading(kit, 1).run().summary.rows == 7
    # What a new checkpoint does not read it knows all the same.
    kit.configured(checkpoint=str(kit.folder / "second"), start="from_tables")
    assert kit.run().summary.rows == 0
    assert reading(kit, 0, 1).run().summary.rows == 2
    assert levels(kit) == list(range(14))
    with pytest.raises(ConfigError, match=r"source\.partitions names 7 of topic .*, which has 2 partitions"):
        reading(kit, 0, 7).run()


def test_partitions_that_nobody_named_begin_as_the_settings_say_once_all_are_read(
    kit: PipelineKit, admin: AdminClient
) -> None:
    """What retention took of them before is no loss: nobody was to read it."""
    schema = registered(kit)
    send(kit, schema, 0, 10)
    place = TopicPartition(kit.topic, 1, 3)
    admin.delete_records([place])[place].result(30)
    assert reading(kit, 0).run().summary.rows == 5
    every = kit.settings.source.model_copy(update={"partitions": {}})
    assert run(kit.settings.model_copy(update={"source": every}), spark=kit.spark).summary.rows == 2
    assert sorted(kit.rows(kit.folder_of("golf"))["level"].to_pylist()) == [0, 2, 4, 6, 7, 8, 9]
