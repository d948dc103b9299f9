"""What tables say of the checkpoints that filled them, and where a new checkpoint goes on from that if no log can tell.

Each commit carries its generation, its batch and the offsets of the batch. The batch ledger is committed last, so
its newest row says how far all tables are complete. A table with a newer commit has rows beyond that, of a batch that
a crash left half committed: those records are left out, of all tables, since the second reading may lead them elsewhere than the first.

Only one lineage counts, the one that has the tables: what was read before somebody said `start: again` says nothing about where to go on.
"""

from __future__ import annotations

import json
import logging
from array import array
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from distributary.errors import PipelineError
from distributary.ingest.bronze.rule import KEEPS_PROPERTY
from distributary.ingest.checkpoint.generation import Start, app_of
from distributary.ingest.columns.safe_names import BATCHES_TABLE, CHANGES_TABLE, QUARANTINE_TABLE
from distributary.ingest.kafka.offset_spans import stretches_of
from distributary.ingest.kafka.offsets import (
    Offsets,
    Positions,
    ends,
    highest,
    lowest,
    offsets_from_json,
    starts,
)
from distributary.ingest.merge.columns import at_once
from distributary.ingest.parquet.data_file import generation_mark, owner
from distributary.ingest.settings.groups import Columns
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import At, files_at
from distributary.ingest.tables.handle import is_there, opened
from distributary.ingest.tables.known import TableBook
from distributary.ingest.tables.ledger import batches_of
from distributary.ingest.tables.log import commit_info, commit_of, tables_under
from distributary.ingest.tables.state import table_folder
from distributary.ingest.tables.transaction import BATCH, GENERATION, LINEAGE, OFFSETS, told_by
from distributary.values import without_logins

_log = logging.getLogger(__name__)

_PLACE = ["topic", "partition", "offset"]

_PLACE_SCHEMA = pa.schema(zip(_PLACE, (pa.string(), pa.int32(), pa.int64()), strict=True))

# Long enough to reach back over maintenance to the last commit of ours.
_COMMITS_LOOKED_AT = 1000

_ROWS_AT_ONCE = 8192


@dataclass(frozen=True, slots=True)
class EarlierCommit:
    """A commit that some checkpoint made to a table, `at` milliseconds since the epoch."""

    table: str
    generation: str
    lineage: str
    batch_id: int
    offsets: Offsets
    at: int


def earlier_commits(
    root: At, passing: Container[str] = (), may_fail: Container[str] = ()
) -> list[EarlierCommit]:
    """The commits of ours in each table under the root, newest first, as far as they are looked at; none of those passed by.

    Of those of batches that the ledger has only the newest of each generation: the others tell nothing more, and are thousands a table. Raises
    PipelineError for a table that cannot be read, unless it `may_fail`, as that of another pipeline may, and is passed by then.
    """
    files = files_at(root)
    wanted = [table for table in tables_under(files) if table not in passing]
    done = _done(files)
    found = list[EarlierCommit]()
    for table in wanted:
        try:
            found += _telling(files, table, done)
        except PipelineError as error:
            if table not in may_fail:
                raise
            _log.warning("%s", error)
    return found


def untold(root: At, commits: Sequence[EarlierCommit], newest: Mapping[str, tuple[str, int]]) -> list[str]:
    """The tables of whose newest batch, by generation and number, neither the ledger nor these commits tell which records it had."""
    batches = ((table, *batch) for table, batch in newest.items())
    return [table for table, _, _ in _untold(root, commits, batches)]


def in_quarantine(
    tables: TableBook, commits: Sequence[EarlierCommit], lineages: Mapping[str, str]
) -> list[EarlierCommit]:
    """The newest batches of these generations, each with its lineage, in the quarantine, of which neither the ledger nor these commits tell.

    Others under the root commit there, too, and may have done so a thousand times since. Raises PipelineError where nobody can tell.
    """
    if not is_there(tables.place(QUARANTINE_TABLE)):
        return []
    batches = [
        (QUARANTINE_TABLE, generation, newest)
        for generation in lineages
        if (newest := tables.newest_batch(QUARANTINE_TABLE, app_of(generation, QUARANTINE_TABLE))) is not None
    ]
    return [
        EarlierCommit(table, generation, lineages[generation], number, {}, 0)
        for table, generation, number in _untold(tables.root, commits, batches)
    ]


def _untold(
    root: At, commits: Sequence[EarlierCommit], batches: Iterable[tuple[str, str, int]]
) -> list[tuple[str, str, int]]:
    """Those of these batches, each by table, generation and number, of which neither the ledger nor these commits tell."""
    done = _done(files_at(root))
    told = {(commit.table, commit.generation, commit.batch_id) for commit in commits}
    return [one for one in batches if one[1:] not in done and one not in told]


