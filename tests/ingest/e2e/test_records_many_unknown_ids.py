"""A batch full of schema ids that nobody knows: few are asked for, all are quarantined, the good records are in."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
import pytest
from benchmarks.worker_memory import python_workers
from confluent_kafka import Producer
from tests.ingest.e2e.handmade import EVENT, header, registered, registered_beside
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.registry_proxy import registry_proxy

from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.producer_sim.stack.local import LocalStack

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.heavy]

HOSTILE = 1_000_000
ASKED = 100
FIRST_UNKNOWN = 1_000_000_000


class Peak:
    """The most bytes that Spark's Python workers took together, beside what those of earlier tests already held."""

    bytes = 0


@contextmanager
def watched_workers() -> Iterator[Peak]:
    """Looks at the memory of Spark's Python workers inside the `with` block."""
    peak, over, before = Peak(), threading.Event(), _held_by_workers()

    def watch() -> None:
        while not over.wait(0.2):
            held = _held_by_workers()
            taken = sum(max(size - before.get(process, 0), 0) for process, size in held.items())
            peak.bytes = max(peak.bytes, taken)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def _held_by_workers() -> dict[int, int]:
    """How many bytes each process holds."""
    held = {}
    for process in python_workers():
        with suppress(psutil.Error):
            held[process.pid] = process.memory_info().rss
    return held


def test_a_million_unknown_ids_in_one_batch_neither_stall_nor_cost_a_good_record(
    kit: PipelineKit, stack: LocalStack
) -> None:
    known = registered(kit)
    text = EVENT.replace("level = 3;", "level = 3;\n  string mood = 4;")
    new = registered_beside(kit, text)
    body = known.body(game="chess", player="hostile")
    producer = Producer(
        {
            "bootstrap.servers": kit.bootstrap_servers,
            "linger.ms": 20,
            "queue.buffering.max.messages": 2 * HOSTILE,
        }
    )
    for n in range(HOSTILE):
        producer.produce(kit.topic, header(FIRST_UNKNOWN + n) + body, partition=n % 2)
        if n % 1_000 == 0:
            producer.produce(kit.topic, known.value(game="chess", player="known"), partition=n // 1_000 % 2)
            producer.produce(kit.topic, new.value(game="go", player="new"), partition=n // 1_000 % 2)
        producer.poll(0)
    assert producer.flush(120) == 0

    with registry_proxy(stack.registry_url) as proxy, watched_workers() as peak:
        kit.configured(limits={"batch_rows": 2 * HOSTILE})
        kit.configured(registry={"url": proxy.url, "unknown_id_wait_seconds": 0.2, "max_unknown_ids": ASKED})
        summary = kit.run().summary

    assert (summary.batches, summary.rows) == (1, HOSTILE + 2 * HOSTILE // 1_000)
    assert summary.quarantined == HOSTILE
    for game in ("chess", "go"):
        assert kit.rows(kit.folder_of(game)).num_rows == HOSTILE // 1_000
    quarantine = kit.rows(QUARANTINE_TABLE)
    assert set(quarantine.column("reason").to_pylist()) == {"unknown_schema", "unasked_schema"}
    assert len(set(quarantine.column("schema_id").to_pylist())) == HOSTILE
    unknown = {schema_id for schema_id in proxy.asked if int(schema_id or 0) >= FIRST_UNKNOWN}
    assert len(unknown) == ASKED
    # Each is asked again for as long as a "no" has to last, and no longer.
    assert proxy.asked.total() < 20 * ASKED
    assert peak.bytes < 1_500 * 2**20
