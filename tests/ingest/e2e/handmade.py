"""Records made field by field, and what became of them: for tests about single records instead of traffic."""

from __future__ import annotations

import struct
from collections import Counter
from typing import Any
from uuid import uuid4

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.producer_sim.verify.comparison import compare
from distributary.registry.confluent.registry import ConfluentRegistry
from distributary.registry.protobuf.text import compile_text

EVENT = """
syntax = "proto3";
message Event {
  string game = 1;
  string player = 2;
  int32 level = 3;
}
"""
# Beyond what any registry hands out in a test.
UNKNOWN_ID = 2_000_000_000


class Schema:
    """A schema under its id: makes values of its messages as producers write them."""

    def __init__(self, schema_id: int, text: str = EVENT) -> None:
        self.id, self.text = schema_id, text
        files = FileDescriptorSet.FromString(compile_text(text, {})).file
        pool = DescriptorPool()
        for file in files:
            pool.Add(file)
        self._file = pool.FindFileByName(files[-1].name)

    def body(self, path: tuple[int, ...] = (0,), **fields: Any) -> bytes:
        """The message at this index of the schema, without a header."""
        found = list(self._file.message_types_by_name.values())[path[0]]
        for index in path[1:]:
            found = found.nested_types[index]
        return bytes(ParseDict(fields, GetMessageClass(found)()).SerializeToString())

    def value(self, path: tuple[int, ...] = (0,), **fields: Any) -> bytes:
        """The message as it goes on the wire."""
        return header(self.id, path) + self.body(path, **fields)


def header(schema_id: int, path: tuple[int, ...] = (0,)) -> bytes:
    """Confluent's header of a Protobuf record; the message index as zigzag varints, short for [0]."""
    index = b"\x00" if path == (0,) else bytes([2 * len(path), *(2 * step for step in path)])
    return struct.pack(">bI", 0, schema_id) + index


def registered(kit: PipelineKit, text: str = EVENT) -> Schema:
    """The schema, registered under the topic's subject; the pipeline routes by its field `game`."""
    kit.configured(route={"field": "game"})
    return Schema(kit.register(text), text)


def registered_beside(kit: PipelineKit, text: str) -> Schema:
    """The schema, registered under a subject that the pipeline does not watch: whatever it is, nothing objects."""
    with ConfluentRegistry(kit.registry_options) as registry:
        return Schema(registry.register(f"beside-{uuid4()}", text, "PROTOBUF"), text)


def quarantined(kit: PipelineKit) -> list[dict[str, Any]]:
    """The rows of the quarantine, in Kafka's order."""
    rows: list[dict[str, Any]] = kit.rows(QUARANTINE_TABLE).to_pylist()
    return sorted(rows, key=lambda row: (row["kafka_topic"], row["kafka_partition"], row["kafka_offset"]))


def reasons(kit: PipelineKit) -> Counter[str]:
    """How many records are in quarantine, by reason."""
    return Counter(row["reason"] for row in quarantined(kit))


def column(kit: PipelineKit, game: str, name: str) -> list[Any]:
    """A column of a game's table, in Kafka's order; nothing where there is no table."""
    rows = kit.rows(kit.folder_of(game)).to_pylist()
    order = sorted(rows, key=lambda row: (row["kafka_topic"], row["kafka_partition"], row["kafka_offset"]))
    return [row[name] for row in order]


def assert_each_record_in_one_place(kit: PipelineKit) -> None:
    """No record is in two places, and the ledger's sums agree with each other and with the tables."""
    verdict = compare(kit.lake)
    assert not verdict.differences, "\n".join(map(str, verdict.differences))
