"""What tables say of the checkpoints that filled them, and where a new checkpoint goes on from that.

Each commit carries its generation, its batch and the offsets of the batch. The batch ledger is committed last, so
its newest row says how far all tables are complete. A table with a newer commit has rows beyond that, of a batch that
a crash left half committed: those offsets are left out of that table, and of that table only.

Only the newest lineage counts: what was read before somebody said `start: again` says nothing about where to go on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from deltalake.exceptions import DeltaError

from distributary.errors import TablesOfAnotherRun
from distributary.ingest.checkpoint.generation import Start
from distributary.ingest.columns.table_and_column_names import BATCHES_TABLE
from distributary.ingest.kafka.offsets import Offsets, Positions, ends, offsets_from_json, starts
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.handle import is_there, opened
from distributary.ingest.tables.log import has_log
from distributary.ingest.tables.state import table_folder

GENERATION, LINEAGE = "distributary.generation", "distributary.lineage"

BATCH, OFFSETS = "distributary.batch_id", "distributary.offsets"

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


def earlier_commits(root: str) -> list[EarlierCommit]:
    """The newest commit of ours in each table under the root, and those before it of the same batch and later ones."""
    return [commit for table in _tables(root) for commit in _unfinished(root, table)]


def start_from(root: str, mode: str, commits: Sequence[EarlierCommit]) -> Start:
    """Where a new checkpoint starts. Raises TablesOfAnotherRun where the user has to choose."""
    if not commits or mode == "again":
        return Start("again" if mode == "again" else "resume")
    if mode != "from_tables":
        tables = sorted({commit.table for commit in commits})
        raise TablesOfAnotherRun(
            f"tables in {root} ({', '.join(tables[:3])}{', ...' if len(tables) > 3 else ''}) were filled from another "
            "checkpoint, and this one is new. Point `checkpoint` back at that one; or set `start: from_tables` to go on "
            "from the offsets that the tables keep; or `start: again` to ingest everything once more"
        )
    return _from_tables(root, commits)


def _from_tables(root: str, commits: Sequence[EarlierCommit]) -> Start:
    lineage = max(commits, key=lambda commit: commit.at).lineage
    commits = [commit for commit in commits if commit.lineage == lineage]
    done, complete = _complete_batches(root, {commit.generation for commit in commits})
    beyond = [commit for commit in commits if (commit.generation, commit.batch_id) not in done]
    begins = complete
    if begins is None:
        begins = _lowest([starts(commit.offsets) for commit in beyond])
    already: dict[str, Positions] = {}
    for commit in beyond:
        already[commit.table] = _highest([already.get(commit.table, {}), ends(commit.offsets)])
    return Start("from_tables", begins, already, lineage)


def _complete_batches(
    root: str, generations: AbstractSet[str]
) -> tuple[set[tuple[str, int]], Positions | None]:
    """The batches that the ledger has of these generations, and how far they reach; None where it has none."""
    path = f"{root}/{BATCHES_TABLE}"
    if not is_there(path):
        return set(), None
    columns = ["generation", "batch_id", "offsets"]
    ledger = opened(path)
    every = ledger.to_pyarrow_table(columns=columns, filesystem=table_folder(ledger)).to_pylist()
    rows = [row for row in every if row["generation"] in generations]
    reached = [ends(offsets_from_json(json.loads(row["offsets"]))) for row in rows]
    return {(row["generation"], row["batch_id"]) for row in rows}, _highest(reached) if reached else None


def _tables(root: str) -> list[str]:
    # Hidden: a table that `distributary resolve` put aside is none any more.
    folders = (folder for folder in files_at(root).folders() if not folder.startswith("."))
    return [folder for folder in folders if has_log(f"{root}/{folder}")]


def _unfinished(root: str, table: str) -> Iterator[EarlierCommit]:
    for info in _history(f"{root}/{table}"):
        told = _told(info)
        if told is not None:
            offsets = offsets_from_json(json.loads(told[OFFSETS]))
            at = int(info.get("timestamp", 0))
            yield EarlierCommit(table, told[GENERATION], told[LINEAGE], int(told[BATCH]), offsets, at)


def _history(path: str) -> Sequence[Mapping[str, Any]]:
    try:
        return opened(path).history(_COMMITS_LOOKED_AT)
    except DeltaError:
        return _history_on_disk(path)


def _history_on_disk(path: str) -> list[Mapping[str, Any]]:
    """The commits of a table that delta-rs cannot open, newest first."""
    files = files_at(path)
    log = [info.path for info in files.list("_delta_log") if info.name.endswith(".json")]
    entries = (json.loads(line) for name in reversed(log) for line in files.read(name).splitlines())
    return [entry["commitInfo"] for entry in entries if "commitInfo" in entry]


def _told(info: Mapping[str, Any]) -> Mapping[str, str] | None:
    """What a commit says of itself: delta-rs keeps it beside its own fields, Spark as JSON text."""
    if GENERATION in info:
        return info
    try:
        told = json.loads(info.get("userMetadata") or "null")
    except ValueError:
        return None
    return told if isinstance(told, dict) and GENERATION in told else None


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
