"""Upkeep of a pipeline's tables, beside its runs: small files are brought together, and what no version needs goes."""

from __future__ import annotations

import json
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace

from deltalake.exceptions import DeltaError

from distributary.errors import ConfigError, PipelineError
from distributary.ingest.checkpoint.folder import GENERATION, UPKEEP, Checkpoint
from distributary.ingest.checkpoint.generation import known_id
from distributary.ingest.columns.safe_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    OUR_NAMES,
    QUARANTINE_TABLE,
    RESERVED_TABLES,
    RESOLVED_TABLE,
)
from distributary.ingest.commit_log.owners import Records
from distributary.ingest.lease.upkeep_lock import upkeep_under_way
from distributary.ingest.merge.rule import memory_folder
from distributary.ingest.progress import Bars, no_bars
from distributary.ingest.settings.model import Settings
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files, tables_at
from distributary.ingest.storage.place import Place
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log import has_log
from distributary.ingest.tables.log_checkpoint import shorten_tail
from distributary.ingest.tables.state import state_of
from distributary.ingest.upkeep.clustered import cluster
from distributary.ingest.upkeep.compaction import Compaction, Size, fault, said
from distributary.ingest.upkeep.leftovers import DAYS, RETENTION, Bound, Leftovers, delete, leftovers
from distributary.ingest.upkeep.made_of_others import derived_tables
from distributary.ingest.upkeep.record import Pipeline, RecordUpkeep, keep_record
from distributary.ingest.upkeep.undecided import Undecided, undecided
from distributary.ingest.upkeep.versions_kept import TakenAway
from distributary.ingest.upkeep.worn import bring_together

# Where a file is put and taken away again, to ask what the time is.
_CLOCK = ".distributary/upkeep"

# In milliseconds: whoever put such a file before died before it was taken away.
_ASKED_LONG_AGO = 3_600_000

# In the checkpoint, beside what was read of the logs of tables, a file each: the tables that upkeep was at when it died.
_UNDER_WAY = f"{UPKEEP}/under-way"

# A compaction takes memory and processors; of a store it mostly waits.
_THREADS, _THREADS_IN_STORES = 1, 4

# What the time is at a place, in milliseconds since the epoch.
Clock = Callable[[Files], int]


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for.

    tables           the folders of tables; none: all of the pipeline
    older_than_days  how long files stay that no version of a table needs any more
    force            whether that may be shorter than Delta's own seven days
    dry_run          whether to change nothing
    """

    tables: tuple[str, ...] = ()
    older_than_days: float = DAYS
    force: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class TableUpkeep:
    """What was done to a table, or would be.

    table      its folder under `sink.root`
    before     the files that its newest version had
    after      those that it has now
    compacted  how many were brought together
    made       in how many
    deleted    files that no version needs any more
    left       what was not done, and why
    failed     why something that should have been done was not; None where all went well
    """

    table: str
    before: Size = field(default_factory=Size)
    after: Size = field(default_factory=Size)
    compacted: int = 0
    made: int = 0
    deleted: Size = field(default_factory=Size)
    left: tuple[str, ...] = ()
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What was done to a pipeline's tables.

    pipeline         its name
    dry_run          whether nothing was changed
    older_than_days  how long files stayed, at the least, that no version needs any more
    tables           in order
    record           what was let go of ledger and quarantine
    """

    pipeline: str
    dry_run: bool
    older_than_days: float
    tables: tuple[TableUpkeep, ...]
    record: RecordUpkeep = field(default_factory=RecordUpkeep)

    @property
    def compacted(self) -> int:
        """How many files were brought together."""
        return sum(one.compacted for one in self.tables)

    @property
    def made(self) -> int:
        """In how many."""
        return sum(one.made for one in self.tables)

    @property
    def deleted(self) -> Size:
        """What no version needed any more."""
        return Size(
            sum(one.deleted.files for one in self.tables), sum(one.deleted.bytes for one in self.tables)
        )

    def check(self) -> None:
        """Raises PipelineError where a table's upkeep failed, or the record's."""
        failed = [f"{one.table}: {one.failed}" for one in self.tables if one.failed is not None]
        if self.record.failed is not None:
            raise PipelineError(
                f"what is old could not be let go, as `sink.keep` says: {'; '.join([self.record.failed, *failed])}. Nothing is lost, say it again once "
                "that is mended"
            )
        if failed:
            raise PipelineError(
                f"upkeep failed for {len(failed)} of {len(self.tables)} tables; nothing is lost, say it again once that is mended: "
                + "; ".join(failed)
            )


def time_there(place: Files) -> int:
    """What the time is by a place's own clock: this machine's may be ahead, and make young files old. Raises OSError."""
    path = f"{_CLOCK}/{uuid.uuid4().hex}"
    place.put(path, b"")
    try:
        info = place.info(path)
        if info is not None:
            before = info.modified - _ASKED_LONG_AGO
            place.delete([one.path for one in place.list(_CLOCK) if one.modified < before])
    finally:
        place.delete([path])
        place.remove_folder(_CLOCK)
    if info is None:
        raise OSError(f"{place}/{path}: it was put there and is not there")
    return info.modified


