"""Which versions of a pipeline's tables belong together: those of one batch that all of them have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter

from deltalake.exceptions import DeltaError

from distributary.errors import PipelineError
from distributary.ingest.checkpoint.folder import RESETS, Checkpoint, going
from distributary.ingest.checkpoint.generation import app_of, read_generation
from distributary.ingest.columns.safe_names import BATCHES_TABLE, CHANGES_TABLE, QUARANTINE_TABLE
from distributary.ingest.commit_log.owners import Records
from distributary.ingest.log_paths import entry_path
from distributary.ingest.settings.model import Settings
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files, tables_at
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log import newest_version, transactions_in
from distributary.ingest.tables.transaction import ERASURE, is_of_batch, is_of_replay
from distributary.values import without_logins

# How the application ends by which a pipeline commits to an entity's table.
EVENTS = "/events"

# What a table that nobody can open is met by. One whose log does not go back far enough is told by itself.
_UNREADABLE = (DeltaError, OSError, ValueError, LookupError, TypeError, AttributeError)

_MOST_TOLD = 300

# Behind so many entries of others a table that pipelines share is asked by itself: of days there may be thousands.
_FELLOWS = 50

# Of an entry that has rows go or come, and of one that lays them into other files.
_ROWS_CHANGE, _ROWS_ARE_LAID = (re.compile(rb'"dataChange"\s*:\s*' + word) for word in (b"true", b"false"))

# By what entries tell that rows were erased: nobody is to see these any more, and their files go.
_ERASURE = f'"{ERASURE}"'.encode()


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table as of a batch.

    table    its folder under `sink.root`
    url      where it is, as Spark and delta-rs take it
    version  the version to read
    batch    the newest batch that it had rows in by then; None where those are of an earlier checkpoint, or all of replays
    waits    how many batches up to then wait for it, where it is parked
    """

    table: str
    url: str
    version: int
    batch: int | None
    waits: int = 0


@dataclass(frozen=True, slots=True)
class Versions:
    """The tables of a pipeline as of one batch; those that had no row of its by then are left out.

    pipeline    its name
    generation  whose batches are counted: a new checkpoint begins a new count
    batch       the batch, which is whole in all of them
    tables      by their folders, in order
    unreadable  the folders of those that nobody can open just now, and why: of these nothing is known
    """

    pipeline: str
    generation: str
    batch: int
    tables: tuple[TableVersion, ...]
    unreadable: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, table: str) -> TableVersion:
        """A table by its folder. Raises KeyError for one that had no row by then, PipelineError for one that nobody can open."""
        self.require_readable([table])
        return {one.table: one for one in self.tables}[table]

    def require_readable(self, tables: Iterable[str] | None = None) -> None:
        """Raises PipelineError, which names them, where some of these tables, or of all, cannot be opened."""
        asked = self.unreadable if tables is None else self.unreadable.keys() & set(tables)
        if asked:
            told = "; ".join(f"table {table} ({self.unreadable[table]})" for table in sorted(asked))
            raise PipelineError(
                f"nobody can tell which version belongs to batch {self.batch} of {told}. Have what was done to it taken back, or restore it from a "
                "copy; the others can be read meanwhile"
            )


