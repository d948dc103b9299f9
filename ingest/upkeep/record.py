"""What is old in the record goes, as `sink.keep` says: batches of the ledger become one row a day, changes and quarantined records are deleted.

The ledger comes first: it says how many rows of a batch may be gone from quarantine before any is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cached_property

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyarrow import dataset

from distributary.ingest.columns.safe_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    QUARANTINE_TABLE,
    RESOLVED_TABLE,
)
from distributary.ingest.commit_log.owners import Whose
from distributary.ingest.parquet.data_file import generation_mark
from distributary.ingest.settings.groups import Keep
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log import has_log
from distributary.ingest.tables.state import state_of, table_folder
from distributary.ingest.upkeep import ledger_days
from distributary.ingest.upkeep.compaction import ATTEMPTS, NO_HOOKS, fault, sync
from distributary.ingest.upkeep.ledger_days import Bounds, Row, Span
from distributary.ingest.upkeep.light_rows import LightRows
from distributary.ingest.upkeep.replayed import (
    and_replays,
    begun_before,
    replays_before,
    replays_of,
    tell_together,
)
from distributary.ingest.upkeep.resolved import PLACE, keep_moved
from distributary.ingest.upkeep.undecided import Undecided
from distributary.ingest.upkeep.whose.by_ledger import with_unowned

# A start may come back to the newest batch of a generation, and to the one before it.
_NEWEST = 2

# How many rows of the ledger are changed by one commit, about.
_ROWS_AT_ONCE = 20_000

_ID = re.compile(r"[0-9A-Za-z_-]+")


@dataclass(frozen=True, slots=True)
class RecordUpkeep:
    """What became of the record, or would.

    batches      rows of the ledger for which another one stands now
    changes      rows of the ledger of changes that were deleted
    quarantined  rows of the quarantine that were
    resolved     rows that told what became of such
    left         what was not done, and why
    failed       why something that should have been done was not; None where all went well
    """

    batches: int = 0
    changes: int = 0
    quarantined: int = 0
    resolved: int = 0
    left: tuple[str, ...] = ()
    failed: str | None = None

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to tell."""
        return self == RecordUpkeep()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Whose record it is, and what is undecided of it yet."""

    whose: Whose
    waits: Undecided


def keep_record(root: Files, mine: Pipeline, keep: Keep, now: int, *, dry_run: bool = False) -> RecordUpkeep:
    """Let go what is older than a pipeline's settings say, and bring together what replays tell; `now` is in milliseconds since the epoch.

    Of each generation the newest batches stay as they are, and all that is not settled. Nothing raises: what fails is told.
    """
    round_ = _Round(root, mine, keep, datetime.fromtimestamp(now / 1000, timezone.utc), dry_run)
    done = _let_go(round_)
    return done if dry_run else round_.told_together(done)


def _let_go(round_: _Round) -> RecordUpkeep:
    root, parked = round_.root, round_.mine.waits.parked
    if not any(days is not None for _, days in round_.keep) or not has_log(root.below(BATCHES_TABLE)):
        return RecordUpkeep()
    if parked:
        tables = ", ".join(sorted(parked))
        return RecordUpkeep(left=(f"the record stays as it is while batches wait for {tables}",))
    done = RecordUpkeep()
    try:
        for generation, rows in sorted(_generations(root, round_.whose).items()):
            done = round_.kept(done, generation, rows)
        done = round_.refused_again(done)
    except BaseException as error:  # noqa: BLE001 whatever it is, the tables have their upkeep
        done = replace(done, failed=fault(error))
    return done


def _generations(root: Files, whose: Whose) -> Mapping[str, LightRows]:
    """What there is to know, at first, of each generation's rows in the ledger, in their order."""
    handle = opened(root.below(BATCHES_TABLE))
    there = [name for name in ledger_days.LIGHT if name in handle.schema().to_arrow().names]
    rows = _table(handle, _is_of(whose), ["generation", *there])
    return LightRows.by(rows, "generation", "batch_id")


def _is_of(whose: Whose) -> dataset.Expression:
    """Which rows are a pipeline's: a generation is all of one, whatever that was called when they came."""
    # Of none the type has to be said.
    mine, others = (pa.array(sorted(some), pa.string()) for some in (whose.mine, whose.others))
    generation = dataset.field("generation")
    # By a name of before nothing is its own, as another may have that by now and no table yet.
    named = (dataset.field("pipeline") == whose.name) & ~generation.isin(others)
    return generation.isin(mine) | named


