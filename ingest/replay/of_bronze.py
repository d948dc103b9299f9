"""What becomes of a portion of bronze: decided as a batch of its records would be, but for those that have their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distributary.ingest.batch.decide import Before
from distributary.ingest.batch.passes import Settled, Workers, discard
from distributary.ingest.checkpoint.manifest import Manifest, TableFiles
from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.commit_log.owners import Whose
from distributary.ingest.erasure.record import Part, all_gone
from distributary.ingest.merge.columns import DataColumns
from distributary.ingest.parquet.data_file import DataFile, file_name
from distributary.ingest.parquet.statistics import statistics
from distributary.ingest.quarantine.rows import TEXT, resolved_identities
from distributary.ingest.replay.deciding import Became, Decided, Deciding
from distributary.ingest.replay.kept import NUMBER
from distributary.ingest.replay.leaving import require_added, require_may_leave
from distributary.ingest.replay.outcomes import Outcome
from distributary.ingest.replay.places import (
    Partition,
    Places,
    are_in,
    count,
    joined,
    of_rows,
    within,
    without,
)
from distributary.ingest.replay.portions import Portion
from distributary.ingest.replay.raw_records import PLACE
from distributary.ingest.replay.to_do import ToDo
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.ledger import QUARANTINE_SCHEMA
from distributary.ingest.tables.transaction import app_of_replays
from distributary.ingest.upkeep.resolved import let_go
from distributary.ingest.worker.report import TaskReport, WrittenFile

OTHERS = "not_chosen"
"""Among what a replay lets go: records of entities that were not asked for."""


@dataclass(frozen=True)
class OfBronze(Deciding):
    """Decides what becomes of a portion of bronze."""

    portion: Portion
    todo: ToDo
    whose: Whose

    def decided(self) -> tuple[Decided, Outcome]:
        """Nothing of it is visible yet. Raises PipelineErrors for what stands in its way."""
        todo = self.todo
        already = Became(already=todo.there)
        if not todo.count:
            return Decided(None, already), Outcome()
        self._begin()
        run, offsets = self.attempts.run, self.portion.offsets
        chosen, by_spark = self.portion.chosen, run.rules.workers.decoding.engine == "spark"
        records = (
            todo.raw.frame(self.spark, offsets, chosen, once=todo.once)
            if todo.once or by_spark
            else todo.raw.in_files(self.spark, offsets, chosen)
        )
        workers = Workers(
            run.workers.slots, run.workers.headers, run.workers.arrow_rows, run.workers.most_files
        )
        settled, before = self._settled(records, offsets, workers, todo.passed)
        try:
            return self._of(settled, before)
        except BaseException:
            discard(run.root, settled.report)
            self._sweep()
            raise

    def _of(self, settled: Settled, before: Before) -> tuple[Decided, Outcome]:
        todo = self.todo
        settled, others = self._chosen(settled)
        written = settled.report.files.written
        refusing = [one for one in written if one.file.table == QUARANTINE_TABLE]
        mine = self._mine(before)
        reasons = self._refused(refusing, joined(todo.rows[folder] for folder in mine))
        refused, stay = joined(reasons.values()), self._stay(reasons)
        known = self._known_to_quarantine(refused)
        # Whose entity nobody asked for, or nobody can tell, waits on where it is.
        others = joined([others, without(self._all_refused(refusing), refused)])
        own = without(refused, joined([known, stay]))
        events = [one for one in written if one.entity is not None]
        merges = {one.table for one in events if self._is_merged(one)}
        is_all = not (refusing or merges or others) and _is_one_row_each(settled.report, todo.count)
        added = todo.wanted if is_all else self._placed(one for one in events if one.table not in merges)
        merged = self._placed(one for one in events if one.table in merges)
        placed = joined([added, merged])
        # What other entities have rows of is no matter of those that were asked for.
        beside = joined(places for folder, places in todo.rows.items() if folder not in mine)
        dropped = without(todo.wanted, joined([placed, refused, others, beside]))
        # Of one that had no row nothing is missing for that: nobody is told that it may be.
        had = dropped if self.portion.untold else within(dropped, joined(todo.rows.values()))
        # Of one that waits there already, and has a row all the same, the row goes, too.
        both = without(within(known, joined(todo.rows.values())), stay)
        outcome = Outcome(added, merged, own, joined([had, both]))
        # Before any table is made what the records need: what says no leaves nothing behind.
        leaving = self._leaving(events, joined([placed, own, both, dropped]))
        manifest = self._manifest(self._decision(settled, before, self.portion.offsets))
        became = Became(
            dict(settled.report.counts.rows),
            todo.there,
            count(dropped),
            _counted({reason: without(places, stay) for reason, places in reasons.items()}),
            _counted(leaving),
            _counted({reason: within(places, stay) for reason, places in reasons.items()}),
        )
        kept = self._kept_in_quarantine(refusing, own)
        resolved = self._resolved(manifest, placed, joined([refused, others]))
        tables = [*(self._as_now(table) for table in manifest.tables), *kept, *resolved]
        return self._decided(manifest, tables, became, leaving), outcome

    def _decided(
        self,
        manifest: Manifest,
        tables: Sequence[TableFiles],
        became: Became,
        leaving: Mapping[str, Places],
    ) -> Decided:
        if not (tables or leaving):
            return Decided(None, became)
        whole = replace(manifest, tables=tuple(tables))
        # A manifest that is there has all its files.
        self.attempts.run.root.sync(
            f"{folder}/{one.name}"
            for table in whole.tables
            for folder, files in table.parts.items()
            for one in files
        )
        return Decided(whole, became, leaving)

    def _is_merged(self, one: WrittenFile) -> bool:
        """Whether rows of a file take the place of others by themselves."""
        entity = one.entity
        return entity is not None and self.attempts.run.rules.workers.tables.upsert(entity) is not None

    def _mine(self, before: Before) -> list[str]:
        """The folders of the tables that are asked for, of those that have rows of the chosen records."""
        wanted = self.portion.chosen.entities
        if not wanted:
            return list(self.todo.rows)
        asked = {before.entities.get(one) for one in wanted}
        return [folder for folder in self.todo.rows if folder in asked]

    def _stay(self, reasons: Mapping[str, Places]) -> Places:
        """Those of the refused records that keep the row that they have: what was decoded once may be all that there is of it."""
        if self.portion.replaces == "quarantine":
            return {}
        return within(joined(reasons.values()), joined(self.todo.rows.values()))

    def _leaving(self, events: Iterable[WrittenFile], gone: Places) -> Mapping[str, Places]:
        """The rows that make room, by the tables' folders. Raises what says which table lets none leave, or makes room by itself."""
        if self.portion.replaces is None:
            return {}
        run = self.attempts.run
        require_added({one.table for one in events if self._is_merged(one)}, run.pipeline)
        found = {folder: within(places, gone) for folder, places in self.todo.rows.items()}
        found = {folder: places for folder, places in found.items() if places}
        require_may_leave(run.tables.states(found), list(found), run.parked.folders, run.pipeline)
        return found

    def _as_now(self, table: TableFiles) -> TableFiles:
        """What came once before may be older than all deletes that are remembered; not so where all comes once more."""
        merging = table.merging
        if merging is None or merging.deletes is None or self.portion.rebuilt:
            return table
        return replace(table, merging=replace(merging, deletes=replace(merging.deletes, again=True)))

    def _chosen(self, settled: Settled) -> tuple[Settled, Places]:
        """Without what is of entities that were not asked for, and where those records are from."""
        wanted, report = self.portion.chosen.entities, settled.report
        if not wanted:
            return settled, {}
        mine = [one for one in report.files.written if one.entity is None or one.entity in wanted]
        others = [one for one in report.files.written if one.entity is not None and one.entity not in wanted]
        places = self._placed(others)
        root = self.attempts.run.root
        report.files.written = mine
        for folder in {one.table for one in others}:
            report.counts.dropped[OTHERS] += report.counts.rows.pop(folder, 0)
        root.delete(f"{one.file.table}/{one.file.name}" for one in others)
        for folder in {one.file.table for one in others}:
            # Only of a table that is not there nothing else is.
            root.remove_folder(folder)
        gone = {one.table for one in others}
        layouts = {folder: layout for folder, layout in settled.layouts.items() if folder not in gone}
        return replace(settled, layouts=layouts), places

    def _placed(self, files: Iterable[WrittenFile]) -> Places:
        columns = self.attempts.run.rules.workers.columns
        names = (columns.kafka_topic, columns.kafka_partition, columns.kafka_offset)
        kinds = pa.schema(
            [(name, QUARANTINE_SCHEMA.field(own).type) for name, own in zip(names, PLACE, strict=True)]
        )
        return joined(of_rows(part, names) for one in files for part in self._parts(one, kinds))

    def _refused(self, files: Sequence[WrittenFile], rows: Places) -> dict[str, Places]:
        """Where the records are from that would go to quarantine, by the reason; `rows` are those of the tables that are asked for."""
        columns = pa.schema([QUARANTINE_SCHEMA.field(name) for name in (*PLACE, "reason", "entity")])
        found: dict[str, list[Places]] = {}
        for part in (part for one in files for part in self._parts(one, columns)):
            mine = self._of_entities(part, rows)
            for reason in mine["reason"].unique().to_pylist():
                places = of_rows(mine.filter(pc.equal(mine["reason"], reason)), PLACE)
                found.setdefault(reason, []).append(places)
        return {reason: joined(parts) for reason, parts in found.items()}

    def _all_refused(self, files: Sequence[WrittenFile]) -> Places:
        """Where all records are from that would go to quarantine, of whatever entity."""
        columns = pa.schema([QUARANTINE_SCHEMA.field(name) for name in PLACE])
        return joined(of_rows(part, PLACE) for one in files for part in self._parts(one, columns))

    def _of_entities(self, part: pa.Table, rows: Places) -> pa.Table:
        """Those that are of the entities that are asked for, or whose rows are, as what cannot be decoded is of none."""
        wanted = self.portion.chosen.entities
        if not wanted:
            return part
        mine = pc.fill_null(pc.is_in(part["entity"], pa.array(wanted, pa.string())), False)
        return part.filter(pc.or_(mine, are_in(part, PLACE, rows)) if self.portion.replaces else mine)

    def _known_to_quarantine(self, refused: Places) -> Places:
        """Those of some that wait there already, or were deleted from there while they did, and have got no row since."""
        if not refused:
            return {}
        run = self.attempts.run
        gone = without(deleted_open(run.root, self.whose, refused), joined(self.todo.rows.values()))
        return within(refused, joined([self.todo.waiting.places, gone]))

    def _kept_in_quarantine(self, files: Sequence[WrittenFile], own: Places) -> list[TableFiles]:
        """A file of the rows of quarantine for these records, in the place of those that workers wrote."""
        run = self.attempts.run
        made = list[DataFile]()
        if own:
            made.append(self._file_of(files, own))
        run.root.delete(f"{one.file.table}/{one.file.name}" for one in files)
        app = app_of_replays(run.generation.id)
        layout = Layout(QUARANTINE_SCHEMA)
        return [TableFiles(QUARANTINE_TABLE, "quarantine", app, layout, True, tuple(made))] if made else []

    def _file_of(self, files: Sequence[WrittenFile], own: Places) -> DataFile:
        root, name, rows = self.attempts.run.root, file_name(self.kept.id, NUMBER), 0
        with root.below(QUARANTINE_TABLE).writer(name, named_later=True) as stream:
            with pq.ParquetWriter(stream.sink, QUARANTINE_SCHEMA, compression="zstd") as writer:
                for part in (part for one in files for part in self._parts(one, QUARANTINE_SCHEMA)):
                    mine = part.filter(are_in(part, PLACE, own))
                    rows += mine.num_rows
                    writer.write_table(mine.cast(QUARANTINE_SCHEMA))
            size = stream.tell()
        told = statistics(writer.writer.metadata, Layout(QUARANTINE_SCHEMA))
        return DataFile(QUARANTINE_TABLE, name, rows, size, told)

    def _resolved(self, manifest: Manifest, placed: Places, stays: Places) -> list[TableFiles]:
        """What is told of records that waited in quarantine and have another place now."""
        tried = within(self.todo.waiting.places, without(self.todo.wanted, stays))
        rows = self.todo.waiting.to_resolve()
        rows = rows.filter(are_in(rows, PLACE, tried))
        if not rows.num_rows:
            return []
        waiting = of_rows(rows, PLACE)
        texts = {
            folder: _texts(within(waiting, self._placed_in(manifest, folder)))
            for folder in (table.folder for table in manifest.tables if table.role == "events")
        }
        found = self._with_resolved(None, rows, texts, {})
        return [] if found.manifest is None else list(found.manifest.tables)

    def _placed_in(self, manifest: Manifest, folder: str) -> Places:
        files = [
            WrittenFile("", one, manifest.table(folder).layout)
            for part in manifest.table(folder).parts.values()
            for one in part
        ]
        return self._placed(files)

    def _parts(self, one: WrittenFile, columns: pa.Schema) -> Iterator[pa.Table]:
        file = one.file
        root = self.attempts.run.root
        data = DataColumns(root.below(file.table), file.name, file.bytes, dict(file.partition))
        for number, _, _ in data.groups():
            yield data.read(number, columns)