def versions_at(settings: Settings, batch: int | None = None) -> Versions:
    """The versions of all tables of a pipeline as of one batch, by default the newest one that all of them have.

    Each table gets a batch in one commit, and the next one a moment later, so who reads two tables as they are now may see them at
    different batches. At these versions none has a row of a later batch, and each has all rows up to this one.

    settings  the pipeline's; a run of it may go on meanwhile
    batch     a batch as the ledger numbers them (`ledger_batches.batch_id`)

    They are found by what commits say, and may be read as long as logs and files last: `sink.log_retention_days` and VACUUM
    decide. A table that nobody can open keeps no other from being answered. Raises PipelineError where there is no such batch, or a log does not
    tell of it any more, and where the ledger itself cannot be read.

    >>> versions = distributary.versions_at(settings)
    >>> {one.batch for one in versions.tables} == {versions.batch}
    True
    """
    root = tables_at(settings.sink.root, settings.storage)
    checkpoint = Checkpoint(open_files(settings.checkpoint, settings.storage))
    own = read_generation(checkpoint)
    records = Records(root)
    owners = {
        table: owner
        for table, owner in records.all().items()
        # Where it has another name since its last run, records tell the one before.
        if owner.pipeline == settings.name or (own is not None and owner.generation == own.id)
    }
    generations = {owner.generation for owner in owners.values()}
    # One whose tables another took over owns none any more, and may have come behind the batch as well.
    ever = {} if batch is None else records.ever()
    had = {one.generation for table in owners.keys() & ever.keys() for one in ever[table]} - generations
    generation = None if own is None else own.id
    # One that took tables over may have no batch for long, as no record comes.
    taken = [table for table, owner in owners.items() if owner.generation == generation]
    before = partial(_before, root, settings.name, generation or "", taken, batch)
    try:
        at = _whole(root, settings.name, generations, batch, generation, had=had)
    except _NoneWhole:
        if (found := before()) is None:
            raise
        at = found
    else:
        # Nor is the newest one meant that tables have which were left where they are, before that.
        others = batch is None and at.generation != generation
        if others and taken and _has_none(root, settings.name, generation):
            at = before() or at
    parked = _parked(checkpoint, at.generation)
    # Amid a reset tables are half full; those of before it belong together.
    if any(True for _ in going(checkpoint.files, RESETS)):
        at = replace(at, is_newest=False)
    threads = settings.limits.commit_threads
    return _of_all(root, at, owners, pipeline=settings.name, parked=parked, threads=threads)


def versions_left(root: Files, pipeline: str, generation: str, threads: int | None) -> Versions | None:
    """The same of the tables that a generation took over and that it has no batch of, as of the last one of those before; None where there are none, or no batch is whole."""
    taken = [
        table
        for table, one in Records(root).all().items()
        if (one.pipeline, one.generation) == (pipeline, generation)
    ]
    at = _before(root, pipeline, generation, taken)
    return None if at is None else _of_all(root, at, taken, pipeline=pipeline, parked={}, threads=threads)


def _before(
    root: Files, pipeline: str, generation: str, taken: Iterable[str], batch: int | None = None
) -> _Batch | None:
    """A batch of those who had some tables before a generation that has no whole one; None where there are none, or nothing tells of one."""
    ever = Records(root).ever()
    had = [
        [one.generation for one in ever[table] if one.pipeline == pipeline and one.generation != generation]
        for table in ever.keys() & set(taken)
    ]
    # All of them go to whoever comes next.
    last = max(had, key=len, default=[])
    if not last:
        return None
    try:
        at = _whole(root, pipeline, {one for some in had for one in some}, batch, last[-1])
    except _NoneWhole:
        return None
    behind = last[last.index(at.generation) + 1 :] if at.generation in last else []
    # One that got another name, and its own again, is told of twice.
    return replace(at, under_way=frozenset((generation, *behind)) - {at.generation})


def _has_none(root: Files, pipeline: str, generation: str | None) -> bool:
    """Whether no batch of a generation is whole."""
    try:
        _whole(root, pipeline, set() if generation is None else {generation}, None, generation)
    except _NoneWhole:
        return True
    return False


class _NoneWhole(PipelineError):
    """There is no batch at all that is whole, or nothing tells of one any more."""


def _of_all(  # noqa: PLR0913 - whose tables, as of what, and how
    root: Files,
    at: _Batch,
    tables: Iterable[str],
    *,
    pipeline: str,
    parked: Mapping[str, tuple[int, ...]],
    threads: int | None,
) -> Versions:
    asked = [*sorted(tables), QUARANTINE_TABLE, CHANGES_TABLE, BATCHES_TABLE]
    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(partial(_or_why_not, root, at, parked), asked))
    versions = tuple(one for one in found if isinstance(one, TableVersion))
    unreadable = {table: one for table, one in zip(asked, found, strict=True) if isinstance(one, str)}
    return Versions(pipeline, at.generation, at.number, versions, unreadable)


@dataclass(frozen=True, slots=True)
class _Batch:
    """A batch that is whole, of a generation; the newest one has what replays, and a reset, made of the tables since.

    later  the generations that have come behind it
    under_way  more, of which no batch is whole, so that their first one may be in some tables alone
    """

    generation: str
    number: int
    is_newest: bool = False
    later: frozenset[str] = frozenset()
    under_way: frozenset[str] = frozenset()

    def is_before(self, told: Iterable[str]) -> bool:
        """Whether an entry with these transactions is of a generation behind it."""
        return any(app.partition("/")[0] in self.later or is_of_batch(app, *self.under_way) for app in told)