def _table(handle: DeltaTable, where: dataset.Expression, columns: list[str] | None = None) -> pa.Table:
    return handle.to_pyarrow_dataset(filesystem=table_folder(handle)).to_table(columns=columns, filter=where)


@dataclass(frozen=True)
class _Round:
    """One round over a pipeline's record, at a time."""

    root: Files
    mine: Pipeline
    keep: Keep
    now: datetime
    dry_run: bool

    @cached_property
    def whose(self) -> Whose:
        """Whose record it is, with the checkpoints that never had a table: all of the ledger is read for that, once. Raises PipelineError."""
        return with_unowned(self.root, self.mine.whose)

    def kept(self, done: RecordUpkeep, generation: str, rows: LightRows) -> RecordUpkeep:
        """What was done, with what was to one generation's rows."""
        if why := self._why_not(generation, rows):
            return _left(done, f"batches of generation {generation} stay as they are: {why}")
        settled = self.mine.waits.settled.get(generation_mark(generation))
        old = rows[:-_NEWEST]
        if settled is not None:
            old = old[: int(np.searchsorted(old.column("batch_id").to_numpy(), settled, "right"))]
        batches = _Batches(generation, old, ledger_days.ages(old.column("ended_at").to_pylist(), self.now))
        bounds = Bounds.of(self.now, self.keep.batches_days, self.keep.quarantine_days)
        told = len(done.left)
        for span in ledger_days.spans(old, batches.ended, bounds, _ROWS_AT_ONCE):
            done = self._shorten(done, batches.within(span), bounds)
        # Nobody may miss a record of which the ledger does not say yet that it may be gone.
        days = self.keep.quarantine_days if len(done.left) == told else None
        quarantined = self._delete(QUARANTINE_TABLE, batches, days)
        return replace(
            done,
            changes=done.changes + self._delete(CHANGES_TABLE, batches, self.keep.changes_days),
            quarantined=done.quarantined + quarantined,
            # Behind those that they tell of, which would be open again.
            resolved=done.resolved + self._delete(RESOLVED_TABLE, batches, days),
        )

    def _why_not(self, generation: str, rows: LightRows) -> str:
        """Why nothing is done about a generation; empty where there is no reason."""
        if why := self.mine.waits.unreached.get(generation_mark(generation)):
            return why
        if len(rows.column("batch_id").unique()) < len(rows) or not _ID.fullmatch(generation):
            return "the ledger tells of some twice (`distributary verify`)"
        if "rows_purged" not in rows.names:
            return f"{BATCHES_TABLE} gets columns for it with the next batch"
        return ""

    def _shorten(self, done: RecordUpkeep, batches: _Batches, bounds: Bounds) -> RecordUpkeep:
        """Have fewer rows stand for some batches, in one commit, and say what may be gone from quarantine."""
        place, numbers = self.root.below(BATCHES_TABLE), batches.numbers
        for _ in range(ATTEMPTS):
            handle = opened(place)
            if not (state := state_of(handle, place)).native:
                why = f"{BATCHES_TABLE}: only Spark's writer may rewrite its rows ({state.why_not})"
                return _left(done, why)
            rows = _table(handle, batches.where).sort_by("batch_id").to_pylist()
            if [_number(row) for row in rows] != numbers:
                return _left(done, f"{BATCHES_TABLE}: another upkeep changes it; the next time will do")
            short = ledger_days.shortened(rows, batches.ended, bounds)
            if self.dry_run or short == rows or _put_in_place(place, handle, batches.condition, short):
                return replace(done, batches=done.batches + len(rows) - len(short))
        return _left(done, f"{BATCHES_TABLE}: {ATTEMPTS} times others changed it; the next time will do")

    def _delete(self, table: str, batches: _Batches, days: float | None) -> int:
        """How many rows of a table were deleted, as too old, or would be."""
        place, before = self.root.below(table), Bounds.of(self.now, None, days).purged
        old = [] if before is None else [at < before for at in batches.ended]
        # They ended in their order.
        through = _number(batches.rows[sum(old) - 1]) if any(old) else None
        if through is None or not has_log(place):
            return 0
        mine = (dataset.field("generation") == batches.generation) & (dataset.field("batch_id") <= through)
        return self._deleted(place, mine, f"generation = '{batches.generation}' AND batch_id <= {through}")

    def refused_again(self, done: RecordUpkeep) -> RecordUpkeep:
        """With the rows of the quarantine that replays had put there, which no batch of the ledger tells of, and what told of such.

        Raises OSError, and ValueError, KeyError, TypeError or PipelineError where what is told of replays cannot be read.
        """
        place, before = (
            self.root.below(QUARANTINE_TABLE),
            Bounds.of(self.now, None, self.keep.quarantine_days).purged,
        )
        if before is None or not has_log(place) or not (replays := replays_before(self.root, before)):
            return done
        field, handle = dataset.field("generation"), opened(place)
        if "pipeline" not in handle.schema().to_arrow().names:
            return done
        mine = field.isin(list(replays)) & _is_of(and_replays(self.root, self.whose))
        places = [place, *(one for one in [self.root.below(RESOLVED_TABLE)] if has_log(one))]
        there = {
            one
            for table in places
            for one in _table(opened(table), mine, ["generation"])["generation"].to_pylist()
        }
        old = [one for one in sorted(begun_before(self.root, replays, there, before)) if _ID.fullmatch(one)]
        if not old:
            return done
        condition = f"generation IN ({', '.join(map(repr, old))})"
        quarantined, *resolved = [self._deleted(table, field.isin(old), condition) for table in places]
        return replace(
            done, quarantined=done.quarantined + quarantined, resolved=done.resolved + sum(resolved)
        )

    def told_together(self, done: RecordUpkeep) -> RecordUpkeep:
        """With what replays tell brought together: behind what is let go, of which nobody asks any more when it was."""
        gone = Bounds.of(self.now, None, self.keep.quarantine_days).purged
        try:
            tell_together(self.root, self.whose, None if done.failed or done.left else gone)
        except BaseException as error:  # noqa: BLE001 whatever it is, the tables have their upkeep
            return replace(done, failed=done.failed or fault(error))
        return done

    def _deleted(self, place: Files, mine: dataset.Expression, condition: str) -> int:
        """How many rows of a table meet a condition, which are deleted unless it is a dry run."""
        for attempt in range(ATTEMPTS):
            handle = opened(place)
            found = handle.to_pyarrow_dataset(filesystem=table_folder(handle)).count_rows(filter=mine)
            if self.dry_run or not found:
                return int(found)
            version = handle.version()
            if place.url == self.root.below(RESOLVED_TABLE).url:
                # Whoever holds the tables against the ledger finds these records in them, and in no batch's part of it.
                going = _table(handle, mine, [*PLACE, "outcome", "generation"])
                keep_moved(self.root, self.whose, going, replays_of(self.root, self.whose))
            try:
                handle.delete(condition, post_commithook_properties=NO_HOOKS)
            except CommitFailedError:
                if attempt + 1 == ATTEMPTS:
                    raise
                continue
            sync(place, range(version + 1, handle.version() + 1), "DELETE")
            return int(found)
        return 0


