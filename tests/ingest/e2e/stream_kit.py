"""A pipeline that reads a stream of Kinesis, by boto3 from a server on loopback; it needs neither broker nor registry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.ingest.e2e.landing_kit import LandingKit
from tests.ingest.kinesis.emulated import Emulated, served


class StreamKit(LandingKit):
    """One pipeline with a stream, a lake and a checkpoint of its own."""

    def __init__(self, folder: Path, spark: SparkSession, stream: Emulated, endpoint: str) -> None:
        super().__init__(folder, spark)
        self.stream = stream
        del self._document["source"]["files"]
        kinesis = {"stream": stream.name, "region": "eu-central-1", "endpoint": endpoint}
        self.configured(source={"kinesis": kinesis}, decode={"format": "json"})

    def put(self, numbers: range, **fields: Any) -> None:
        """Put a record for each number, by its own key."""
        more = "".join(f', "{name}": {value}' for name, value in fields.items())
        self.stream.put([(str(number), f'{{"n": {number}{more}}}'.encode()) for number in numbers])

    def numbers(self, column: str = "n") -> list[int]:
        """The values of a column of the stream's table, sorted."""
        return sorted(self.rows(f"silver_{self.stream.name}")[column].to_pylist())


@contextmanager
def streaming(
    folder: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, name: str = "games"
) -> Iterator[StreamKit]:
    """Such a pipeline with an empty stream of two shards, until the block ends."""
    for variable, value in (("ACCESS_KEY_ID", "anybody"), ("SECRET_ACCESS_KEY", "anything")):
        monkeypatch.setenv(f"AWS_{variable}", value)
    stream = Emulated(2, name)
    with served(stream) as endpoint:
        yield StreamKit(folder, spark, stream, endpoint)