def without_owners(
    root: At, commits: Sequence[EarlierCommit], pipeline: str, known: AbstractSet[str]
) -> list[EarlierCommit]:
    """The commits that may be this pipeline's, of checkpoints from before tables had owners.

    known  the generations and lineages that have, or had, tables by those records
    """
    others = known | {
        generation for generation, name in _pipelines(files_at(root)).items() if name != pipeline
    }
    return [commit for commit in commits if others.isdisjoint((commit.generation, commit.lineage))]


def newest_in_ledger(commits: Sequence[EarlierCommit]) -> EarlierCommit | None:
    """The newest of them in the ledger, whose versions tell the order; no clock does."""
    return next((commit for commit in commits if commit.table == BATCHES_TABLE), None)


def after_lineage(
    root: At,
    commits: Sequence[EarlierCommit],
    lineage: str,
    columns: Columns | None = None,
    generations: AbstractSet[str] = frozenset(),
) -> Start:
    """Where a checkpoint starts that goes on with a reading of the topics of which tables alone can tell.

    A record that any table has of a batch which is not in all of them is left out everywhere, whatever would become of it now. `columns`
    are those by which tables say which records they have, `generations` those of the lineage that are known, of which the ledger tells when no log
    does any more; the first of them has its name.
    """
    commits = [commit for commit in commits if commit.lineage == lineage]
    done, complete = _complete_batches(
        files_at(root), {lineage, *generations, *(commit.generation for commit in commits)}
    )
    beyond = [commit for commit in commits if (commit.generation, commit.batch_id) not in done]
    begins = complete
    if begins is None and beyond:
        begins = lowest(*(starts(commit.offsets) for commit in beyond))
    already: dict[str, Positions] = {}
    placed: list[pa.Table] = []
    for commit in beyond:
        # It has all of a batch or nothing, and says nothing of where else a record is.
        keeps = _keeps(files_at(root), commit.table)
        found = None if keeps else _records(files_at(root), commit, columns or Columns())
        if found is None:
            already[commit.table] = highest(already.get(commit.table, {}), ends(commit.offsets))
        else:
            placed.append(found)
    return Start("from_tables", begins, already, lineage, placed=_stretches(placed))


def read_by(root: At, generations: Container[str]) -> Positions:
    """Where the newest batch of the last of these generations ends, as the rows of the ledger say: one that read all again may have read less."""
    newest: dict[str, tuple[int, str, str]] = {}
    for row in _ledger(files_at(root), ["generation", "batch_id", "started_at", "offsets"]):
        generation, number = row["generation"], row["batch_id"]
        if generation in generations and number >= newest.get(generation, (number,))[0]:
            newest[generation] = (number, str(row.get("started_at") or ""), row["offsets"])
    if not newest:
        return {}
    _, _, read = max(newest.values(), key=itemgetter(1))
    return ends(offsets_from_json(json.loads(read)))


def topics_read(root: At, pipeline: str, known: AbstractSet[str]) -> dict[str, set[str]]:
    """The topics of which the ledger has batches of a pipeline, by their generations, but for those that are known."""
    found: dict[str, set[str]] = {}
    for row in _ledger(files_at(root), ["pipeline", "generation", "offsets"]):
        if row["pipeline"] == pipeline and row["generation"] not in known:
            found.setdefault(row["generation"], set()).update(json.loads(row["offsets"]))
    return found


def positions_had(root: At, generations: Mapping[str, AbstractSet[str]]) -> dict[str, Positions]:
    """How far the topics were read of which tables may have rows: by their folders, each with the generations that have or had it.

    As the ledger says, and the commits of the tables themselves, which tell of generations from before tables had owners, too.
    """
    files = files_at(root)
    reached = _reached(_ledger(files, _READ))
    found: dict[str, Positions] = {}
    for folder, of in generations.items():
        commits = list(_telling(files, folder, ()))
        mine = {*of, *(commit.generation for commit in commits)}
        own = [reached[one] for one in sorted(mine & reached.keys())]
        found[folder] = highest(*own, *(ends(commit.offsets) for commit in commits))
    return found


def _keeps(root: Files, table: str) -> bool:
    """Whether a table keeps records as they came. Raises OSError where that cannot be told just now."""
    try:
        return KEEPS_PROPERTY in opened(root.below(table)).metadata().configuration
    except DeltaError:
        return False


