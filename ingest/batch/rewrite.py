"""Files of a decided batch that have gone since: written again from the batch's records and its manifest's pins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from distributary.errors import CheckpointMismatch, CommitImpossible, SumsDisagree
from distributary.ingest.batch.passes import Workers, discard
from distributary.ingest.batch.sweep import sweep
from distributary.ingest.checkpoint import manifest_pins as decisions
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.manifest import Manifest, TableFiles
from distributary.ingest.checkpoint.manifest_json import RewrittenFiles, rewritten_to_json
from distributary.ingest.checkpoint.manifests import rewritten_of
from distributary.ingest.checkpoint.stuck import Resolutions, StuckCommits
from distributary.ingest.commit_log.entries import Rewritten
from distributary.ingest.commit_log.followed import Followed
from distributary.ingest.commit_log.reading import CommitLog
from distributary.ingest.commit_log.writing import written
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.pins import Pins, by_age
from distributary.ingest.tables.known import TableBook
from distributary.ingest.tables.transaction import is_in


class Rewriter:
    """Puts new files in the place of lost ones; the manifest itself stays as it was written."""

    def __init__(self, log: CommitLog, following: Followed, tables: TableBook, workers: Workers) -> None:
        self._log, self._following, self._tables, self._workers = log, following, tables, workers
        self._checkpoint = Checkpoint(log.files)

    def restored(  # noqa: PLR0913, PLR0917 - what was decided, how it is read again, and who is left alone
        self,
        manifest: Manifest,
        rewritten: Sequence[Rewritten],
        records: DataFrame,
        pins: Pins,
        still_as_read: Callable[[], None],
        unread: Collection[str] = (),
    ) -> Manifest:
        """The manifest with files that are there; `rewritten` is what was written again before, and `unread` are tables that nobody is to ask.

        `still_as_read` raises CheckpointMismatch where the records may be those of a topic that was made anew. Raises SumsDisagree if
        what was written again is not the same, CheckpointMismatch if it would not be because a schema that the batch was decided by
        cannot be used any more, PipelineError where nobody can tell whether a table has the batch already, Fenced where it failed since
        another run has begun.
        """
        for entry in rewritten:
            manifest = self._taken(manifest, entry, pins)
        skipped = Resolutions(self._checkpoint).skipped(manifest.batch_id).union(unread)
        lost = {
            folder: table
            for table in manifest.tables
            if table.folder not in skipped
            for folder in _lost(self._tables, table, manifest.batch_id)
        }
        if not lost:
            return manifest
        try:
            _check_schemas(manifest, pins, lost)
            found = self._write_again(manifest, records, pins, lost)
            # Once all records were read: what a topic was when the query began says nothing of them.
            still_as_read()
        except Exception:
            # Of a run that stood still while others went on the files were swept, and it has nothing to ask for.
            self._following.confirm()
            self._let_decide(manifest, lost)
            raise
        return self._taken(manifest, written(self._following).rewrite(rewritten_to_json(found)), pins)

    def _taken(self, manifest: Manifest, entry: Rewritten, pins: Pins) -> Manifest:
        """The manifest with the files of an entry, and no others of its number that attempts of this run left behind.

        Of an earlier run's numbers all is swept together, once the batch is finished.
        """
        files = rewritten_of(entry, self._log)
        if entry.number > written(self._following).start.number:
            named = {file.name for found in files.values() for file in found}
            made_for = range(entry.number, entry.number + 1)
            sweep(pins.batch.root, pins.batch.generation, [made_for], named)
        return _with_files(manifest, files)

    def _let_decide(self, manifest: Manifest, lost: Mapping[str, TableFiles]) -> None:
        """Note that tables wait for files that may never be there again: the records may be gone from Kafka, too."""
        why = f"batch {manifest.batch_id}: files of {', '.join(sorted(lost))} are gone, and they were not written again"
        # Of what remembers deletes its table is who waits.
        tables = sorted({table.folder for table in lost.values()})
        StuckCommits(self._checkpoint).write(manifest.batch_id, CommitImpossible(why, tuple(tables)))

    def _write_again(
        self, manifest: Manifest, records: DataFrame, pins: Pins, lost: Mapping[str, TableFiles]
    ) -> RewrittenFiles:
        replayed = decisions.from_manifest(manifest, pins)
        _require_headers(manifest, replayed, records)
        # Topics may have come and gone since.
        replayed = replace(replayed, rules=replace(replayed.rules, topics=tuple(manifest.offsets)))
        report = self._workers.run(self._workers.columns(records, replayed), replayed)
        discard(pins.batch.root, report, keep=lost.__contains__)
        found = {
            folder: tuple(written.file for written in report.files.written if written.file.table == folder)
            for folder in lost
        }
        wrong = [f for f, table in lost.items() if _rows(found[f]) != _rows(table.parts[f])]
        if wrong:
            raise SumsDisagree(
                f"batch {manifest.batch_id}: files of {', '.join(sorted(wrong))} are gone and cannot be written again just "
                "the same; let `distributary resolve` decide"
            )
        pins.batch.root.sync(f"{file.table}/{file.name}" for files in found.values() for file in files)
        return found


def _check_schemas(manifest: Manifest, pins: Pins, lost: Mapping[str, TableFiles]) -> None:
    """Raises CheckpointMismatch where lost files may have rows of record types that nothing can decode here any more."""
    keys, values = decisions.undecodable(manifest, pins)
    concerned = [
        folder
        for folder, table in lost.items()
        # Whatever cannot be decoded would come to quarantine, and a key's text may be in every table but of records as they came.
        if table.role != "bronze"
        if keys
        or values.intersection(
            values if table.role == "quarantine" else manifest.met.get(table.folder, values)
        )
    ]
    if concerned:
        names = ", ".join(dict.fromkeys(str(ref) for ref, _ in sorted(keys | values, key=by_age)))
        raise CheckpointMismatch(
            f"batch {manifest.batch_id}: files of {', '.join(sorted(concerned))} are gone, and what was in them needs a schema "
            f"that this version of distributary cannot use ({names}). Nothing was committed: run once with version "
            f"{manifest.code_version}, which wrote them, until the batch is done, or restore the files"
        )


def _require_headers(manifest: Manifest, pins: Pins, records: DataFrame) -> None:
    """Raises CheckpointMismatch where files had headers of records, which are not read any more."""
    if pins.rules.tables.beside.every_header and "headers" not in records.columns:
        what = "`bronze`" if pins.rules.tables.kept else "`policies.quarantine_headers`"
        raise CheckpointMismatch(
            f"batch {manifest.batch_id}: files are gone and are to be written again with headers of records, and {what} is in the settings no "
            "more: give it back until that batch is done, or restore the files"
        )


def _with_files(manifest: Manifest, files: RewrittenFiles) -> Manifest:
    return replace(manifest, tables=tuple(table.with_parts(files) for table in manifest.tables))


def _rows(files: Iterable[DataFile]) -> int:
    return sum(file.rows for file in files)


def _lost(tables: TableBook, table: TableFiles, batch_id: int) -> list[str]:
    """The folders of which files are gone that the table has yet to take: Spark's writer takes rows over into files of its own."""
    if table.role not in ("events", "quarantine", "bronze"):
        return []
    gone = [folder for folder, files in table.parts.items() if not _are_there(tables, folder, files)]
    # Each by itself: what remembers deletes has them before the table, and may have been put back alone.
    return [folder for folder in gone if not is_in(tables.newest_batch(folder, table.app_id), batch_id)]


def _are_there(tables: TableBook, folder: str, files: Sequence[DataFile]) -> bool:
    place = tables.place(folder)
    found = [place.info(file.name) for file in files]
    return [info and info.size for info in found] == [file.bytes for file in files]