@dataclass(frozen=True, slots=True)
class _Laid:
    """The newest version that has the same rows in other files, without those that were erased: upkeep may have deleted some of the batch's own.

    version  -1 where there is none
    erased   whether some were
    """

    version: int = -1
    erased: bool = False


def _or_why_not(
    root: Files, at: _Batch, parked: Mapping[str, tuple[int, ...]], table: str
) -> TableVersion | str | None:
    """A table as of a batch; in words why nobody can open it, None where it had no row by then."""
    try:
        return _as_of(root, at, parked, table)
    except (ConnectionError, TimeoutError):
        raise  # the place of all of them
    except _UNREADABLE as error:
        return _said(error)


def _said(error: Exception) -> str:
    return without_logins(" ".join(str(error).split()))[:_MOST_TOLD] or type(error).__name__


def _whole(  # noqa: PLR0913 - whose batch, and which
    root: Files,
    pipeline: str,
    generations: set[str],
    batch: int | None,
    own: str | None = None,
    *,
    had: AbstractSet[str] = frozenset(),
) -> _Batch:
    """The generation and the number of a batch that the ledger has, which every batch comes to last.

    own  the checkpoint's generation, where it is known
    had  those that own no table any more: of their batches none is meant
    """
    place = root.below(BATCHES_TABLE)
    try:
        return _told(place, pipeline, generations, batch, own, had=had)
    except (ConnectionError, TimeoutError):
        raise
    except _UNREADABLE as error:
        raise PipelineError(
            f"{place.url} cannot be read ({_said(error)}), and without it nobody can tell which batch is whole: have what was done to it taken back, or "
            "restore it from a copy"
        ) from error


def _told(  # noqa: PLR0913 - as `_whole`
    place: Files,
    pipeline: str,
    generations: set[str],
    batch: int | None,
    own: str | None,
    *,
    had: AbstractSet[str],
) -> _Batch:
    newest = newest_version(place)
    apps = {app_of(generation, BATCHES_TABLE): generation for generation in generations}
    nearest: int | None = None
    later = set[str]()
    for version in range(-1 if newest is None else newest, -1, -1):
        if newest == version + _FELLOWS and nearest is None:
            found = _in_snapshot(place, apps, own)
            if found is None:
                break
            # Of several nobody tells which came last.
            if batch is None and (found[0] == own or len(apps) == 1):
                return _Batch(*found, is_newest=True)
        try:
            told = _transactions(place, version)
        except FileNotFoundError:
            # What others did since may have outlived it.
            if nearest is None and (found := _in_snapshot(place, apps, own)) is not None:
                nearest = found[1]
                if batch in (None, nearest):
                    return _Batch(*found, is_newest=True)
            break
        later |= {name for app in told if (name := app.partition("/")[0]) in had}
        for app, number in told.items():
            if app not in apps:
                continue
            if batch in (None, number):
                return _Batch(apps[app], number, nearest is None, frozenset(later - {apps[app]}))
            nearest = number
            later.add(apps[app])
    what = "no batch that is whole" if batch is None else f"no batch {batch}"
    known = "" if nearest is None else f"; the oldest one that its log tells of is {nearest}"
    remedy = (
        "Run it first: as soon as it has a batch, its tables have versions. If it has some, see that `name` and `sink.root` are those of that run"
        if nearest is None
        else "Look into its rows for the numbers of batches (`batch_id`)"
    )
    kind = _NoneWhole if nearest is None else PipelineError
    raise kind(f"{place.url} tells of {what} of pipeline {pipeline}{known}. {remedy}")


def _in_snapshot(place: Files, apps: Mapping[str, str], own: str | None) -> tuple[str, int] | None:
    """The newest batch of any of these applications, by its name, as a table's checkpoint keeps it: of `own`, if that has one, as each counts by itself."""
    handle = opened(place)
    told = {name: handle.transaction_version(app) for app, name in apps.items()}
    numbers = {name: one for name, one in told.items() if one is not None}
    if own is not None and own in numbers:
        return own, numbers[own]
    return max(numbers.items(), key=itemgetter(1), default=None)


