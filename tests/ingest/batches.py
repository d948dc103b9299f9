"""A batch taken from records to its manifest as the driver does it, without Spark or Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tests.ingest.kafka_records import TOPIC, Sent, batch, pins
from tests.ingest.pipelines import checkpoint, rules_for, settings, table_book

from distributary.ingest.batch.decide import Attempt, Before, Decision, decide
from distributary.ingest.batch.objections import Objections
from distributary.ingest.batch.passes import Settled, planned_changes
from distributary.ingest.batch.written_layouts import layouts
from distributary.ingest.checkpoint.change_log import LoggedChange
from distributary.ingest.checkpoint.generation import Generation, World, born, read_generation
from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.kafka.offsets import Offsets
from distributary.ingest.pins import PinnedTable, Pins
from distributary.ingest.settings.groups import Columns
from distributary.ingest.settings.model import Settings
from distributary.ingest.tables.change import PlannedChange, TableChanger
from distributary.ingest.worker.demux import Demultiplexer
from distributary.ingest.worker.report import TaskReport


def generation(root: Path, place: str = "checkpoint") -> Generation:
    """The generation that lives in the checkpoint under `root`; born if there is none."""
    here = checkpoint(root, place)
    return read_generation(here) or born(here, "games", World("cluster", {TOPIC: "topic"}, {}))


def demuxed(by: Pins, *batches: Sequence[Sent]) -> TaskReport:
    """What one task makes of these batches."""
    task = Demultiplexer(by)
    for records in batches:
        task.take(batch(records))
    return task.finish()


def settled(root: Path, sent: Sequence[Sent], **changes: Any) -> Settled:
    """A batch of these records, written and judged; the pins' `known` are those known before."""
    return settled_by(settings(root), root, sent, **changes)


def settled_by(chosen: Settings, root: Path, sent: Sequence[Sent], **changes: Any) -> Settled:
    """The same with these settings."""
    by = pins(root, **{"generation": generation(root).id, "schemas_final": True, **changes})
    report = demuxed(by, sent)
    assert Objections(rules_for(chosen), table_book(root), by.tables.known).objection(report, by) is None
    return Settled(report, by, layouts(report, by))


def evolved(root: Path, batch_settled: Settled) -> list[PlannedChange]:
    """The tables made what the batch needs; the changes that took."""
    planned = planned_changes(batch_settled, batch_settled.pins.tables.known)
    TableChanger(table_book(root), None, Columns()).apply(planned, batch_settled.layouts, {"owner": "games"})
    return planned


def decided(
    root: Path,
    batch_settled: Settled,
    offsets: Offsets,
    entities: Mapping[str, str] | None = None,
    chosen: Settings | None = None,
    *,
    logged: Sequence[LoggedChange] = (),
) -> Manifest:
    """The batch's manifest, its tables made and its ledger files written; `logged` is what attempts before it wrote down."""
    planned = evolved(root, batch_settled)
    began = datetime.now(timezone.utc)
    by = batch_settled.pins
    decision = Decision(
        batch_id=by.batch.id,
        offsets=offsets,
        before=Before(entities or {}, by.tables.known, by.tables.met),
        settled=batch_settled,
        changes=planned,
        logged=logged,
        attempt=Attempt(began, 1),
        rules=rules_for(chosen or settings(root)),
    )
    return decide("games", generation(root), table_book(root), decision)


def known(root: Path, entities: Mapping[str, str]) -> Mapping[str, PinnedTable]:
    """The tables of these entities, as the next batch knows them."""
    return table_book(root).pinned(entities)
