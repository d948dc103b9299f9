"""A stream of kinesalite's read by boto3: that what `emulated.py` does is what another one does, too. `make test-stores` fetches it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distributary.ingest.kinesis.kept import Kept
from distributary.ingest.kinesis.looking import Looking
from distributary.ingest.kinesis.questions import Questions, boto3_client
from distributary.ingest.kinesis.reading import parts_of, rows_of
from distributary.ingest.settings.source.kinesis import KinesisStream
from distributary.ingest.storage.posix import PosixFiles

_THERE = Path(sys.prefix) / "kinesalite/node_modules/kinesalite"

# It has no option for where it listens.
_SERVE = """
const server = require(process.argv[1])({createStreamMs: 0, updateStreamMs: 0, deleteStreamMs: 0})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
"""

# The lighter one is test_looking.py.
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(
        not _THERE.is_dir() or shutil.which("node") is None,
        reason="kinesalite is not there (make test-stores)",
    ),
]


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anybody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anything")
    with subprocess.Popen(["node", "-e", _SERVE, str(_THERE)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        server.kill()


def test_each_record_is_read_once_through_a_split_and_a_merge(endpoint: str, tmp_path: Path) -> None:
    import boto3  # noqa: PLC0415 - not every environment has it

    client: Any = boto3.client("kinesis", endpoint_url=endpoint, region_name="us-east-1")
    client.create_stream(StreamName="games", ShardCount=2)
    access = KinesisStream(stream="games", region="us-east-1", endpoint=endpoint)
    questions, place = Questions(boto3_client(access, 4), access), PosixFiles(tmp_path / "kept")

    def settled() -> None:
        client.get_waiter("stream_exists").wait(StreamName="games", WaiterConfig={"Delay": 1})

    def put(numbers: range) -> None:
        settled()
        client.put_records(
            StreamName="games", Records=[{"Data": b"%d" % n, "PartitionKey": str(n)} for n in numbers]
        )

    def looking() -> Looking:
        return Looking(questions, Kept(place), questions.stream(), lambda _: None)

    settled()
    put(range(20))
    looking().look()
    put(range(20, 40))
    low, high = (
        int(client.list_shards(StreamName="games")["Shards"][0]["HashKeyRange"][end]) for end in _ENDS
    )
    client.split_shard(
        StreamName="games", ShardToSplit="shardId-000000000000", NewStartingHashKey=str((low + high) // 2)
    )
    put(range(40, 60))
    looking().look(whole=True)
    settled()
    client.merge_shards(
        StreamName="games",
        ShardToMerge="shardId-000000000003",
        AdjacentShardToMerge="shardId-000000000001",
    )
    put(range(60, 80))
    found = looking()
    found.look(whole=True)
    values = [
        (int(row["value"]), row["partition"], row["offset"])
        for line in found.lines.values()
        for part in parts_of(line.pieces, 0, line.end)
        for batch in rows_of(place, "games", part)
        for row in batch.to_pylist()
    ]
    assert sorted(value for value, _, _ in values) == list(range(80))
    assert len({place[1:] for place in values}) == 80
    assert [number for number, line in found.lines.items() if line.is_over] == [0, 1, 3]
    assert [line.shard.number for line in found.parents(4)] == [3, 1]


_ENDS = ("StartingHashKey", "EndingHashKey")
