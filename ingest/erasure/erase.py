"""Rows that are to be nowhere any more, taken out of all tables of a pipeline: what went, what did not, and from when on it is final."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from itertools import count

import pyarrow as pa
from deltalake.exceptions import DeltaError, TableNotFoundError

from distributary.errors import ConfigError, PipelineError
from distributary.ingest.bronze.rule import KEEPS_PROPERTY
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import known_id
from distributary.ingest.columns.safe_names import QUARANTINE_TABLE, aside_prefix, fold
from distributary.ingest.commit_log.owners import Records, Whose
from distributary.ingest.erasure import bodies
from distributary.ingest.erasure.as_it_was import AsItWas
from distributary.ingest.erasure.forgetting import Remembered
from distributary.ingest.erasure.kept import NOT_LOOKED_INTO, AsTheyCame
from distributary.ingest.erasure.named_otherwise import Names, concerning, made_of_values, names_of
from distributary.ingest.erasure.outcome import Erasure, TableErasure, fields_missing, together
from distributary.ingest.erasure.quarantined import Quarantined
from distributary.ingest.erasure.record import PURGED, Gone, keep
from distributary.ingest.erasure.replays import BRING_THEM_BACK, have_records
from distributary.ingest.erasure.rewriting import Rewritten, Rows, without_rows
from distributary.ingest.lease.upkeep_lock import upkeep_under_way
from distributary.ingest.merge.rule import memory_folder
from distributary.ingest.progress import Bars, no_bars
from distributary.ingest.reshaping.rule import Path, Reshape
from distributary.ingest.routing.as_said import AS_IT_WAS, fields_of
from distributary.ingest.routing.conditions import ReadCondition, conditions_ahead
from distributary.ingest.settings.groups import Columns
from distributary.ingest.settings.model import Settings
from distributary.ingest.settings.rule_book import RuleBook
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files, tables_at
from distributary.ingest.storage.place import Place
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.known import (
    ENTITY_PROPERTY,
    REMEMBERS_PROPERTY,
    UPSERT_PROPERTY,
    are_named_by_text,
    upsert_of,
)
from distributary.ingest.tables.log import has_log
from distributary.ingest.tables.state import TableState, state_of
from distributary.ingest.upkeep.compaction import fault, said
from distributary.ingest.upkeep.leftovers import Bound
from distributary.ingest.upkeep.made_of_others import derived_tables
from distributary.ingest.upkeep.maintain import Clock, time_there
from distributary.ingest.upkeep.replayed import with_replays
from distributary.ingest.upkeep.undecided import undecided
from distributary.ingest.upkeep.whose.by_ledger import with_unowned

_DAY = 86_400_000

# https://cheatsheetseries.owasp.org/cheatsheets/Password_Storage_Cheat_Sheet.html#pbkdf2
_ROUNDS = 600_000

MADE_OF_OTHERS = "it is made of others: `distributary derive`, for a stream with `--whole`, makes it again without these rows, and upkeep deletes what it was before"


PUT_ASIDE = "it is what a table was before `distributary resolve --recreate` made that anew, and is not looked into: delete the folder once nobody wants it back"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to go.

    where    a SQL condition over the columns of tables
    keys     keys of records in quarantine, and in what remembers deletes, which go whatever they say
    tables   the folders of tables; none: all of the pipeline, and the quarantine
    dry_run  whether to change nothing
    """

    where: str
    keys: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    dry_run: bool = False


