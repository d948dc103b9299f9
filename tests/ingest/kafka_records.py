"""What workers are given, made by hand: Kafka records of real Protobuf events, and pins to place them by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from distributary.codecs.base import load_codec
from distributary.ingest.columns.safe_names import table_name
from distributary.ingest.kafka.records import RAW_SCHEMA
from distributary.ingest.pins import (
    FIRST_TURN,
    BatchId,
    Decoding,
    PinnedRecord,
    PinnedSchemas,
    PinnedTables,
    Pins,
    WorkerRules,
)
from distributary.ingest.settings.groups import Columns, Policies, Route
from distributary.ingest.storage.opening import files_at
from distributary.ingest.worker.report import TaskReport
from distributary.producer_sim.events.versions import event_schema
from distributary.producer_sim.formats.corruption import framed
from distributary.producer_sim.formats.protobuf import record_class, schema_text
from distributary.registry.base import Schema

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

TOPIC = "game-events"
GENERATION = "0123456789abcdef0123456789abcdef"
NONE = frozenset[str]()
T = TypeVar("T", bound="DataclassInstance")
INSTANT = datetime(2025, 6, 1, tzinfo=timezone.utc)
TEMPLATE = "silver_{entity}_events"
IDS = {1: 11, 2: 12, 3: 13}
PINNED = tuple(
    PinnedRecord((schema_id, (0,)), Schema(schema_id, "PROTOBUF", schema_text(version)))
    for version, schema_id in IDS.items()
)


@dataclass(frozen=True)
class Sent:
    """A record in Kafka."""

    value: bytes | None
    offset: int = 0
    partition: int = 0
    topic: str = TOPIC
    key: bytes | None = b"gamer"


def body(version: int, **fields: Any) -> bytes:
    """An event without its header."""
    event: bytes = record_class(event_schema(version))(**fields).SerializeToString()
    return event


def value(version: int, **fields: Any) -> bytes:
    """An event as it goes on the wire."""
    return framed(IDS[version], body(version, **fields))


def numbered(values: Sequence[bytes | None]) -> list[Sent]:
    """Records of one partition, one after the other."""
    return [Sent(value, offset) for offset, value in enumerate(values)]


def batch(records: Sequence[Sent]) -> pa.RecordBatch:
    """The records as a worker gets them."""
    rows = [
        {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "ts": INSTANT,
            "key": record.key,
            "value": record.value,
            "header_id": None,
            "route": None,
        }
        for record in records
    ]
    return pa.RecordBatch.from_pylist(rows, RAW_SCHEMA)


def pins(root: Path, **changes: Any) -> Pins:
    """Pins with versions 1 to 3 known, any number of new tables wanted, and these changes."""
    base = Pins(
        batch=BatchId(files_at(root / "lake"), files_at(root / "aside"), GENERATION, 7, 7, "games", ""),
        rules=WorkerRules(
            decoding=Decoding("protobuf"),
            topics=(TOPIC,),
            route=Route(field="game_name", table=TEMPLATE),
            columns=Columns(),
            policies=Policies(),
            worker_bytes=2**24,
        ),
        schemas=PinnedSchemas(PINNED, {}),
        tables=PinnedTables({}, {}, {}, grow=True, widen=False, admitted=NONE, denied=NONE, new_tables=1000),
        keys=None,
        placed={},
        turn=FIRST_TURN,
    )
    made, left = changed(base, changes)
    assert not left, f"pins have no {', '.join(left)}"
    return made


def task_report(**values: Any) -> TaskReport:
    """A task's account with these values, whichever part of it they belong to."""
    made, left = changed(TaskReport(), values)
    assert not left, f"a report has no {', '.join(left)}"
    return made


def changed(part: T, changes: Mapping[str, Any]) -> tuple[T, dict[str, Any]]:
    """Pins, or a part of them, with these changes wherever they belong; and those that belong elsewhere."""
    values: dict[str, Any] = {}
    left = dict(changes)
    for one in fields(part):
        value = getattr(part, one.name)
        if is_dataclass(value) and not isinstance(value, type):
            values[one.name], left = changed(value, left)
        elif one.name in left:
            values[one.name] = left.pop(one.name)
    return replace(part, **values), left


def folder(entity: str) -> str:
    """The folder of an entity's table."""
    return table_name(TEMPLATE, entity, True)


def columns_of(version: int) -> pa.Schema:
    """The columns that a version brings."""
    pinned = PINNED[version - 1]
    return load_codec("protobuf").reader(pinned.schema, pinned.key[1]).schema


def rows_of(pins: Pins, report: TaskReport, table: str) -> list[dict[str, Any]]:
    """The rows written for a table, file after file."""
    names = [written.file.name for written in report.files.written if written.file.table == table]
    return [
        row
        for name in names
        for row in pq.ParquetFile(f"{pins.batch.root}/{table}/{name}").read().to_pylist()
    ]


def aside_rows(root: Path, report: TaskReport) -> list[dict[str, Any]]:
    """The rows set aside by what was demultiplexed under this root."""
    files = [pq.ParquetFile(root / "aside" / name) for name in report.questions.aside]
    return [row for file in files for row in file.read().to_pylist()]
