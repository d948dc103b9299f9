"""What librdkafka's answers become."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from confluent_kafka import Uuid

from distributary.ingest.kafka.confluent import as_topic


@pytest.mark.parametrize(
    ("halves", "spelled"),
    [
        ((-1, -1), "_____________________w"),
        ((-0x0404040404040405, 0), "-_v7-_v7-_sAAAAAAAAAAA"),
        ((0, 0), ""),
    ],
)
def test_a_topic_id_is_spelled_as_kafka_spells_it(halves: tuple[int, int], spelled: str) -> None:
    described = SimpleNamespace(topic_id=Uuid(*halves), partitions=[])
    assert as_topic(described).uuid == spelled
