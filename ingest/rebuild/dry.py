"""How many records of bronze no table has: what a replay would decode, with nothing done and nobody kept out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import known_id, read_generation
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.commit_log.entries import Standing
from distributary.ingest.commit_log.owners import Records
from distributary.ingest.handover.readings import Reading
from distributary.ingest.quarantine.chosen import Chosen
from distributary.ingest.rebuild.silver import Replayed, as_last_read, require_bronze
from distributary.ingest.replay.deciding import Became
from distributary.ingest.replay.leaving import require_may_leave, require_no_keys
from distributary.ingest.replay.places import count
from distributary.ingest.replay.portions import Portion, portions, until
from distributary.ingest.replay.raw_records import RawRecords
from distributary.ingest.replay.staging import Tables
from distributary.ingest.replay.to_do import to_do
from distributary.ingest.replay.work import Replay
from distributary.ingest.settings.model import Settings
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files, tables_at
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.known import ENTITY_PROPERTY
from distributary.ingest.tables.log import has_log
from distributary.ingest.tables.state import state_of
from distributary.ingest.tables.transaction import newest_batch
from distributary.ingest.upkeep.replayed import with_replays


def lacking(settings: Settings, chosen: Chosen | None = None, *, replace: bool = False) -> Replayed:
    """How many records would be decoded again; with `replace` those that have a row, too, which are told of as `left` by their tables' folders.

    Of which entities they are nobody knows before they are decoded. Raises ConfigError where rows are to be replaced of tables with one row a
    key, as far as that is known by then, and PipelineError where what is kept cannot be read.
    """
    require_bronze(settings)
    settings, chosen = as_last_read(settings), chosen or Chosen()
    root = tables_at(settings.sink.root, settings.storage)
    checkpoint = Checkpoint(open_files(settings.checkpoint, settings.storage))
    log = checkpoint.log
    so_far = log.state().so_far or Standing()
    newest = None if so_far.last is None else log.newest_batch(so_far.last)
    end = until(so_far, newest, _reached(settings, root), alive=True)
    if replace:
        require_no_keys(settings.rule_book(), chosen.entities, settings.name)
    mine, whose = Records(root).of_pipeline(settings.name, known_id(checkpoint))
    whose = with_replays(root, whose)
    tables = Tables(root, _of_this_reading(settings, root, mine), settings.sink.columns)
    raw = RawRecords.of(root, settings.rule_book().kept.folders)
    found = Replayed(settings.name)
    for offsets in portions(raw, chosen, end, settings.limits.batch_rows):
        todo = to_do(raw, tables, whose, Portion(offsets, chosen, replaces="keep" if replace else None))
        if replace and not chosen.entities:
            states = {
                folder: state_of(opened(root.below(folder)), root.below(folder)) for folder in todo.rows
            }
            require_may_leave(states, list(states), (), settings.name)
        rows = {folder: count(places) for folder, places in todo.rows.items()} if replace else {}
        found = found.and_(Replay("", False, todo.there + todo.count, Became(already=todo.there, left=rows)))
    return dataclasses.replace(found, dry_run=True)


def _reached(settings: Settings, root: Files) -> int | None:
    generation = read_generation(Checkpoint(open_files(settings.checkpoint, settings.storage)))
    if generation is None or not has_log(root.below(BATCHES_TABLE)):
        return None
    return newest_batch(root.below(BATCHES_TABLE), generation.app_id("batches"))


def _of_this_reading(settings: Settings, root: Files, mine: Sequence[str]) -> list[str]:
    """Those of some tables that are of entities, and not of an earlier reading alone."""
    generation = read_generation(Checkpoint(open_files(settings.checkpoint, settings.storage)))
    there = [table for table in mine if has_log(root.below(table))]
    told = {table: opened(root.below(table)).metadata().configuration for table in there}
    found = {table: its[ENTITY_PROPERTY] for table, its in told.items() if ENTITY_PROPERTY in its}
    if generation is None:
        return list(found)

    def newest(table: str, app: str) -> int | None:
        return newest_batch(root.below(table), app)

    return Reading(settings.route, generation.lineage, Records(root).ever(), newest).of(found)