def _parked(checkpoint: Checkpoint, generation: str) -> Mapping[str, tuple[int, ...]]:
    """Which batches wait for which tables, where this machine has the checkpoint."""
    there = read_generation(checkpoint)
    so_far = None if there is None or there.id != generation else checkpoint.log.state().so_far
    return {} if so_far is None else so_far.parked


def _as_of(root: Files, at: _Batch, parked: Mapping[str, tuple[int, ...]], table: str) -> TableVersion | None:
    place, batch = root.below(table), at.number
    newest = newest_version(place)
    if newest is None:
        return None
    waits = sum(number <= batch for number in parked.get(table, ()))
    app = app_of(at.generation, table)
    before_later, replayed, last_replay, laid = newest, False, -1, _Laid()
    for version in range(newest, -1, -1):
        if newest == version + _FELLOWS and at.is_newest and not app.endswith(EVENTS):
            # Otherwise a later batch came, or it was altered.
            with suppress(PipelineError, DeltaError):
                return _as_now(place, table, at, waits)
        try:
            content = _content(place, version)
        except FileNotFoundError:
            return _as_now(place, table, at, waits)
        told = transactions_in(content)
        number, behind = told.get(app), at.is_before(told)
        if number is not None and number <= batch:
            return TableVersion(table, place.url, max(version, laid.version, last_replay), number, waits)
        # A shared table has batches of others in between; an entity's has one owner after the other.
        is_of_events = app.endswith(EVENTS) and any(one.endswith(EVENTS) for one in told)
        if number is None and is_of_events and not behind:
            return TableVersion(table, place.url, max(version, laid.version, last_replay), None, waits)
        if number is not None or behind:
            before_later, replayed, last_replay, laid = version - 1, False, -1, _Laid()
        if any(map(is_of_replay, told)) and not behind:
            replayed = True
            last_replay = (
                max(version, laid.version, last_replay) if at.is_newest and app.endswith(EVENTS) else -1
            )
        laid = _still_laid(content, laid, version, comes=bool(told), shared=not app.endswith(EVENTS))
    # All its rows came back from quarantine, or from bronze: no batch's number is theirs, and so none is later.
    filled = replayed and app.endswith(EVENTS)
    return TableVersion(table, place.url, before_later, None, waits) if filled else None


def _still_laid(content: bytes, behind: _Laid, version: int, *, comes: bool, shared: bool) -> _Laid:
    """The same as of the entry before: where rows came, or others changed some, there is none, but for what was erased behind that.

    `comes` says whether it has a transaction. To a table that pipelines share nobody commits without one but upkeep, which lets go what is old.
    """
    changes, erases = bool(_ROWS_CHANGE.search(content)), _ERASURE in content
    if not shared and (comes or (changes and not (erases or behind.erased))):
        return _Laid()
    is_laid = erases or ((changes or bool(_ROWS_ARE_LAID.search(content))) and not comes)
    return _Laid(max(behind.version, version) if is_laid else behind.version, erases or behind.erased)


def _as_now(place: Files, table: str, at: _Batch, waits: int) -> TableVersion | None:
    """The table as it is, where no later batch came to it than this one: its log goes no further back."""
    handle, app = opened(place), app_of(at.generation, table)
    number = handle.transaction_version(app)
    behind = (handle.transaction_version(app_of(one, table)) for one in (*at.later, *at.under_way))
    if (number is not None and number > at.number) or any(one is not None for one in behind):
        raise PipelineError(
            f"the log of {place.url} goes back no further than to what is behind batch {at.number}: name a later batch, and let logs "
            "last longer (`sink.log_retention_days`)"
        )
    if number is None and not app.endswith(EVENTS):
        return None
    return TableVersion(table, place.url, handle.version(), number, waits)


def _transactions(place: Files, version: int) -> dict[str, int]:
    """Those of a version. Raises as `_content`."""
    return transactions_in(_content(place, version))


def _content(place: Files, version: int) -> bytes:
    """A version's entry. Raises FileNotFoundError where it is gone, ValueError where it is none any more: it may have been a batch's."""
    content = place.read(entry_path(version)).strip()
    if not (content.startswith(b"{") and content.endswith(b"}")):
        raise ValueError(f"version {version} of its log was emptied, cut off or edited")
    return content