def _is_one_row_each(report: TaskReport, records: int) -> bool:
    """Whether so many records are one row each: none is let go, and so many rows there are. Otherwise the rows have to be asked which they are of."""
    return not report.counts.dropped.total() and sum(report.counts.rows.values()) == records


def _counted(some: Mapping[str, Places]) -> dict[str, int]:
    return {name: number for name, places in some.items() if (number := count(places))}


def deleted_open(root: Files, whose: Whose, some: Places) -> Places:
    """Those of some that were deleted from a pipeline's quarantine, or erased there, while they waited in it."""
    done = resolved_identities(root, whose)
    # Behind that, as upkeep keeps it before it lets go what tells of them.
    before = joined({partition: offsets} for partition, offsets in let_go(root, whose))
    gone = [
        without_resolved(part, within({part[2:]: offsets}, some), done)
        for table, one in all_gone(root, whose)
        if table == QUARANTINE_TABLE
        for part, offsets in one.parts.items()
    ]
    return without(joined(gone), before)


def without_resolved(part: Part, places: Places, done: pa.Array) -> Places:
    """Those of some rows of quarantine, of one batch and partition, that were not brought back: what was may have lost its row since."""
    found = {}
    for partition, offsets in places.items():
        names = pa.array(["/".join(map(str, (*part, offset))) for offset in offsets.tolist()], TEXT)
        mine = offsets[~np.asarray(pc.is_in(names, done), dtype=bool)]
        if len(mine):
            found[partition] = mine
    return found


def _texts(places: Mapping[Partition, Any]) -> pa.Array:
    """As the places of rows in quarantine are told."""
    return pa.array(
        [
            f"{topic}/{number}/{offset}"
            for (topic, number), offsets in places.items()
            for offset in offsets.tolist()
        ],
        pa.string(),
    )