def _records(root: Files, commit: EarlierCommit, columns: Columns) -> pa.Table | None:
    """The places in Kafka of the records that a commit has brought to a table, of an entity or the quarantine.

    By its files, which stay after a row is deleted from the table; None where nobody can tell any more, as some were compacted.
    Raises OSError where they cannot be read just now.
    """
    if commit.table in (BATCHES_TABLE, CHANGES_TABLE):
        return None
    table = root.below(commit.table)
    quarantine = commit.table == QUARANTINE_TABLE
    role, place = ("quarantine", Columns()) if quarantine else ("events", columns)
    names = [place.kafka_topic, place.kafka_partition, place.kafka_offset]
    try:
        app_id = f"{commit.generation}/{role}"
        found = commit_of(table, _newest_version(table), app_id, commit.batch_id)
        if found is not None:
            mine = ((name, values) for name, values in sorted(found[1].items()) if _is_of(name, commit))
            parts = [_columns_of(table.read(name), names, values) for name, values in mine]
            return pa.concat_tables([_PLACE_SCHEMA.empty_table(), *parts])
        if quarantine:
            return _in_quarantine(table, commit, names)
    # Any other error, as of a store that does not answer, says nothing of what is there: the start is to be tried again.
    except (FileNotFoundError, pa.ArrowException) as error:
        why = str(error)
    else:
        why = "its commit is not in the log any more"
    _log.warning(
        "table %s: which records of batch %s it has cannot be told (%s). It is taken to have all that would go there now: one whose schema was "
        "registered meanwhile may be lost or doubled",
        *(commit.table, commit.batch_id, why),
    )
    return None


def _in_quarantine(table: Files, commit: EarlierCommit, names: list[str]) -> pa.Table:
    """The places of the records that are there of a batch: these rows say themselves whose they are."""
    rows = opened(table)
    mine = (pc.field("generation") == commit.generation) & (pc.field("batch_id") == commit.batch_id)
    return _places(
        rows.to_pyarrow_dataset(filesystem=table_folder(rows)).to_table(columns=names, filter=mine)
    )


def _is_of(name: str, commit: EarlierCommit) -> bool:
    """Whether a file may be of a commit's batch: one that rows take the place of others by names the files of those, too."""
    made_for = owner(name)
    mine = made_for is None or made_for[0] == generation_mark(commit.generation)
    return mine and (made_for is None or made_for[1] >= commit.batch_id)


def _columns_of(data: bytes, names: list[str], values: Mapping[str, str | None]) -> pa.Table:
    """The columns of a file that say where records stand, as `_PLACE_SCHEMA` calls them. Raises ArrowException where it has none.

    `values` are those of its partition: what a table is in partitions by, if by another hand, its files have not.
    """
    lacking = values.keys() - set(pq.read_schema(pa.BufferReader(data)).names)
    found = pq.read_table(pa.BufferReader(data), columns=[name for name in names if name not in lacking])
    for name in lacking.intersection(names):
        found = found.append_column(name, pa.array([values[name]] * found.num_rows, pa.string()))
    return _places(found.select(names))


def _places(found: pa.Table) -> pa.Table:
    return found.rename_columns(_PLACE).cast(_PLACE_SCHEMA)


def _newest_version(table: Files) -> int:
    entries = [name for name in table.names("_delta_log") if name.endswith(".json") and name[:20].isdigit()]
    return int(max(entries, default="-1")[:20])


def _stretches(placed: Sequence[pa.Table]) -> dict[str, dict[int, list[tuple[int, int]]]]:
    """The stretches that records at these places make."""
    found: dict[str, dict[int, list[tuple[int, int]]]] = {}
    whole = pa.concat_tables([*placed, _PLACE_SCHEMA.empty_table()])
    for topic in whole["topic"].unique().to_pylist():
        of_topic = whole.filter(pc.equal(whole["topic"], topic))
        for number in of_topic["partition"].unique().to_pylist():
            offsets = of_topic.filter(pc.equal(of_topic["partition"], number))["offset"]
            found.setdefault(topic, {})[number] = stretches_of(offsets.to_numpy())
    return found


def _pipelines(root: Files) -> dict[str, str]:
    """The name of each generation's pipeline, as the ledger has it."""
    rows = _ledger(root, ["generation", "pipeline"])
    return {row["generation"]: row["pipeline"] for row in rows}


def _ledger(root: Files, columns: list[str]) -> Iterator[dict[str, Any]]:
    """These columns of the ledger, as far as it has them: row by row, as there may be one for each batch of years."""
    table = root.below(BATCHES_TABLE)
    if not is_there(table):
        return
    ledger = opened(table)
    there = {part.name for part in ledger.schema().fields}
    batches = ledger.to_pyarrow_dataset(filesystem=table_folder(ledger)).to_batches(
        columns=[name for name in columns if name in there],
        batch_size=_ROWS_AT_ONCE,
        batch_readahead=1,
        fragment_readahead=1,
    )
    for batch in batches:
        yield from batch.to_pylist()