def erase(settings: Settings, wanted: Wanted, make_bar: Bars = no_bars, clock: Clock = time_there) -> Erasure:
    """Take rows out of a pipeline's tables, what remembers their deletes, and quarantine: their files are written anew without them.

    Runs of the pipeline may go on meanwhile; what they bring later is not looked at, so say it again then. What had the rows is deleted by
    upkeep once it is old enough: see `Erasure.final_at`.

    Raises ConfigError for a condition that cannot be read, and for a table that is not the pipeline's; SetupError without Java, which reads
    conditions; PipelineError while `resolve` puts a table aside.
    """
    if "" in wanted.keys:
        # A variable of the shell that is not set: who is meant is nobody, and records with an empty key are others.
        raise ConfigError("--key is empty; give it the key of a record, or leave it out")
    condition = conditions_ahead([("--where", wanted.where)])[wanted.where]
    root = tables_at(settings.sink.root, settings.storage)
    try:
        checkpoint = Checkpoint(open_files(settings.checkpoint, settings.storage))
        mine, whose = Records(root).of_pipeline(settings.name, known_id(checkpoint))
        tables = _chosen(root, mine, wanted.tables)
        derived = derived_tables(root, settings.derive, settings.name)
        now = clock(root) if tables and not wanted.dry_run else 0
    except OSError as error:
        raise PipelineError(
            f"{error}; nothing was changed, say it again once that can be read and written"
        ) from error
    id_ = uuid.uuid4().hex
    done = Erasure(
        settings.name,
        id_,
        digest(wanted.where, id_),
        wanted.dry_run,
        datetime.now(timezone.utc),
    )
    place = _Place(root, mine, whose, settings.sink.columns, now, settings.rule_book())
    work = _Work(place, condition, wanted, done)
    advance, found = make_bar(len(tables), "erasing"), list[TableErasure]()
    with upkeep_under_way(root) if tables and not wanted.dry_run else nullcontext():
        for table in tables:
            found.append(work.of(table))
            advance(1)
    found += [TableErasure(table, left=(MADE_OF_OTHERS,)) for table in derived]
    found += [TableErasure(folder, left=(PUT_ASIDE,)) for folder in put_aside(root, mine)]
    if have_records(checkpoint, root, dry_run=wanted.dry_run):
        found.append(TableErasure(QUARANTINE_TABLE, left=(BRING_THEM_BACK,)))
    done = replace(done, tables=together([*found, *work.forgotten]), undecided=_undecided(settings, root))
    return done if wanted.dry_run or not done.rows else _recorded(root, done)


def put_aside(root: Files, tables: Sequence[str]) -> list[str]:
    """The folders that have what some tables were before somebody had them made anew. Raises OSError."""
    prefixes = tuple(map(aside_prefix, tables))
    return [folder for folder in root.folders() if folder.startswith(prefixes)] if prefixes else []


def digest(where: str, id_: str) -> str:
    """What an erasure of this id keeps of its condition: who knows the condition can tell that it was this one.

    There are few numbers of persons, so each guess takes a moment, and has to be made for each erasure anew.
    """
    return hashlib.pbkdf2_hmac("sha256", where.encode(), bytes.fromhex(id_), _ROUNDS).hex()


def _recorded(root: Files, done: Erasure) -> Erasure:
    try:
        return replace(done, record=keep(root, done.name, done.as_dict()))
    except OSError as error:
        raise PipelineError(
            f"{error}; {done.rows:,} rows of {len(done.tables)} tables were erased all the same, but a summary of it could not be kept"
        ) from error


def _chosen(root: Files, mine: Sequence[str], wished: Sequence[str]) -> list[str]:
    known = [*mine, *(memory_folder(table) for table in mine), QUARANTINE_TABLE]
    there = [table for table in dict.fromkeys(known) if has_log(root.below(table))]
    if unknown := sorted(set(wished) - set(there)):
        raise ConfigError(
            f"{', '.join(unknown)}: no such table of the pipeline is under {root}; it has {', '.join(there) or 'none yet'}"
        )
    chosen = [table for table in there if not wished or table in wished]
    # What goes of records as they came is told by what went of all others.
    return sorted(chosen, key=lambda table: _keeps(root.below(table)))


def _keeps(place: Files) -> bool:
    """Whether a table has records as they came."""
    try:
        return KEEPS_PROPERTY in opened(place).metadata().configuration
    except DeltaError:
        return False


def _undecided(settings: Settings, root: Files) -> int:
    """How many batches wait for a parked table."""
    checkpoint = Checkpoint(open_files(settings.checkpoint, settings.storage))
    owners = [owner for owner in Records(root).all().values() if owner.pipeline == settings.name]
    waits = undecided(
        checkpoint, owners, lambda log: Checkpoint(open_files(Place.parse(log), settings.storage))
    )
    return max(waits.parked.values(), default=0)


