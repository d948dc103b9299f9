"""A stream as Kinesis has it, in memory: a client for who asks right here, and a server on loopback for boto3's.

As moto's has other ways (its splits move what parents hold into their children), and kinesalite's is another runtime's, what tests
need is here: sparse sequence numbers of 186 bits, closed parents, retention, throttling, iterators that expire.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import formatdate
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_FIRST = 49590338271490256608559692538361571095921575989136588898

_STEP = 1 << 68

_HASHES = 1 << 128

_EXPIRE = 300

# What a role is taken on by, as STS answers it to whoever asks.
_ROLE = (
    "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>OFTHEROLE</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
    "<SessionToken>t</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"
)


class Refused(Exception):
    """As boto3's ClientError says why."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.response = {"Error": {"Code": code}}


@dataclass
class Record:
    sequence: int
    key: str
    data: bytes
    at: float


@dataclass
class EmulatedShard:
    number: int
    low: int
    high: int
    parents: tuple[str, ...] = ()
    closed_at: float | None = None
    records: list[Record] = field(default_factory=list)

    @property
    def id(self) -> str:
        return f"shardId-{self.number:012d}"


class Emulated:
    """One stream.

    throttled, expired  how many of the next questions for records are answered so
    refused             by which error all questions are answered
    holes               how many answers without a record come before each one with some, as of shards that get few records
    """

    def __init__(
        self, shards: int = 1, name: str = "games", now: Callable[[], float] = time.time, page: int = 10_000
    ) -> None:
        self.name, self.now, self.page = name, now, page
        self.throttled = self.expired = self.holes = 0
        self.refused: str | None = None
        self.was_refused = threading.Event()
        self.asked_by = list[str]()
        self.retention_hours = 24
        self._lock = threading.RLock()
        self._sequence = _FIRST
        self.made = 0.0
        self.remake(shards)

    def remake(self, shards: int = 1) -> None:
        """Delete the stream, and make it anew."""
        self.made = max(self.now(), self.made + 1)
        self._shards = list[EmulatedShard]()
        for number in range(shards):
            self._add(_HASHES * number // shards, _HASHES * (number + 1) // shards)

    def close(self) -> None:
        """Nothing is held."""

    # What a producer does.

    def put(self, keys_and_values: Sequence[tuple[str, bytes]]) -> None:
        """Put records where their keys belong."""
        with self._lock:
            for key, data in keys_and_values:
                hashed = int.from_bytes(md5(key.encode(), usedforsecurity=False).digest(), "big")
                shard = next(
                    one for one in self._shards if one.closed_at is None and one.low <= hashed < one.high
                )
                self._put(shard, key, data)

    def put_into(self, number: int, *values: bytes, key: str = "k") -> None:
        """Put records into a shard."""
        with self._lock:
            for data in values:
                self._put(self._shards[number], key, data)

    def split(self, number: int) -> None:
        """Split a shard in the middle."""
        with self._lock:
            shard = self._closed(number)
            middle = (shard.low + shard.high) // 2
            self._add(shard.low, middle, shard.id)
            self._add(middle, shard.high, shard.id)

    def merge(self, first: int, second: int) -> None:
        """Merge two shards."""
        with self._lock:
            one, other = self._closed(first), self._closed(second)
            self._add(min(one.low, other.low), max(one.high, other.high), one.id, other.id)

    # What is asked of boto3's client.

    def describe_stream_summary(self, **asked: Any) -> dict[str, Any]:
        self._known(asked)
        return self._answer(
            StreamDescriptionSummary={
                "StreamARN": f"arn:aws:kinesis:eu-central-1:123456789012:stream/{self.name}",
                "StreamStatus": "ACTIVE",
                "StreamCreationTimestamp": datetime.fromtimestamp(self.made, timezone.utc),
                "RetentionPeriodHours": self.retention_hours,
            }
        )

    def list_shards(self, **asked: Any) -> dict[str, Any]:
        if "NextToken" not in asked:
            self._known(asked)
        begin = int(asked.get("NextToken", 0))
        there = [one for one in self._shards if not self._is_gone(one)]
        some = [
            {
                "ShardId": one.id,
                **dict(zip(("ParentShardId", "AdjacentParentShardId"), one.parents, strict=False)),
            }
            for one in there[begin : begin + 2]
        ]
        more = {"NextToken": str(begin + 2)} if begin + 2 < len(there) else {}
        return self._answer(Shards=some, **more)

    def get_shard_iterator(self, **asked: Any) -> dict[str, Any]:
        self._known(asked)
        shard, kind = self._shard(asked["ShardId"]), asked["ShardIteratorType"]
        behind = _FIRST - 1
        if kind == "AT_SEQUENCE_NUMBER":
            behind = int(asked["StartingSequenceNumber"]) - 1
            if not _FIRST <= behind + 1 <= self._sequence:
                raise Refused("InvalidArgumentException")
        elif kind == "AT_TIMESTAMP":
            behind = max(
                (one.sequence for one in shard.records if one.at < int(asked["Timestamp"])), default=behind
            )
        met = self.holes if kind == "AT_SEQUENCE_NUMBER" else 0
        return self._answer(ShardIterator=self._iterator(shard, behind, met))

    def get_records(self, **asked: Any) -> dict[str, Any]:
        with self._lock:
            if self.throttled:
                self.throttled -= 1
                raise Refused("ProvisionedThroughputExceededException")
            if self.refused:
                self.was_refused.set()
                raise Refused(self.refused)
            name, behind, given, met = asked["ShardIterator"].split("|")
            if self.expired or self.now() - float(given) > _EXPIRE:
                self.expired = max(0, self.expired - 1)
                raise Refused("ExpiredIteratorException")
            shard = self._shard(name)
            there = [one for one in self._kept(shard) if one.sequence > int(behind)]
            in_hole = there and int(met) < self.holes
            found = there[: 0 if in_hole else min(asked["Limit"], self.page)]
            rest = there[len(found) :]
            last = found[-1].sequence if found else int(behind)
            following = self._iterator(shard, last, int(met) + 1 if in_hole else 0)
            more = {} if shard.closed_at and not rest else {"NextShardIterator": following}
            late = max(1, int((self.now() - rest[0].at) * 1000)) if rest else 0
            records = [
                {
                    "SequenceNumber": str(one.sequence),
                    "PartitionKey": one.key,
                    "Data": one.data,
                    "ApproximateArrivalTimestamp": datetime.fromtimestamp(one.at, timezone.utc),
                }
                for one in found
            ]
            return self._answer(Records=records, MillisBehindLatest=late, **more)

    def _answer(self, **told: Any) -> dict[str, Any]:
        date = formatdate(self.now(), usegmt=True)
        return {**told, "ResponseMetadata": {"HTTPHeaders": {"date": date}}}

    def _known(self, asked: dict[str, Any]) -> None:
        if asked.get("StreamName", asked.get("StreamARN", "").rpartition("/")[2]) != self.name:
            raise Refused("ResourceNotFoundException")

    def _shard(self, name: str) -> EmulatedShard:
        found = [one for one in self._shards if one.id == name and not self._is_gone(one)]
        if not found:
            raise Refused("ResourceNotFoundException")
        return found[0]

    def _kept(self, shard: EmulatedShard) -> list[Record]:
        return [one for one in shard.records if one.at >= self.now() - self.retention_hours * 3600]

    def _is_gone(self, shard: EmulatedShard) -> bool:
        return shard.closed_at is not None and shard.closed_at < self.now() - self.retention_hours * 3600

    def _iterator(self, shard: EmulatedShard, behind: int, met: int) -> str:
        return f"{shard.id}|{behind}|{self.now()}|{met}"

    def _put(self, shard: EmulatedShard, key: str, data: bytes) -> None:
        self._sequence += _STEP
        shard.records.append(Record(self._sequence, key, data, self.now()))

    def _closed(self, number: int) -> EmulatedShard:
        self._shards[number].closed_at = self.now()
        return self._shards[number]

    def _add(self, low: int, high: int, *parents: str) -> None:
        self._shards.append(EmulatedShard(len(self._shards), low, high, parents))


@contextmanager
def served(stream: Emulated) -> Iterator[str]:
    """The address of a server for boto3's client, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            stream.asked_by.append(self.headers["authorization"])
            if "x-amz-target" not in self.headers:
                self.reply(200, "text/xml", _ROLE.encode())
                return
            asked = json.loads(body or "{}")
            name = self.headers["x-amz-target"].rpartition(".")[2]
            ask = {
                "DescribeStreamSummary": stream.describe_stream_summary,
                "ListShards": stream.list_shards,
                "GetShardIterator": stream.get_shard_iterator,
                "GetRecords": stream.get_records,
            }[name]
            try:
                status, told = 200, ask(**asked)
                told.pop("ResponseMetadata")
            except Refused as error:
                code = error.response["Error"]["Code"]
                status, told = 400, {"__type": code, "message": ""}
            self.reply(status, "application/x-amz-json-1.1", json.dumps(told, default=_as_json).encode())

        def reply(self, status: int, kind: str, data: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string(stream.now() if timestamp is None else timestamp)

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _as_json(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value.timestamp()
