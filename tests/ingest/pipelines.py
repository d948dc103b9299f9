"""Settings of small pipelines, and the parts of the driver that need neither Spark nor Kafka."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.ingest.kafka_records import GENERATION, TEMPLATE, TOPIC

from distributary.codecs.base import load_codec
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import Generation
from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.checkpoint.old_layout import as_batch
from distributary.ingest.columns.layout import Layout
from distributary.ingest.commit_log.entries import Owner, Process, Standing
from distributary.ingest.commit_log.owners import Owners, Records
from distributary.ingest.commit_log.writing import Writer, begin, take_over
from distributary.ingest.evolution.rules import Rules, rules_of
from distributary.ingest.kafka.columns import table_schema
from distributary.ingest.kafka.offsets import Positions
from distributary.ingest.parquet.data_file import DataFile, file_name
from distributary.ingest.progress import Silent
from distributary.ingest.routing.read_ahead import ReadExpression
from distributary.ingest.schemas.known import SchemaBook
from distributary.ingest.schemas.pinned import PinsStore
from distributary.ingest.schemas.registry_wait import RegistryWait
from distributary.ingest.settings.groups import Columns
from distributary.ingest.settings.model import Settings
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.change import create
from distributary.ingest.tables.known import ENTITY_PROPERTY, TableBook
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.worker.report import WrittenFile
from distributary.producer_sim.formats.protobuf import schema_text
from distributary.registry.memory import MemoryRegistry

SUBJECT = f"{TOPIC}-value"


def settings(root: Path, **groups: Any) -> Settings:
    """A pipeline's settings with these changes to their groups."""
    given: dict[str, dict[str, Any]] = {
        "source": {"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "topics": [TOPIC]},
        "registry": {"url": "http://127.0.0.1:1"},
        "route": {"field": "game_name", "table": TEMPLATE},
        "sink": {"root": "./lake"},
    }
    tables = groups.pop("tables", ())
    merged = {name: {**given.get(name, {}), **groups.get(name, {})} for name in {**given, **groups}}
    return Settings.model_validate(
        {"name": "games", "checkpoint": "./checkpoint", **merged, "tables": tables}, context={"folder": root}
    )


def rules_for(chosen: Settings, expression: ReadExpression | None = None) -> Rules:
    """What these settings say of changes to tables."""
    book = chosen.rule_book()
    return rules_of(chosen.decode, chosen.policies, chosen.route, chosen.sink, expression, book)


def checkpoint(root: Path, place: str = "checkpoint") -> Checkpoint:
    """A checkpoint's folders, made."""
    made = Checkpoint.at(root / place)
    made.make()
    return made


def keep(here: Checkpoint, manifest: Manifest) -> None:
    """Let a manifest be the newest one of a checkpoint whose log is empty."""
    take_over(here.log, as_batch(manifest))


def owners(root: Path, of: Generation, log: str) -> Owners:
    """The owners of the tables under `root`/lake, as the pipeline of this checkpoint asks and answers."""
    return Owners(Records(files_at(root / "lake")), Owner(of.pipeline, log, of.id, of.lineage))


def begun(here: Checkpoint, ends: Positions | None = None) -> Writer:
    """Somebody who runs the pipeline of a checkpoint from here on; a new log begins at the first offset unless told otherwise."""
    return begin(here.log, Process("here", 1, "0"), lambda: Standing(ends=ends or {TOPIC: {0: 0}}))


def registry(versions: int = 3) -> MemoryRegistry:
    """A registry with the first versions of the event; version n has id n."""
    held = MemoryRegistry()
    for version in range(1, versions + 1):
        held.register(SUBJECT, schema_text(version), "PROTOBUF")
    return held


def schema_book(
    of: Checkpoint,
    asking: MemoryRegistry,
    stop: threading.Event | None = None,
    refusal_seconds: float = 300.0,
) -> SchemaBook:
    """The driver's schemas on a checkpoint and a registry."""
    wait = RegistryWait(Silent(), stop or threading.Event())
    return SchemaBook(load_codec("protobuf"), asking, PinsStore(of), wait, refusal_seconds)


def table_book(root: Path, native: NativeCommits | None = None) -> TableBook:
    """The driver's tables under `root`/lake."""
    return TableBook(str(root / "lake"), Columns(), None, 4, native)


def make_table(root: Path, folder: str, layout: pa.Schema, entity: str | None = None) -> Path:
    """An empty table with the Kafka columns and these."""
    properties = {} if entity is None else {ENTITY_PROPERTY: entity}
    create(root / "lake" / folder, table_schema(Columns(), Layout(layout)), properties)
    return root / "lake" / folder


def written(folder: str, layout: pa.Schema, rows: int = 1, entity: str | None = None) -> WrittenFile:
    """A worker's word that it wrote a file; there is none."""
    return WrittenFile(
        entity or folder, DataFile(folder, file_name(GENERATION, 7), rows, 1, "{}"), Layout(layout)
    )
