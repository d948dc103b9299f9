"""What tables say of the checkpoints that filled them, and where a new checkpoint goes on from that if no log can tell.

Each commit carries its generation, its batch and the offsets of the batch. The batch ledger is committed last, so
its newest row says how far all tables are complete. A table with a newer commit has rows beyond that, of a batch that
a crash left half committed: those offsets are left out of that table, and of that table only.

Only one lineage counts, the one that has the tables: what was read before somebody said `start: again` says nothing about where to go on.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from deltalake.exceptions import DeltaError

from distributary.ingest.checkpoint.generation import Start
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.kafka.offsets import Offsets, Positions, ends, offsets_from_json, starts
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import At, files_at
from distributary.ingest.tables.handle import is_there, opened
from distributary.ingest.tables.log import tables_under
from distributary.ingest.tables.state import table_folder
from distributary.ingest.tables.transaction import BATCH, GENERATION, LINEAGE, OFFSETS, told_by

# Long enough to reach back over maintenance to the last commit of ours.
_COMMITS_LOOKED_AT = 1000


@dataclass(frozen=True, slots=True)
class EarlierCommit:
    """A commit that some checkpoint made to a table, `at` milliseconds since the epoch."""

    table: str
    generation: str
    lineage: str
    batch_id: int
    offsets: Offsets
    at: int


def earlier_commits(root: At, passing: Container[str] = ()) -> list[EarlierCommit]:
    """The commits of ours in each table under the root, newest first, as far as they are looked at; none of those passed by."""
    files = files_at(root)
    wanted = [table for table in tables_under(files) if table not in passing]
    return [commit for table in wanted for commit in _unfinished(files, table)]


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


def after_lineage(root: At, commits: Sequence[EarlierCommit], lineage: str) -> Start:
    """Where a checkpoint starts that goes on with a reading of the topics of which tables alone can tell."""
    commits = [commit for commit in commits if commit.lineage == lineage]
    done, complete = _complete_batches(files_at(root), {commit.generation for commit in commits})
    beyond = [commit for commit in commits if (commit.generation, commit.batch_id) not in done]
    begins = complete
    if begins is None and beyond:
        begins = _lowest([starts(commit.offsets) for commit in beyond])
    already: dict[str, Positions] = {}
    for commit in beyond:
        already[commit.table] = _highest([already.get(commit.table, {}), ends(commit.offsets)])
    return Start("from_tables", begins, already, lineage)


def _pipelines(root: Files) -> dict[str, str]:
    """The name of each generation's pipeline, as the ledger has it."""
    rows = _ledger(root, ["generation", "pipeline"])
    return {row["generation"]: row["pipeline"] for row in rows}


def _ledger(root: Files, columns: list[str]) -> list[dict[str, Any]]:
    table = root.below(BATCHES_TABLE)
    if not is_there(table):
        return []
    ledger = opened(table)
    rows: list[dict[str, Any]] = ledger.to_pyarrow_table(
        columns=columns, filesystem=table_folder(ledger)
    ).to_pylist()
    return rows


def _complete_batches(
    root: Files, generations: AbstractSet[str]
) -> tuple[set[tuple[str, int]], Positions | None]:
    """The batches that the ledger has of these generations, and how far they reach; None where it has none."""
    every = _ledger(root, ["generation", "batch_id", "offsets"])
    rows = [row for row in every if row["generation"] in generations]
    reached = [ends(offsets_from_json(json.loads(row["offsets"]))) for row in rows]
    return {(row["generation"], row["batch_id"]) for row in rows}, _highest(reached) if reached else None


def _unfinished(root: Files, table: str) -> Iterator[EarlierCommit]:
    for info in _history(root.below(table)):
        told = told_by(info)
        if GENERATION in told:
            offsets = offsets_from_json(json.loads(told[OFFSETS]))
            at = int(info.get("timestamp", 0))
            yield EarlierCommit(table, told[GENERATION], told[LINEAGE], int(told[BATCH]), offsets, at)


def _history(table: Files) -> Sequence[Mapping[str, Any]]:
    try:
        # Below a folder with a # or a ? in its name delta-rs reads a table, and yet tells of no commit.
        return opened(table).history(_COMMITS_LOOKED_AT) or _history_on_disk(table)
    except DeltaError:
        return _history_on_disk(table)


def _history_on_disk(files: Files) -> list[Mapping[str, Any]]:
    """The commits of a table that delta-rs cannot open, newest first."""
    log = [name for name in files.names("_delta_log") if name.endswith(".json")]
    entries = (json.loads(line) for name in reversed(log) for line in _lines(files, f"_delta_log/{name}"))
    return [entry["commitInfo"] for entry in entries if "commitInfo" in entry]


def _lines(files: Files, entry: str) -> list[bytes]:
    try:
        return files.read(entry).splitlines()
    except FileNotFoundError:
        # Cleaned up since the log was listed, as an old one.
        return []


def _highest(positions: Sequence[Positions]) -> Positions:
    return _merged(positions, max)


def _lowest(positions: Sequence[Positions]) -> Positions:
    return _merged(positions, min)


def _merged(positions: Sequence[Positions], choose: Any) -> Positions:
    found: Positions = {}
    for one in positions:
        for topic, partitions in one.items():
            kept = found.setdefault(topic, {})
            for partition, offset in partitions.items():
                kept[partition] = choose(kept[partition], offset) if partition in kept else offset
    return found
