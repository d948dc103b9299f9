"""What the replays of one call share: the pipeline as it stands, and each replay brought to its end, whatever it is of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from distributary.errors import DistributaryError
from distributary.ingest import failpoints
from distributary.ingest.batch.attempt import Attempts
from distributary.ingest.checkpoint.change_log import ChangeLog
from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.checkpoint.manifest_json import from_json, to_json
from distributary.ingest.checkpoint.manifests import manifest_of
from distributary.ingest.commit_log.owners import Whose, said_of
from distributary.ingest.handover.readings import Reading
from distributary.ingest.pipeline import Pipeline
from distributary.ingest.quarantine.rows import identities
from distributary.ingest.replay import places
from distributary.ingest.replay.committing import Committing
from distributary.ingest.replay.deciding import Became, OfQuarantine
from distributary.ingest.replay.exchanging import REPLAY
from distributary.ingest.replay.kept import (
    LEAVING,
    NUMBER,
    NUMBERED,
    OF,
    Kept,
    Turns,
    unfinished,
)
from distributary.ingest.replay.of_bronze import OfBronze
from distributary.ingest.replay.outcomes import tell
from distributary.ingest.replay.portions import Portion
from distributary.ingest.replay.raw_records import Learned, RawRecords
from distributary.ingest.replay.staging import ROWS, Tables, rows_staged
from distributary.ingest.replay.to_do import to_do
from distributary.ingest.tables.known import ENTITY_PROPERTY
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.transaction import Transaction, app_of_replays
from distributary.ingest.upkeep.replayed import forget, sweep_records, with_replays


@dataclass(frozen=True, slots=True)
class Replay:
    """What one replay did.

    resumed  whether it was begun before
    records  how many it is of
    became   what became of them
    left     open records that were chosen and that no replay can decode again, by the reason
    """

    id: str
    resumed: bool
    records: int
    became: Became
    left: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Work:
    """The replays of one call.

    turns    the numbers that they take
    let      raises where tables, by their folders, whose rows take the place of others may not get any now
    learned  which offsets the files of bronze have
    """

    pipeline: Pipeline
    attempts: Attempts
    native: NativeCommits
    spark: SparkSession
    turns: Turns
    let: Callable[[Sequence[str]], None]
    learned: Learned = field(default_factory=Learned)

    def finish_begun(self) -> tuple[list[Replay], list[pa.Array]]:
        """Bring those to their end that earlier calls began; what they did, and which records of the quarantine they tried."""
        run, tried, found = self.pipeline.run, list[pa.Array](), list[Replay]()
        sweep_records(run.checkpoint.files, run.root)
        for kept, begun in unfinished(run.checkpoint.files, run.root):
            if OF not in begun:
                there = kept.has([ROWS, *begun["files"]])
                if not there and kept.manifest() is None:
                    # Whoever began it had stood still for so long that another call took its records for those of none.
                    forget(run.checkpoint.files, run.root, kept.id)
                    continue
                tried += [identities(rows_staged(kept.records)).combine_chunks()] if there else []
            found.append(self.finished(kept, begun, resumed=True))
        return found, tried

    @cached_property
    def whose(self) -> Whose:
        """By what quarantine and records tell the pipeline's own, whatever it was called before."""
        run = self.pipeline.run
        return with_replays(run.root, run.owners.records.of_pipeline(run.pipeline, run.generation.id)[1])

    @cached_property
    def last(self) -> Manifest | None:
        """The newest batch's manifest; None before the first."""
        run = self.pipeline.run
        batch, _ = run.log.last()
        return None if batch is None else manifest_of(batch, run.checkpoint.log)

    def tables(self) -> Tables:
        """The tables that may have a record's row, as of now."""
        run = self.pipeline.run
        records = run.owners.records
        every, _ = records.of_pipeline(run.pipeline, run.generation.id)
        last = {} if self.last is None else self.last.entities
        mine: dict[str, str | None] = {folder: entity for entity, folder in last.items()}
        # A table of records as they came says nothing of whether they were placed.
        states = run.tables.states(every)
        mine |= {
            table: state.properties[ENTITY_PROPERTY]
            for table, state in states.items()
            if ENTITY_PROPERTY in state.properties
        }
        route = self.pipeline.settings.route
        reading = Reading(route, run.generation.lineage, records.ever(), run.tables.newest_batch)
        return Tables(run.root, reading.of(mine), run.rules.workers.columns)

    def raw(self) -> RawRecords:
        """All records that are kept as they came. Raises PipelineError where the settings, or the tables, have none."""
        run = self.pipeline.run
        return RawRecords.of(run.root, run.rules.workers.tables.kept.folders, self.learned)

    def finished(self, kept: Kept, begun: Mapping[str, Any], *, resumed: bool) -> Replay:
        """One replay that was begun, brought to its end."""
        told = kept.manifest()
        fresh = told is None
        if told is None:
            told = decided = self._decided_or_nothing(kept, begun)
            if OF in begun and decided["manifest"] is None and not any(decided["places"].values()):
                # Of a portion that lacks nothing there is nothing to keep: most are so, each time that one looks.
                run = self.pipeline.run
                forget(run.checkpoint.files, run.root, kept.id)
                return self._replay(kept, begun, decided, resumed=resumed)
            failpoints.reach(failpoints.BEFORE_MANIFEST, NUMBER)
            if decided["manifest"] is not None or OF in begun:
                decided[NUMBERED] = self.turns.take(self._newest(decided))
            # Whoever took the tables over meanwhile may have brought the same records.
            self.pipeline.run.log.confirm()
            kept.decide(decided)
            failpoints.reach(failpoints.AFTER_MANIFEST, NUMBER)
        if told["manifest"] is not None:
            self._commit(kept, told, fresh=fresh)
        if "places" in told:
            run = self.pipeline.run
            whose = said_of(run.pipeline, run.generation.id)
            tell(run.root, whose, kept.id, begun["at"], told["places"], told.get(NUMBERED))
        kept.end({"became": told["became"], "chosen": begun["chosen"], "at": begun["at"]})
        return self._replay(kept, begun, told, resumed=resumed)

    def _newest(self, decided: Mapping[str, Any]) -> int:
        """The highest number that a replay has in a table which gets something: a checkpoint that was put back from a copy may not know it."""
        run = self.pipeline.run
        manifest = decided["manifest"] or {"tables": ()}
        folders = {*(one["folder"] for one in manifest["tables"]), *decided.get(LEAVING, ())}
        had = run.tables.newest_batches(dict.fromkeys(folders, app_of_replays(run.generation.id)))
        return max((number for number in had.values() if number is not None), default=0)

    def _replay(
        self, kept: Kept, begun: Mapping[str, Any], told: Mapping[str, Any], *, resumed: bool
    ) -> Replay:
        records = told.get("records", begun.get("records", 0) + begun.get("already", 0))
        return Replay(kept.id, resumed, records, Became(**told["became"]), begun.get("left", {}))

    def _commit(self, kept: Kept, told: Mapping[str, Any], *, fresh: bool) -> None:
        manifest = told["manifest"]
        self.let([one["folder"] for one in manifest["tables"] if "merging" in one])
        run = self.pipeline.run
        run.log.confirm()
        leaving = {folder: places.from_json(those) for folder, those in told.get(LEAVING, {}).items()}
        committing = Committing(
            self.pipeline.finisher,
            run.tables,
            self.native,
            self.spark,
            kept,
            run.rules.workers.columns,
            _transaction(run.generation.id, kept, told),
        )
        committing.commit(from_json(manifest), leaving, fresh=fresh)

    def _decided_or_nothing(self, kept: Kept, begun: Mapping[str, Any]) -> dict[str, Any]:
        """What was decided. One that says no before anything is changed is not gone on with: what is asked for next may be another."""
        try:
            return self._of_bronze(kept, begun) if OF in begun else self._of_quarantine(kept, begun)
        except DistributaryError:
            # Whoever goes on with it meanwhile may have decided it.
            if kept.manifest() is None and not ChangeLog(kept.checkpoint).read():
                run = self.pipeline.run
                forget(run.checkpoint.files, run.root, kept.id)
            raise

    def _of_quarantine(self, kept: Kept, begun: Mapping[str, Any]) -> dict[str, Any]:
        decided = OfQuarantine(self.attempts, kept, self.last, self.spark, self.let, begun["files"]).decided()
        return {
            "became": decided.became.as_dict(),
            "manifest": None if decided.manifest is None else to_json(decided.manifest),
        }

    def _of_bronze(self, kept: Kept, begun: Mapping[str, Any]) -> dict[str, Any]:
        portion = Portion.from_dict(begun["portion"])
        todo = to_do(self.raw(), self.tables(), self.whose, portion)
        deciding = OfBronze(self.attempts, kept, self.last, self.spark, self.let, portion, todo, self.whose)
        decided, outcome = deciding.decided()
        return {
            "became": decided.became.as_dict(),
            "manifest": None if decided.manifest is None else to_json(decided.manifest),
            "records": todo.there + todo.count,
            "places": outcome.to_json(),
            LEAVING: {folder: places.to_json(those) for folder, those in decided.leaving.items()},
        }


def _transaction(generation: str, kept: Kept, told: Mapping[str, Any]) -> Transaction:
    """By which a replay is in each table once; earlier versions had an application for each, which stayed in its tables for ever."""
    said = {REPLAY: kept.id}
    if NUMBERED in told:
        return Transaction(app_of_replays(generation), told[NUMBERED], said)
    return Transaction(f"{app_of_replays(generation)}/{kept.id}", NUMBER, said)