def maintain(
    settings: Settings, wish: Wish | None = None, make_bar: Bars = no_bars, clock: Clock = time_there
) -> Upkeep:
    """Bring together small files of a pipeline's tables, and delete what no version needs that is to stay readable.

    Runs of the pipeline may go on meanwhile, others' too. Files stay that unfinished batches or parked tables wait for, and tables
    that are parked stay as they are. One table's failure keeps none of the others from its upkeep.

    Raises ConfigError for a table that is not the pipeline's, and for a time that is too short; PipelineError while `resolve` puts a table aside.
    """
    wish = wish or Wish()
    _require_long_enough(wish)
    root = tables_at(settings.sink.root, settings.storage)
    try:
        owners = Records(root).all()
        own = Checkpoint(open_files(settings.checkpoint, settings.storage))
        mine, whose = Records(root).of_pipeline(settings.name, known_id(own))
        derived = derived_tables(root, settings.derive, settings.name, passing=True)
        tables = _chosen(root, mine, derived, wish.tables)
        waits = undecided(
            own,
            owners.values(),
            lambda log: Checkpoint(open_files(Place.parse(log), settings.storage)),
        )
        now = _now(root, wish, clock) if tables else 0
    except OSError as error:
        raise PipelineError(
            f"{error}; nothing was changed, say it again once that can be read and written"
        ) from error
    # A dry run changes nothing, not even by a lock.
    with upkeep_under_way(root) if tables and not wish.dry_run else nullcontext():
        record = RecordUpkeep()
        if RESERVED_TABLES.intersection(tables):
            parked = {table: waits.parked[table] for table in mine if table in waits.parked}
            its = Pipeline(whose, replace(waits, parked=parked))
            record = keep_record(root, its, settings.sink.keep, now, dry_run=wish.dry_run)
        under_way = _UnderWay(own.files, keeps=not wish.dry_run and _is_begun(own.files))
        done = _each(_Round(root, own.files, wish, waits, now, under_way), under_way.last(tables), make_bar)
        under_way.over()
    done.sort(key=lambda one: tables.index(one.table))
    return Upkeep(settings.name, wish.dry_run, wish.older_than_days, tuple(done), record)


def _summed_up(place: Files, properties: Mapping[str, str]) -> list[str]:
    """Why a table's log got no checkpoint that it should have; nothing where all is well."""
    try:
        shorten_tail(place, opened(place).version(), properties)
    except DeltaError as error:
        return [f"its log got no checkpoint: {said(error)}"]
    return []


def _each(round_: _Round, tables: Sequence[str], make_bar: Bars) -> list[TableUpkeep]:
    advance, done = make_bar(len(tables), "upkeep of tables"), list[TableUpkeep]()
    with ThreadPoolExecutor(_THREADS_IN_STORES if round_.root.remote else _THREADS) as pool:
        try:
            for found in pool.map(round_.keep_up, tables):
                done.append(found)
                advance(1)
        except BaseException:
            # Whoever asks to end waits for the table under way, and not for a thousand others.
            pool.shutdown(cancel_futures=True)
            raise
    return done


def _now(root: Files, wish: Wish, clock: Clock) -> int:
    """What the time is: the earlier of what two clocks say, since either may be ahead, and what was deleted is gone.

    A dry run puts nothing to ask for the place's, and deletes nothing that this machine's makes old.
    """
    if clock is not time_there:
        return clock(root)
    here = int(time.time() * 1000)
    return here if wish.dry_run else min(here, clock(root))


def _require_long_enough(wish: Wish) -> None:
    days = wish.older_than_days
    if not (math.isfinite(days) and 0 <= days <= 36_500):
        raise ConfigError("write how old files have to be, at the least, in days, such as 7")
    if days < DAYS and not wish.force:
        raise ConfigError(
            f"files that are younger than {DAYS} days may be read by who reads an older version, or be in the making by another program; say "
            "--force with a shorter time if you know that none are"
        )


def _chosen(root: Files, mine: Sequence[str], derived: Sequence[str], wished: Sequence[str]) -> list[str]:
    own = [QUARANTINE_TABLE, RESOLVED_TABLE, CHANGES_TABLE, BATCHES_TABLE]
    known = [*mine, *(memory_folder(table) for table in mine), *own]
    there = [table for table in dict.fromkeys(known) if has_log(root.below(table))]
    there += derived
    if unknown := sorted(set(wished) - set(there)):
        raise ConfigError(
            f"{', '.join(unknown)}: no such table of the pipeline is under {root}; it has {', '.join(there) or 'none yet'}"
        )
    return [table for table in there if not wished or table in wished]


