"""Tables written by hand the way a correct pipeline would, with the truth about them: something to break."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.ledger import BATCHES_SCHEMA, QUARANTINE_SCHEMA
from distributary.producer_sim.formats.base import corrupt_kinds
from distributary.producer_sim.formats.corruption import framed, value_digest
from distributary.producer_sim.traffic.events import EventMaker, Population
from distributary.producer_sim.truth.checksum import GroupSums, row_hashes
from distributary.producer_sim.truth.sent import Corrupt, Group, PartitionOffset, Sent, Truth
from distributary.producer_sim.verify.lake import Lake

TOPIC = "game-events"
KINDS = corrupt_kinds("protobuf")
GAMES = ("golf", "quest", "Überraschung!")
# Version 4 adds a field inside a struct, so old files lack a part of a column.
SCHEMA_IDS = {1: 11, 3: 13, 4: 14}
EVENTS = 120
PARTITIONS = 3
GENERATION = "11111111-2222-3333-4444-555555555555"
INSTANT = datetime(2025, 6, 1, tzinfo=timezone.utc)


@dataclass
class HandMade:
    """A lake before it is written: change what you like, then call `write`.

    parts       rows of each (table, schema id), one append each, in the order of the schema ids
    quarantine  rows of the quarantine
    ledger      rows of the ledger's batches
    """

    lake: Lake
    truth: Truth
    parts: dict[tuple[str, int], pa.Table] = field(default_factory=dict)
    quarantine: list[dict[str, Any]] = field(default_factory=list)
    ledger: list[dict[str, Any]] = field(default_factory=list)

    def part(self, game: str, schema_id: int) -> tuple[str, int]:
        return self.lake.table_of(game), schema_id

    def write(self) -> None:
        root = Path(self.lake.root.url)
        for (table, _), rows in sorted(self.parts.items(), key=lambda item: item[0][1]):
            write_deltalake(root / table, rows, mode="append", schema_mode="merge")
        if self.quarantine:
            write_deltalake(
                root / "quarantine", pa.Table.from_pylist(self.quarantine, QUARANTINE_SCHEMA), mode="append"
            )
        if self.ledger:
            write_deltalake(root / "ledger_batches", pa.Table.from_pylist(self.ledger, BATCHES_SCHEMA))


class _Partitions:
    """Gives out offsets, one partition after the other."""

    def __init__(self) -> None:
        self.ends = dict.fromkeys(range(PARTITIONS), 1000)
        self._next = 0

    def place(self) -> PartitionOffset:
        partition = self._next % PARTITIONS
        self._next += 1
        self.ends[partition] += 1
        return PartitionOffset(partition, self.ends[partition] - 1)


@pytest.fixture
def hand_made(hand_made_once: HandMade, tmp_path: Path) -> HandMade:
    """A lake of its own for the test, not written yet."""
    return replace(
        hand_made_once,
        lake=replace(hand_made_once.lake, root=files_at(tmp_path / "lake")),
        parts=dict(hand_made_once.parts),
        quarantine=deepcopy(hand_made_once.quarantine),
        ledger=deepcopy(hand_made_once.ledger),
    )


@pytest.fixture(scope="session")
def hand_made_once() -> HandMade:
    """Made once: generators take a while to get ready."""
    lake = Lake(root=files_at("/nowhere"), template="silver_{entity}_events")
    population, partitions = Population(games=GAMES, gamers=20), _Partitions()
    made = HandMade(lake, Truth(TOPIC))
    sent: dict[Group, Sent] = {}
    corrupt: dict[PartitionOffset, Corrupt] = {}
    tombstones: set[PartitionOffset] = set()
    for batch_id, (version, schema_id) in enumerate(SCHEMA_IDS.items()):
        starts = dict(partitions.ends)
        rows = EventMaker(version, population, seed=5).chunk(version, 0, EVENTS).rows
        sums = GroupSums()
        sums.add([rows["game_name"]], row_hashes(rows))
        for (game,), total in sums.groups.items():
            sent[Group(game, schema_id)] = Sent(version, total.rows, total.checksum)
        _fill(made, rows, schema_id, [partitions.place() for _ in range(EVENTS)])
        for number, kind in enumerate(KINDS):
            place, value = partitions.place(), framed(999, bytes([number, batch_id]))
            corrupt[place] = Corrupt(kind, value_digest(value))
            made.quarantine.append(_quarantined(place, value, kind, batch_id))
        tombstones.add(partitions.place())
        made.ledger.append(_batch(batch_id, starts, dict(partitions.ends), schema_id))
    offsets = {partition: ((1000, end),) for partition, end in partitions.ends.items()}
    made.truth = Truth(TOPIC, sent, corrupt, frozenset(tombstones), offsets)
    return made


def _fill(made: HandMade, rows: pa.RecordBatch, schema_id: int, places: list[PartitionOffset]) -> None:
    coordinates = {
        "kafka_topic": pa.array([TOPIC] * len(places)),
        "kafka_partition": pa.array([place.partition for place in places], pa.int32()),
        "kafka_offset": pa.array([place.offset for place in places], pa.int64()),
        "kafka_ts": pa.array([INSTANT] * len(places), pa.timestamp("us", "UTC")),
        "kafka_key": rows["gamer_id"].cast(pa.binary()),
        "schema_id": pa.array([schema_id] * len(places), pa.int64()),
    }
    columns = {**coordinates, **dict(zip(rows.schema.names, rows.columns, strict=True))}
    table = pa.table(columns)
    games = np.array(rows["game_name"].to_pylist())
    for game in GAMES:
        made.parts[made.part(game, schema_id)] = table.filter(pa.array(games == game))


def _quarantined(place: PartitionOffset, value: bytes, reason: str, batch_id: int) -> dict[str, Any]:
    return {
        "kafka_topic": TOPIC,
        "kafka_partition": place.partition,
        "kafka_offset": place.offset,
        "kafka_ts": INSTANT,
        "kafka_key": b"gamer",
        "value": value,
        "reason": reason,
        "detail": "it is broken on purpose",
        "batch_id": batch_id,
        "generation": GENERATION,
    }


def _batch(batch_id: int, starts: dict[int, int], ends: dict[int, int], schema_id: int) -> dict[str, Any]:
    return {
        "pipeline": "games",
        "generation": GENERATION,
        "batch_id": batch_id,
        "started_at": INSTANT,
        "ended_at": INSTANT,
        "seconds": 1.0,
        "attempts": 1,
        "rows_read": EVENTS + len(KINDS) + 1,
        "rows_tables": EVENTS,
        "rows_quarantined": len(KINDS),
        "rows_dropped": 1,
        "rows_already": 0,
        "rows_by_reason": "{}",
        "tables": len(GAMES),
        "files": len(GAMES),
        "bytes": 1,
        "offsets": json.dumps({TOPIC: {str(p): [starts[p], ends[p]] for p in starts}}),
        "gaps": "{}",
        "schema_ids": json.dumps([schema_id]),
    }


ColumnOf = Callable[[pa.Table, str, list[Any]], pa.Table]


@pytest.fixture
def with_column() -> ColumnOf:
    """Puts other values into a column of a table."""

    def replaced(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
        about = table.schema.field(name)
        return table.set_column(table.schema.get_field_index(name), about, pa.array(values, about.type))

    return replaced
