"""Pipelines that the version before the log left, whole and killed behind a manifest, and how this one goes on with them.

What it left is in `before_the_log/`, written by that version itself (git 72fac0b) over a topic of JSON: two batches, the second
with a field more. Each archive has the checkpoint, the tables, the inferred schemas, and the records as they were sent, with
@FOLDER@, @TOPIC@ and @CLUSTER@ where the folder and the ids of topic and cluster go.
"""

from __future__ import annotations

import json
import signal
import tarfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.ingest.kafka.connection import connect
from distributary.producer_sim.stack.local import LocalStack
from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.heavy, pytest.mark.folder]

LEFT = Path(__file__).parent / "before_the_log"

Record = dict[str, Any]


@pytest.fixture
def left(
    request: pytest.FixtureRequest, tmp_path: Path, admin: AdminClient, stack: LocalStack, spark: SparkSession
) -> tuple[PipelineKit, list[Record]]:
    """A pipeline as it was left, and the records of its topic, in the order in which they were sent."""
    topic = f"before-the-log-{request.param}"
    # The records are old, and a topic of that name may be another test's.
    kept = NewTopic(topic, num_partitions=2, replication_factor=1, config={"retention.ms": "-1"})
    admin.create_topics([kept])[topic].result(30)
    request.addfinalizer(lambda: admin.delete_topics([topic])[topic].result(30))
    kit = PipelineKit(tmp_path, topic, stack, spark).configured(
        decode={"format": "json", "schema_location": "./schemas"}, limits={"commit_threads": 1}
    )
    with connect(kit.settings.source) as kafka:
        ids = {"@CLUSTER@": kafka.cluster_id(), "@TOPIC@": kafka.topic_ids()[topic]}
    records = unpacked(LEFT / f"{request.param}.tar.gz", {"@FOLDER@": str(tmp_path), **ids}, tmp_path)
    sent(kit, records)
    return kit, records


def unpacked(archive: Path, said: dict[str, str], folder: Path) -> list[Record]:
    """The files of an archive, written there, and its records."""
    with tarfile.open(archive) as tar:
        files = {one.name: tar.extractfile(one) for one in tar.getmembers()}
        contents = {name: file.read() for name, file in files.items() if file is not None}
    records = contents.pop("records.jsonl").decode().splitlines()
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if name.endswith(".parquet") else said_in_full(content, said))
    return [json.loads(record) for record in records]


def said_in_full(text: bytes, said: dict[str, str]) -> bytes:
    for word, meaning in said.items():
        text = text.replace(word.encode(), meaning.encode())
    return text


def sent(kit: PipelineKit, records: list[Record]) -> None:
    producer = Producer({"bootstrap.servers": kit.bootstrap_servers, "acks": "all"})
    for one in records:
        producer.produce(
            kit.topic, one["value"], one["key"], partition=one["partition"], timestamp=one["timestamp"]
        )
    assert producer.flush(60) == 0


def more(first: int) -> list[Record]:
    """Records that nobody has read yet, with a field more again."""
    now = int(time.time() * 1000)
    return [
        {
            "partition": number % 2,
            "key": f"g{number % 7}",
            "timestamp": now + number,
            "value": json.dumps({"game_name": "golf", "n": number, "level": 2 * number, "hole": number % 18}),
        }
        for number in range(first, first + 10)
    ]


def assert_there(kit: PipelineKit, records: list[Record]) -> None:
    """Each record is in its table, once and with its values, or in quarantine as it was sent."""
    offsets, wanted, broken = Counter[int](), dict[str, list[Record]](), list[bytes]()
    for one in records:
        partition, value = one["partition"], one["value"]
        at = {"kafka_partition": partition, "kafka_offset": offsets[partition]}
        offsets[partition] += 1
        if value.startswith("{"):
            row = json.loads(value)
            wanted.setdefault(row["game_name"], []).append({**at, **row})
        else:
            broken.append(value.encode())
    for game, rows in wanted.items():
        found = kit.rows(kit.folder_of(game)).sort_by([("n", "ascending")]).to_pylist()
        assert [{name: row.get(name) for name in want} for row, want in zip(found, rows, strict=True)] == rows
    assert sorted(kit.rows("quarantine")["value"].to_pylist()) == sorted(broken)
    told = verify(kit.settings)
    assert not told.differences, "\n".join(map(str, told.differences))
    assert kit.unnamed_files() == set()


@pytest.mark.parametrize("left", ["whole", "killed"], indirect=True)
def test_it_goes_on_where_it_was_left(left: tuple[PipelineKit, list[Record]]) -> None:
    kit, records = left
    kit.run()
    assert_there(kit, records)
    last = more(len(records))
    sent(kit, last)
    kit.run()
    assert_there(kit, records + last)


@pytest.mark.parametrize(
    ("left", "point"),
    [
        ("whole", "before_manifest"),
        ("killed", "after_manifest"),
        ("killed", "between_commits"),
        ("whole", "before_ledger"),
    ],
    indirect=["left"],
)
def test_a_run_that_dies_as_it_goes_on_is_finished(
    left: tuple[PipelineKit, list[Record]], point: str
) -> None:
    kit, records = left
    last = more(len(records))
    sent(kit, last)
    assert kit.run_apart(f"{point}=kill").returncode == -signal.SIGKILL
    kit.run()
    assert_there(kit, records + last)
