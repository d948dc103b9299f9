"""Simulated records laid into tables by a rule of the test's own: what a pipeline with some route would have made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from distributary.codecs.base import load_codec
from distributary.ingest.columns.safe_names import table_name
from distributary.ingest.settings.groups import NamedTable
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.ledger import BATCHES_SCHEMA, QUARANTINE_SCHEMA
from distributary.producer_sim.events.routes import Routed
from distributary.producer_sim.formats.base import load_format
from distributary.producer_sim.traffic.records import Record, Traffic
from distributary.producer_sim.traffic.simulation import Simulation
from distributary.producer_sim.truth.sent import Truth
from distributary.producer_sim.verify.lake import Lake
from distributary.registry.base import Schema

TOPIC = "games"
TEMPLATE = "t_{entity}"


@dataclass(frozen=True)
class Landed:
    """A good event: as it was sent, as its row, and the name of its type."""

    offset: int
    record: Record
    row: pa.RecordBatch
    schema_id: int
    type: str

    @property
    def values(self) -> dict[str, Any]:
        found: dict[str, Any] = self.row.to_pylist()[0]
        return found


# What the route of a test makes of an event.
Rule = Callable[[Landed], str | None]


@dataclass(frozen=True)
class World:
    """What was sent, and what a pipeline with a route makes of it: `entities` by offset, for the test to change."""

    root: Path
    route: Routed
    events: list[Landed]
    entities: dict[int, str | None]
    truth: Truth

    def lake(self, no_entity: str | NamedTable = "quarantine") -> Lake:
        return Lake(root=files_at(self.root), template=TEMPLATE, route=self.route, no_entity=no_entity)

    def write(self, no_entity: str | NamedTable = "quarantine") -> Lake:
        """The tables, with a ledger of one batch."""
        homeless = []
        for event in self.events:
            table = self._table(self.entities[event.offset], no_entity)
            if table is None:
                homeless.append(event)
        for table, rows in self._tables(no_entity).items():
            write_deltalake(self.root / table, rows)
        quarantined = homeless if no_entity == "quarantine" else []
        if quarantined:
            rows_of = [_quarantined(event) for event in quarantined]
            write_deltalake(self.root / "quarantine", pa.Table.from_pylist(rows_of, QUARANTINE_SCHEMA))
        row = {
            "generation": "g",
            "batch_id": 0,
            "rows_read": len(self.events),
            "rows_tables": len(self.events) - len(homeless),
            "rows_quarantined": len(quarantined),
            "rows_dropped": len(homeless) - len(quarantined),
            "rows_already": 0,
            "gaps": "{}",
            "offsets": f'{{"{TOPIC}": {{"0": [0, {len(self.events)}]}}}}',
        }
        write_deltalake(self.root / "ledger_batches", pa.Table.from_pylist([row], BATCHES_SCHEMA))
        return self.lake(no_entity)

    def _tables(self, no_entity: str | NamedTable) -> dict[str, pa.Table]:
        found: dict[str, list[pa.Table]] = {}
        for event in self.events:
            table = self._table(self.entities[event.offset], no_entity)
            if table is not None:
                found.setdefault(table, []).append(_with_coordinates(event))
        return {table: pa.concat_tables(rows, promote_options="permissive") for table, rows in found.items()}

    @staticmethod
    def _table(entity: str | None, no_entity: str | NamedTable) -> str | None:
        if entity:
            return table_name(TEMPLATE, entity, True)
        return no_entity.table if isinstance(no_entity, NamedTable) else None


def world(root: Path, route: Routed, rule: Rule, **chosen: Any) -> World:
    """Events of two types in two versions, none of them corrupt."""
    usual: dict[str, Any] = {"games": 3, "gamers": 8, "versions": 2, "events": 80, "event_types": 2}
    given: dict[str, Any] = {**usual, "corrupt_kinds": (), "route": route, **chosen}
    settings = Simulation.of(bootstrap_servers="none", topic=TOPIC, **given)
    traffic = Traffic(settings)
    events = [replace(event, offset=offset) for offset, event in enumerate(_sent(settings, traffic))]
    truth = Truth(TOPIC, traffic.sent(), offsets={0: ((0, len(events)),)})
    return World(root, route, events, {event.offset: rule(event) for event in events}, truth)


def _sent(settings: Simulation, traffic: Traffic) -> Iterator[Landed]:
    codec, written = load_codec("protobuf"), load_format("protobuf")
    readers: dict[int, tuple[Any, str]] = {}
    for stage in settings.stages:
        for record, schema in stage.schemas.items():
            number = 100 + len(readers)
            traffic.introduce(stage.number, number, record)
            reader = codec.reader(Schema(number, "PROTOBUF", written.schema_text(schema)), (0,))
            readers[number] = (reader, f"games.{record}")
        for sent in (one for chunk in traffic.stage(stage.number) for one in chunk):
            value = sent.value or b""
            number = int.from_bytes(value[1:5], "big")
            reader, name = readers[number]
            row = reader.decode(pa.array([value[6:]], pa.binary())).rows
            yield Landed(0, sent, row, number, name)


def _with_coordinates(event: Landed) -> pa.Table:
    kafka = {
        "kafka_topic": pa.array([TOPIC]),
        "kafka_partition": pa.array([0], pa.int32()),
        "kafka_offset": pa.array([event.offset], pa.int64()),
        "kafka_key": pa.array([event.record.key], pa.binary()),
        "schema_id": pa.array([event.schema_id], pa.int64()),
    }
    row = pa.Table.from_batches([event.row])
    return pa.table({**kafka, **dict(zip(row.schema.names, row.columns, strict=True))})


def _quarantined(event: Landed) -> dict[str, Any]:
    place = {"kafka_topic": TOPIC, "kafka_partition": 0, "kafka_offset": event.offset}
    told = {"reason": "no_entity", "detail": "", "batch_id": 0, "generation": "g"}
    return {**place, "kafka_key": event.record.key, "value": event.record.value, **told}