@dataclass(frozen=True, slots=True)
class _Place:
    """A pipeline's tables under a root, at a time by its clock; `columns` are those of Kafka, `rules` what its tables are."""

    root: Files
    tables: Sequence[str]
    whose: Whose
    columns: Columns
    now: int
    rules: RuleBook

    def rule_of(self, state: TableState) -> Reshape | None:
        """What is said of the columns of a table's records."""
        entity = state.properties.get(ENTITY_PROPERTY)
        return None if entity is None else self.rules.of(entity).reshape

    def names(self, fields: Sequence[Path]) -> list[Names]:
        """What these fields, and what is named like them, are called in tables, each way once; of a table that nobody can open only rules tell it."""
        found = [names_of((), rule) for rule in self.rules.in_quarantine(None)]
        for table in self.tables:
            place = self.root.below(table)
            with suppress(DeltaError):
                state = state_of(opened(place), place)
                found.append(names_of(list(state.layout), self.rule_of(state)))
        ways = (concerning(one, fields) for one in found)
        return [*{frozenset(one.items()): one for one in ways if one}.values()]


@dataclass(frozen=True, slots=True)
class _Work:
    """One erasure.

    numbers    those of the files which say where rows came from
    forgotten  what was no more remembered of rows that went
    """

    where: _Place
    condition: ReadCondition
    wanted: Wanted
    done: Erasure
    numbers: Iterator[int] = field(default_factory=count)
    forgotten: list[TableErasure] = field(default_factory=list)

    def of(self, table: str) -> TableErasure:
        """What became of a table, by its folder."""
        place = self.where.root.below(table)
        try:
            return self._of_quarantine(place) if table == QUARANTINE_TABLE else self._of_table(table, place)
        except TableNotFoundError:
            return TableErasure(table)
        except ConfigError as error:
            return TableErasure(table, left=(str(error),))
        except PipelineError as error:
            return TableErasure(table, failed=said(error))
        except BaseException as error:  # noqa: BLE001 whatever it is, rows go from the other tables
            return TableErasure(table, failed=fault(error))

    def _of_table(self, table: str, place: Files) -> TableErasure:
        state = state_of(opened(place), place)
        if KEEPS_PROPERTY in state.properties:
            return self._as_they_came(table, place)
        layout, by = state.layout, self.where.columns
        names = {fold(path[0]) for path in fields_of(self.condition.tree)}
        columns = frozenset(name for name in layout.names if fold(name) in names)
        # What remembers deletes may have nothing else of a record.
        remembers = REMEMBERS_PROPERTY in state.properties
        named = (by.kafka_key, by.key_text)
        keyed = tuple(one for one in named if remembers and one is not None and one in layout.names)
        keys = frozenset(key.encode() for key in self.wanted.keys) if keyed else frozenset()
        left = list[str]()
        if lacking := sorted(names - set(map(fold, columns))):
            which = "the others of its rows" if keys else "its rows"
            left.append(
                f"it has no column {', '.join(lacking)}, so that nobody knows which of {which} are meant"
            )
            if not keys:
                more = "; name records' keys, which it has (--key)" if keyed else ""
                return TableErasure(table, left=(f"{left[0]}{more}",), lacks=tuple(lacking))
        merged = UPSERT_PROPERTY in state.properties or REMEMBERS_PROPERTY in state.properties
        where = (by.kafka_topic, by.kafka_partition, by.kafka_offset, by.kafka_ts)
        # Of those that are merged nobody expects each record, nor of those that do not say which they have.
        told = () if merged or not set(where) <= set(layout.names) else where
        # What had no place in a column is there as text.
        rescued = by.rescued if by.rescued in layout.names else None
        was = AsItWas.of(layout, self.where.rule_of(state))
        meant = bodies.Rows(None if lacking else self.condition, rescued, keyed, keys, was)
        read = columns.union({by.rescued}, was.names, keyed if keys else ())
        key = by.key_text if are_named_by_text(state.properties) else by.kafka_key
        remembered = Remembered.of(upsert_of(state.properties), layout, key or by.kafka_key)
        rows = Rows(read, meant.met, told, self._keep(table))
        if remembered is not None:
            rows = replace(rows, told=remembered.told, keep=self._forget(table, remembered))
        done = self._told(table, place, self._without(place, rows))
        if meant.unread:
            left.append(
                f"{meant.unread:,} rows have something in {by.rescued}, or in {AS_IT_WAS}, that the condition names and does not go with, so that nobody "
                f"knows whether they are meant: look at them, and name them by {', '.join(where[:3])}"
            )
        # Rows may have it all the same: rescued, or as they were.
        asked = fields_of(self.condition.tree)
        unmet = [path for path in asked if tuple(map(str.lower, path)) not in meant.beside]
        within = [] if lacking or done.rows else fields_missing(layout, unmet)
        if within:
            left.append(f"it has no field {', '.join(within)}, and no row that says it otherwise")
        return replace(done, left=(*done.left, *left), lacks=None if lacking else tuple(within))

    def _without(self, place: Files, rows: Rows) -> Rewritten:
        return without_rows(place, rows, self.done.id, dry_run=self.wanted.dry_run)

    def _keep(self, table: str) -> Callable[[pa.Table], None]:
        """Keeps where rows of a table came from, each time they are about to go."""

        def told(rows: pa.Table) -> None:
            what = {**self.where.whose.said, "id": self.done.id, "table": table, PURGED: False}
            name = f"{self.done.name}-{next(self.numbers):05}"
            keep(self.where.root, name, {**what, "gone": Gone.of(rows).to_json()})

        return told

    def _forget(self, table: str, remembered: Remembered) -> Callable[[pa.Table], None]:
        """Forgets the records of a history's rows, each time these are about to go."""
        folder = memory_folder(table)

        def told(rows: pa.Table) -> None:
            place = self.where.root.below(folder)
            if not has_log(place):
                return
            done = self._told(folder, place, self._without(place, remembered.rows(rows)))
            if done.left:
                raise PipelineError(f"what is remembered of its rows stays in {folder}: {done.left[0]}")
            self.forgotten.append(done)

        return told

    def _of_quarantine(self, place: Files) -> TableErasure:
        keys = frozenset(key.encode() for key in self.wanted.keys)
        whose = with_replays(self.where.root, self.where.whose)
        fields, rules = fields_of(self.condition.tree), self.where.rules.in_quarantine(None)
        made = [path for rule in rules for path in made_of_values(fields, rule)]
        which = Quarantined(self.condition, whose, keys, self.where.names(fields), made)
        found = self._told(
            QUARANTINE_TABLE, place, self._without(place, which.rows(self._keep(QUARANTINE_TABLE)))
        )
        told = (
            (
                which.unread,
                "have bytes that are no JSON, or that the condition does not go with: they go by their keys alone (--key)",
            ),
            (
                which.as_they_came,
                "have as it came what tables have hashed or masked: say it of these once more by that (--table quarantine)",
            ),
        )
        return replace(
            found, left=(*found.left, *(f"{count:,} records {why}" for count, why in told if count))
        )

    def _as_they_came(self, table: str, place: Files) -> TableErasure:
        keys = frozenset(key.encode() for key in self.wanted.keys)
        which = AsTheyCame.of(self.where.root, with_unowned(self.where.root, self.where.whose), keys)
        done = self._told(table, place, self._without(place, which.rows(self._keep(table))))
        # A dry run leaves nothing by which these would be known.
        trial = " (a dry run counts those of before, and keys)" if self.wanted.dry_run else ""
        return replace(done, left=(*done.left, f"{NOT_LOOKED_INTO}{trial}"))

    def _told(self, table: str, place: Files, found: Rewritten) -> TableErasure:
        final, now = None, self.where.now
        if found.version is not None:
            bound = Bound.of(state_of(opened(place), place).properties, 0, now)
            days = 7 * _DAY if bound is None else max(7 * _DAY, now - bound.since)
            final = datetime.fromtimestamp(now / 1000, timezone.utc) + timedelta(milliseconds=days)
        left = (found.left,) if found.left else ()
        return TableErasure(table, found.rows, found.hidden, found.files, found.version, final, left)
