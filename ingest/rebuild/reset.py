"""Layers of a pipeline made anew: the tables of entities from bronze, those that are derived from them, and bronze, which nothing brings back."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from deltalake.exceptions import DeltaError
from pyroaring import BitMap64
from pyspark.sql import SparkSession

from distributary.errors import ConfigError, PipelineError
from distributary.ingest.columns.safe_names import MEMORY_SUFFIX
from distributary.ingest.commit_log.owners import said_of
from distributary.ingest.lineage.of_commands import told_of
from distributary.ingest.merge.rule import memory_folder
from distributary.ingest.progress import Progress, Silent
from distributary.ingest.quarantine.rows import rows_of
from distributary.ingest.rebuild import resets
from distributary.ingest.rebuild.emptying import empty
from distributary.ingest.rebuild.resets import Reset
from distributary.ingest.rebuild.silver import Rebuilding, Replayed, opened
from distributary.ingest.replay.leaving import why_not
from distributary.ingest.replay.outcomes import tell_emptied
from distributary.ingest.replay.places import Partition, Places, split
from distributary.ingest.replay.portions import Portion
from distributary.ingest.replay.raw_records import PLACE, RawRecords
from distributary.ingest.replay.staging import Tables
from distributary.ingest.replay.to_do import require_one_record_each
from distributary.ingest.replay.work import Work
from distributary.ingest.settings.model import Settings
from distributary.ingest.spark.jvm import jvm_needed
from distributary.ingest.tables import handle
from distributary.ingest.tables.ledger import QUARANTINE_SCHEMA
from distributary.ingest.tables.log import has_log
from distributary.ingest.tables.state import state_of
from distributary.ingest.tables.transaction import app_of_resets, is_committed
from distributary.registry.base import SchemaRegistry
from distributary.values import without_logins

Layer: TypeAlias = Literal["silver", "bronze"]


@dataclass(frozen=True, slots=True)
class Was:
    """What a reset did.

    resumed   whether an earlier call had begun it
    emptied   the folders of the tables that have nothing any more of what they had
    replayed  what was made again from bronze
    """

    pipeline: str
    layer: Layer
    resumed: bool
    emptied: tuple[str, ...]
    replayed: Replayed | None = field(default=None)

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {**asdict(self), "replayed": None if self.replayed is None else self.replayed.as_dict()}


@jvm_needed()
def reset(  # noqa: PLR0913 - what a run is given, and two words
    settings: Settings,
    layer: Layer = "silver",
    progress: Progress | None = None,
    spark: SparkSession | None = None,
    registry: SchemaRegistry | None = None,
    *,
    force: bool = False,
) -> Was:
    """Empty the tables of a layer; those of entities are made again from bronze, each record once, and Kafka is not asked.

    settings  the pipeline's as they are today, with `bronze`
    layer     `silver`, or `bronze`, which nothing brings back and takes `force`
    progress  told of each portion, and of waits
    spark     the session to use; by default the process's own, or one that ends with this
    registry  where schemas come from; by default what the settings say
    force     whether what is in tables and not in bronze may be lost

    What an earlier call began and a crash ended is gone on with. Raises LeaseHeld while a run is alive, ConfigError where something would be lost
    for good, and the PipelineError that says what else stands in the way: then nothing was emptied.
    """
    watch = progress or Silent()
    if layer == "bronze" and not force:
        raise ConfigError(
            "bronze has every record as it came, and nothing brings them back once Kafka has forgotten them: no table could be made again, and "
            "`verify` would miss each of them. Say --force if that is meant"
        )
    read = ("bronze",) if layer == "silver" else ()
    with (
        told_of(settings, "reset", read) as heard,
        opened(settings, watch, spark, registry, beside=False) as (work, _),
    ):
        resetting = _Resetting(work, watch, force)
        done = resetting.bronze() if layer == "bronze" else resetting.silver()
        replayed = {} if done.replayed is None else done.replayed.tables
        heard.rows = {**dict.fromkeys(done.emptied, 0), **replayed}
        return done


@dataclass(frozen=True, slots=True)
class _Resetting:
    """One call."""

    work: Work
    watch: Progress
    force: bool

    def silver(self) -> Was:
        """The tables of entities, and what remembers their deletes, emptied and made again."""
        run, begun = self.work.pipeline.run, None
        self.work.finish_begun()
        begun = resets.unfinished(run.checkpoint.files)
        # Also of one that is gone on with: a run may have died since, and what a table had of its batch goes with the rest.
        self._finish_newest()
        if begun is not None and not self.force:
            self._require_still_kept(begun)
        one = begun or self._begun()
        emptied = self._emptied(one, lambda folder: self._tell(folder, one.number))
        replayed = Rebuilding(self.work, self.watch).done(Portion({}, rebuilt=True, untold=one.untold))
        one.end(run.checkpoint.files, {"replayed": replayed.as_dict()})
        return Was(run.pipeline, "silver", begun is not None, emptied, replayed)

    def bronze(self) -> Was:
        """All that is kept as it came, gone."""
        run = self.work.pipeline.run
        folders = [one for one in run.rules.workers.tables.kept.folders if has_log(run.tables.place(one))]
        self._require_emptiable(folders)
        emptied = self._emptied(Reset(uuid.uuid4().hex, tuple(sorted(folders)), self._number(folders)))
        return Was(run.pipeline, "bronze", False, emptied)

    def _begun(self) -> Reset:
        run, tables = self.work.pipeline.run, self.work.tables()
        every = [name for folder in tables.folders for name in (folder, memory_folder(folder))]
        there = [folder for folder in every if has_log(run.tables.place(folder))]
        self._require_emptiable(there)
        raw = self.work.raw()
        # By now, as what is emptied could not be made again then.
        require_one_record_each(raw, self.work.pipeline.settings.limits.batch_rows)
        if not self.force:
            _require_kept(raw, tables)
        one = Reset(uuid.uuid4().hex, tuple(there), self._number(there))
        one.begin(run.checkpoint.files, datetime.now(timezone.utc).isoformat())
        return one

    def _require_still_kept(self, one: Reset) -> None:
        """As of one that is begun now: a run may have gone on since without keeping records as they came."""
        run = self.work.pipeline.run
        by = one.transaction(run.generation.id)
        left = [
            folder
            for folder in one.tables
            if not folder.endswith(MEMORY_SUFFIX)
            and has_log(run.tables.place(folder))
            and not is_committed(run.tables.place(folder), by.app_id, by.batch_id)
        ]
        if left:
            _require_kept(self.work.raw(), Tables(run.root, left, run.rules.workers.columns))

    def _finish_newest(self) -> None:
        """The newest batch in all its tables: what a later start put there would come beside what is made again."""
        run, finisher = self.work.pipeline.run, self.work.pipeline.finisher
        batch, rewritten = run.log.last()
        reached = finisher.reached(run.generation)
        if batch is None or self.work.last is None or (reached is not None and reached >= batch.number):
            return
        if rewritten:
            raise PipelineError(
                f"batch {batch.number} is decided and not in all its tables, and files of it were lost: run the pipeline once, which writes them "
                "again from Kafka, and say this again"
            )
        finisher.finish(self.work.last, self.work.spark, batch.before, parked=run.parked)

    def _require_emptiable(self, folders: Sequence[str]) -> None:
        run = self.work.pipeline.run
        if parked := sorted(run.parked.folders):
            raise PipelineError(
                f"{', '.join(parked)} is parked, and rows wait for it: let `distributary resolve` decide about that table, run the pipeline, and "
                "say this again"
            )
        try:
            places = {folder: run.tables.place(folder) for folder in folders}
            found = {
                folder: why_not(state_of(handle.opened(place), place)) for folder, place in places.items()
            }
        except DeltaError as error:
            raise PipelineError(f"nothing was emptied: {without_logins(str(error))}") from error
        if wrong := [f"table {folder}: {why}" for folder, why in found.items() if why]:
            raise PipelineError(
                f"nothing was emptied: {'; '.join(wrong)}. Put that right, and say this again"
            )

    def _number(self, folders: Sequence[str]) -> int:
        """Higher than that of any reset before, also of those that a checkpoint which was put back from a copy knows nothing of."""
        run = self.work.pipeline.run
        had = run.tables.newest_batches(dict.fromkeys(folders, app_of_resets(run.generation.id)))
        before = max((number for number in had.values() if number is not None), default=0)
        return self.work.turns.take(before)

    def _emptied(self, one: Reset, tell: Callable[[str], None] = lambda folder: None) -> tuple[str, ...]:
        """The folders that were emptied now; `tell` is told of each right before."""
        run, done = self.work.pipeline.run, list[str]()
        by = one.transaction(run.generation.id)
        for folder in one.tables:
            place = run.tables.place(folder)
            # Whoever took the tables over meanwhile has rows there that this log knows nothing of.
            run.log.confirm()
            if has_log(place) and not is_committed(place, by.app_id, by.batch_id):
                tell(folder)
                done += [folder] if empty(place, by, one.id) is not None else []
            run.tables.changed(folder)
        return tuple(done)

    def _tell(self, folder: str, number: int | None) -> None:
        """Keep of which records a table is about to have no row; what remembers deletes has none."""
        run = self.work.pipeline.run
        if not folder.endswith(MEMORY_SUFFIX):
            gone: dict[Partition, BitMap64] = {}
            for places in _places(Tables(run.root, [folder], run.rules.workers.columns), folder):
                _add(gone, places)
            tell_emptied(run.root, said_of(run.pipeline, run.generation.id), gone, number)


def _places(tables: Tables, folder: str) -> Iterator[Places]:
    """Where a table's rows are from, part by part."""
    names = (tables.columns.kafka_topic, tables.columns.kafka_partition, tables.columns.kafka_offset)
    columns = pa.schema(
        [(name, QUARANTINE_SCHEMA.field(own).type) for name, own in zip(names, PLACE, strict=True)]
    )
    for rows in rows_of(tables.root.below(folder), columns):
        yield split(*(rows[name] for name in names))


def _require_kept(raw: RawRecords, tables: Tables) -> None:
    """Raises ConfigError where tables have rows of records that bronze does not: nobody could make them again."""
    kept: dict[Partition, BitMap64] = {}
    for file in raw.files:
        for rows, alive in file.rows():
            _add(kept, split(*(rows.filter(alive)[name] for name in PLACE)))
    lost: dict[str, int] = {}
    for folder in tables.folders:
        for places in _places(tables, folder):
            for partition, offsets in places.items():
                mine = BitMap64(np.unique(offsets).tolist())
                lacking = len(mine - kept.get(partition, BitMap64()))
                lost[folder] = lost.get(folder, 0) + lacking
    if any(lost.values()):
        told = ", ".join(f"{folder} ({rows:,})" for folder, rows in sorted(lost.items()) if rows)
        raise ConfigError(
            f"tables have rows of records that bronze does not have, as those of before it was written into the settings: {told}. Nobody could make "
            "them again. Say --force if they are to go; or `distributary replay`, which takes nothing away"
        )


def _add(kept: dict[Partition, BitMap64], some: Places) -> None:
    for partition, offsets in some.items():
        kept.setdefault(partition, BitMap64()).update(offsets.tolist())
