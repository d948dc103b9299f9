"""Topics with offsets that are no records: aborted transactions, their markers, compaction."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer
from tests.ingest.e2e.handmade import assert_each_record_in_one_place, column, registered
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.ingest.columns.safe_names import BATCHES_TABLE

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def transactional(kit: PipelineKit) -> Producer:
    producer = Producer({"bootstrap.servers": kit.bootstrap_servers, "transactional.id": kit.topic})
    producer.init_transactions(60)
    return producer


def transaction(kit: PipelineKit, producer: Producer, values: list[bytes], commit: bool) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(kit.topic, value=value, partition=0)
    assert producer.flush(60) == 0
    if commit:
        producer.commit_transaction(60)
    else:
        producer.abort_transaction(60)


def ledger(kit: PipelineKit) -> list[tuple[int, dict[str, dict[str, int]]]]:
    rows = sorted(kit.rows(BATCHES_TABLE).to_pylist(), key=lambda row: row["batch_id"])
    return [(row["rows_read"], json.loads(row["gaps"])) for row in rows]


def test_an_aborted_transaction_does_not_land_and_its_gap_is_recorded(kit: PipelineKit) -> None:
    schema = registered(kit)
    producer = transactional(kit)

    def values(*players: str) -> list[bytes]:
        return [schema.value(game="chess", player=player) for player in players]

    transaction(kit, producer, values("a", "b"), commit=True)
    transaction(kit, producer, values("ghost", "ghost", "ghost"), commit=False)
    transaction(kit, producer, values("c"), commit=True)
    kit.run()
    # Nothing but what is no record: two aborted ones and the marker of their end.
    transaction(kit, producer, values("ghost", "ghost"), commit=False)
    kit.run()
    transaction(kit, producer, values("d"), commit=True)
    kit.run()

    assert column(kit, "chess", "player") == ["a", "b", "c", "d"]
    # Each transaction ends with a marker, which takes an offset.
    batches = ledger(kit)
    assert batches[0] == (3, {kit.topic: {"0": 3 + 3}})
    assert sum(read for read, _ in batches) == 4
    assert sum(sum(gaps.get(kit.topic, {}).values()) for _, gaps in batches) == 3 + 2 + 5
    assert_each_record_in_one_place(kit)


def test_read_uncommitted_takes_aborted_records_too_where_the_settings_ask_for_it(kit: PipelineKit) -> None:
    kit.configured(source={"kafka": {"isolation.level": "read_uncommitted"}})
    schema = registered(kit)
    transaction(kit, transactional(kit), [schema.value(game="chess", player="ghost")], commit=False)
    kit.run()

    assert column(kit, "chess", "player") == ["ghost"]