@dataclass(slots=True)
class _UnderWay:
    """The tables that upkeep is at, as its checkpoint has them: at one of these a round has died, if it did, and the next one may, too.

    Those of rounds before stay among them until they are done: otherwise two such tables would keep their names from each other.

    keeps  whether it is kept there

    Nothing raises: without it tables have their upkeep in their order.
    """

    checkpoint: Files
    keeps: bool
    tables: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def last(self, tables: Sequence[str]) -> list[str]:
        """The tables, behind all others those at which rounds before this one died, the one that was begun last as the last."""
        try:
            told = json.loads(self.checkpoint.read(_UNDER_WAY))
        except (OSError, ValueError):
            return list(tables)
        self.tables = told if isinstance(told, list) else []
        return sorted(tables, key=lambda table: self.tables.index(table) if table in self.tables else -1)

    @contextmanager
    def at(self, table: str) -> Iterator[None]:
        """Inside, upkeep is at this table."""
        if not self.keeps:
            yield
            return
        with self.lock:
            self.tables = [*(one for one in self.tables if one != table), table]
            with suppress(OSError):
                self.checkpoint.make_folder(UPKEEP)
                self.checkpoint.put(_UNDER_WAY, json.dumps(self.tables).encode())
        try:
            yield
        finally:
            with self.lock:
                self.tables.remove(table)

    def over(self) -> None:
        """The round is whole."""
        if self.keeps:
            with suppress(OSError):
                self.checkpoint.delete([_UNDER_WAY])


def _is_begun(checkpoint: Files) -> bool:
    """Whether there is a checkpoint: otherwise none is begun."""
    try:
        return checkpoint.info(GENERATION) is not None
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class _Round:
    """One round of upkeep: of the tables under a root, as is wished, with what was undecided before, at a time by the root's clock.

    checkpoint  the pipeline's, where it is kept what was read of tables' logs
    under_way   where it is kept at which tables upkeep is
    """

    root: Files
    checkpoint: Files
    wish: Wish
    waits: Undecided
    now: int
    under_way: _UnderWay

    def keep_up(self, table: str) -> TableUpkeep:
        """What was done to a table, by its folder."""
        with self.under_way.at(table):
            return self._kept_up(table)

    def _kept_up(self, table: str) -> TableUpkeep:
        for folder, waiting in self.waits.parked.items():
            # What waits reads its deletes from the files that it remembered them in, whatever that table names by then.
            if table in (folder, memory_folder(folder)):
                which = "it" if table == folder else folder
                why = f"{which} is parked, batches that wait for it: {waiting:,} (`distributary resolve`)"
                return TableUpkeep(table, left=(why,))
        place = self.root.below(table)
        try:
            state = state_of(opened(place), place)
        except DeltaError as error:
            why = f"delta-rs cannot open it ({said(error)}); Spark's OPTIMIZE and VACUUM may"
            return TableUpkeep(table, left=(why,))
        except BaseException as error:  # noqa: BLE001 whatever it is, the other tables have their upkeep
            return TableUpkeep(table, failed=fault(error))
        compaction, gone = Compaction(Size(), Size()), Leftovers()
        left, failed = list[str](), None
        try:
            compaction = (
                bring_together(place, state, dry_run=self.wish.dry_run)
                if state.clustering is None
                else cluster(place, dry_run=self.wish.dry_run)
            )
            left += [f"not compacted: {compaction.left}"] if compaction.left else []
            found, not_looked_at = self._found(place, state.partitions, state.properties)
            left += not_looked_at
            if not self.wish.dry_run:
                delete(place, found)
            gone = found
            # Behind that: a checkpoint forgets what was taken away as soon as it may go, and some is known by that alone.
            left += [] if self.wish.dry_run else _summed_up(place, state.properties)
        except BaseException as error:  # noqa: BLE001 the same; of this table it is told how far it came
            failed = fault(error)
        return TableUpkeep(
            table,
            compaction.before,
            compaction.after,
            compaction.compacted,
            compaction.made,
            Size(len(gone.files), gone.bytes),
            tuple(left),
            failed,
        )

    def _found(
        self, place: Files, partitioned_by: Sequence[str], properties: Mapping[str, str]
    ) -> tuple[Leftovers, list[str]]:
        """What is to go from a table's folder, and what is not looked at, with the reason."""
        bound = Bound.of(properties, self.wish.older_than_days, self.now)
        if bound is None:
            told = f"{RETENTION}, {properties[RETENTION]!r},"
            return Leftovers(), [f"not cleaned up: its {told} is no time that is understood here"]
        shared = place.url.rpartition("/")[2] in OUR_NAMES
        path = f"{UPKEEP}/{place.url.rpartition('/')[2]}.json"
        taken = self._taken_away(path)
        gone = leftovers(place, bound, self.waits, is_shared=shared, partitions=partitioned_by, taken=taken)
        if not self.wish.dry_run and _is_begun(self.checkpoint):
            with suppress(OSError):
                self.checkpoint.make_folder(UPKEEP)
                self.checkpoint.put(path, taken.content())
        return gone, [
            f"files that stay though they are old: {gone.held:,}, as {gone.why}"
        ] if gone.held else []

    def _taken_away(self, path: str) -> TakenAway:
        """What earlier upkeeps have read of a table's log; without it all is read once more."""
        try:
            return TakenAway.told(self.checkpoint.read(path))
        except OSError:
            return TakenAway()