@dataclass(frozen=True, slots=True)
class _Batches:
    """Rows of one generation that follow each other, and when each ended at the latest."""

    generation: str
    rows: LightRows
    ended: Sequence[datetime]

    def within(self, span: Span) -> _Batches:
        """Some of them."""
        return _Batches(self.generation, self.rows[span.start : span.end], self.ended[span.start : span.end])

    @property
    def numbers(self) -> list[int]:
        """The batches' own."""
        found: list[int] = self.rows.column("batch_id").to_pylist()
        return found

    @property
    def where(self) -> dataset.Expression:
        """The rows of a ledger that are these."""
        number, (first, last) = dataset.field("batch_id"), self._ends
        return (dataset.field("generation") == self.generation) & (number >= first) & (number <= last)

    @property
    def condition(self) -> str:
        """The same in SQL."""
        first, last = self._ends
        return f"generation = '{self.generation}' AND batch_id >= {first} AND batch_id <= {last}"

    @property
    def _ends(self) -> tuple[int, int]:
        return _number(self.rows[0]), _number(self.rows[-1])


def _put_in_place(place: Files, handle: DeltaTable, condition: str, rows: Sequence[Row]) -> bool:
    """Whether these rows are where those were that meet the condition: not so where somebody else was first."""
    version = handle.version()
    table = pa.Table.from_pylist(list(rows), pa.schema(handle.schema().to_arrow()))
    try:
        write_deltalake(
            handle, table, mode="overwrite", predicate=condition, post_commithook_properties=NO_HOOKS
        )
    except CommitFailedError:
        return False
    sync(place, range(version + 1, handle.version() + 1), "WRITE")
    return True


def _number(row: Row) -> int:
    return int(row["batch_id"])


def _left(done: RecordUpkeep, why: str) -> RecordUpkeep:
    return replace(done, left=(*done.left, why))