_NUMBERS = ["generation", "batch_id", "first_batch_id"]

_READ = ["generation", "offsets"]


class Done:
    """The batches of which rows of the ledger tell; of old ones one row tells of many."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        told: dict[str, array[int]] = {}
        for row in rows:
            numbers = batches_of(row["batch_id"], row.get("first_batch_id"))
            told.setdefault(row["generation"], array("q")).extend((numbers[0], numbers[-1]))
        # By generation, ascending; none touches another.
        self._stretches = {
            generation: _joined(np.array(them).reshape(-1, 2)) for generation, them in told.items()
        }

    def __contains__(self, batch: object) -> bool:
        if not isinstance(batch, tuple) or batch[0] not in self._stretches:
            return False
        stretches = self._stretches[batch[0]]
        place = int(np.searchsorted(stretches[:, 0], batch[1], side="right")) - 1
        return place >= 0 and bool(batch[1] <= stretches[place, 1])


def _joined(pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Stretches from a first to a last number, with those that touch as one."""
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    reached = np.maximum.accumulate(pairs[:, 1])
    begins = np.flatnonzero(np.concatenate([[True], pairs[1:, 0] > reached[:-1] + 1]))
    return np.stack([pairs[begins, 0], np.maximum.reduceat(pairs[:, 1], begins)], axis=1)


def _done(root: Files) -> Done:
    return Done(_ledger(root, _NUMBERS))


def _complete_batches(root: Files, generations: AbstractSet[str]) -> tuple[Done, Positions | None]:
    """The batches that the ledger has of these generations, and how far they reach; None where it has none."""
    done = Done(row for row in _ledger(root, _NUMBERS) if row["generation"] in generations)
    reached = _reached(row for row in _ledger(root, _READ) if row["generation"] in generations)
    return done, highest(*reached.values()) if reached else None


def _reached(rows: Iterable[Mapping[str, Any]]) -> dict[str, Positions]:
    """How far each generation has read, as these rows of the ledger say."""
    found: dict[str, Positions] = {}
    for row in rows:
        read = ends(offsets_from_json(json.loads(row["offsets"])))
        found[row["generation"]] = highest(found.get(row["generation"], {}), read)
    return found


def _telling(root: Files, table: str, done: Container[tuple[str, int]]) -> Iterator[EarlierCommit]:
    met: set[str] = set()
    for info in _history(root.below(table)):
        told = told_by(info)
        if GENERATION in told:
            if (told[GENERATION], int(told[BATCH])) in done and told[GENERATION] in met:
                continue
            met.add(told[GENERATION])
            offsets = offsets_from_json(json.loads(told[OFFSETS]))
            at = int(info.get("timestamp", 0))
            yield EarlierCommit(table, told[GENERATION], told[LINEAGE], int(told[BATCH]), offsets, at)


def _history(table: Files) -> Sequence[Mapping[str, Any]]:
    """Raises PipelineError where nobody can tell, and OSError while a store does not answer."""
    try:
        if table.remote:
            # delta-rs keeps the interpreter until a store has given all of it: no sign of life and no signal gets through.
            return _history_in_log(table, _COMMITS_LOOKED_AT)
        try:
            # Below a folder with a # or a ? in its name delta-rs reads a table, and yet tells of no commit.
            return opened(table).history(_COMMITS_LOOKED_AT) or _history_in_log(table)
        except DeltaError:
            return _history_in_log(table)
    except (OSError, ValueError, TypeError, LookupError) as error:
        # Of a store that does not answer it says nothing: the start is to be tried again.
        if table.remote and isinstance(error, OSError):
            raise
        raise PipelineError(
            f"table {table} cannot be read ({without_logins(str(error))}), and without its log nobody can tell which records it has: have what was "
            "done to it taken back, or restore it from a copy; or move its folder away, and what it had is gone with it"
        ) from error


def _history_in_log(files: Files, most: int | None = None) -> list[Mapping[str, Any]]:
    """The commits of a table, whether or not delta-rs can open it, newest first; so many of them at most."""
    log = [name for name in files.names("_delta_log") if name.endswith(".json")][::-1]
    found = at_once(files, lambda name: _told_in(files, f"_delta_log/{name}"), log[:most])
    return [told for entry in found for told in entry]


def _told_in(files: Files, entry: str) -> list[Mapping[str, Any]]:
    """What a commit says of itself. Of a thousand of them all the rest would be much to hold."""
    actions = (json.loads(line) for line in _lines(files, entry))
    info = commit_info(actions)
    return [info] if info else []


def _lines(files: Files, entry: str) -> list[bytes]:
    try:
        return files.read(entry).splitlines()
    except FileNotFoundError:
        # Cleaned up since the log was listed, as an old one.
        return []
