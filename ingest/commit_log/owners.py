"""Whose each table is: a record under the root of the tables, numbered, of which the newest counts.

`.distributary/owners/0000000003/<table>.json`. A pipeline asks when it first writes to a table in a run. While its log goes on nobody else
can have taken the table since: whoever takes one closes its owner's log first.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from distributary.errors import CheckpointMismatch, NewerFormat, TablesOfAnotherRun
from distributary.ingest.commit_log import entry_json
from distributary.ingest.commit_log.entries import HandedOver, Owner
from distributary.ingest.commit_log.reading import CommitLog
from distributary.ingest.storage.contract import Files

_FOLDER, _SUFFIX = ".distributary/owners", ".json"

# How often a table is asked for again because others put records at the same time.
_ATTEMPTS = 20

# From so many questions on, each number is listed in their place.
_MANY = 100

# An owner's log where it can be reached, and is his.
Reach = Callable[[Owner], CommitLog | None]


def _nowhere(_: Owner) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Whose:
    """A pipeline, as whoever looks for what is its own knows it among several that have theirs together.

    name    what it is called
    names   that, and what it was called before, but for names that others have by now
    mine    the generations of its checkpoints, as far as its tables tell; with those of its replays where records in quarantine are asked about
    others  those of others
    now     that of its checkpoint, where it is known
    """

    name: str
    names: frozenset[str]
    mine: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    now: str | None = field(default=None, compare=False)

    @classmethod
    def of(cls, name: str) -> Whose:
        """One of which nothing is known but its name."""
        return cls(name, frozenset({name}))

    def has(self, pipeline: str | None, generation: str | None) -> bool:
        """Whether what tells this name and generation is its own; by a name of before nothing is, as another may have that by now and no table yet."""
        named = pipeline is None or pipeline == self.name
        return generation in self.mine or (named and generation not in self.others)

    def tells(self, told: Mapping[str, Any]) -> bool:
        """Whether what is kept under the root is its own, by what `said` gave then; earlier versions gave the name alone."""
        generation = told.get(_GENERATION)
        return told[_PIPELINE] in self.names if generation is None else self.has(told[_PIPELINE], generation)

    @property
    def said(self) -> dict[str, str]:
        """What is said of whose something is that is kept under the root."""
        return said_of(self.name, self.now)


_PIPELINE, _GENERATION = "pipeline", "generation"


def said_of(pipeline: str, generation: str | None) -> dict[str, str]:
    """The same of a pipeline by its name, and by the generation of its checkpoint where that is known."""
    return {_PIPELINE: pipeline} | ({} if generation is None else {_GENERATION: generation})


@dataclass(frozen=True, slots=True)
class Records:
    """The records under one root, for anybody to read.

    threads  how many tables are asked about side by side
    """

    root: Files
    threads: int = 8

    def numbers(self) -> list[int]:
        """The numbers that records have, ascending: one more for each time that tables went from one owner to the next."""
        return sorted(int(name) for name in self.root.folders(_FOLDER) if name.isascii() and name.isdigit())

    def tables(self) -> dict[str, list[int]]:
        """The tables that have records, by one listing a number, and the numbers of those."""
        found: dict[str, list[int]] = {}
        for number in self.numbers():
            for name in self.root.names(_folder(number)):
                found.setdefault(name.removesuffix(_SUFFIX), []).append(number)
        return found

    def all(self) -> dict[str, Owner]:
        """The owner of each table that has one."""
        tables = self.tables()
        if not tables:
            return {}
        with ThreadPoolExecutor(min(self.threads, len(tables))) as pool:
            found = zip(tables, pool.map(self.newest, tables, tables.values()), strict=True)
        return {table: owner for table, (_, owner) in found if owner is not None}

    def ever(self) -> dict[str, list[Owner]]:
        """All owners that each table has and had, as far as their records can be read."""
        tables = self.tables()
        asked = [(table, number) for table, numbers in tables.items() for number in numbers]
        with ThreadPoolExecutor(max(1, min(self.threads, len(asked)))) as pool:
            told = pool.map(lambda one: self._told(_path(*one)), asked)
        found: dict[str, list[Owner]] = {table: [] for table in tables}
        for (table, _), owner in zip(asked, told, strict=True):
            found[table] += [] if owner is None else [owner]
        return found

    def pipelines(self) -> dict[str, str]:
        """The name of each one's pipeline."""
        return {table: owner.pipeline for table, owner in self.all().items()}

    def of_pipeline(self, pipeline: str, generation: str | None = None) -> tuple[list[str], Whose]:
        """The tables that are a pipeline's, in order, and what tells its own from others' where several have theirs together.

        `generation` is one that is its own, though its tables may still tell the name that it had before.
        """
        now = self.all()
        mine = {owner.generation for owner in now.values() if owner.pipeline == pipeline}
        mine |= set() if generation is None else {generation}
        tables = sorted(table for table, owner in now.items() if owner.generation in mine)
        ever = self.ever()
        mine |= {owner.generation for table in tables for owner in ever[table]}
        others = {owner.pipeline for owner in now.values() if owner.generation not in mine}
        told = {owner.pipeline for owners in ever.values() for owner in owners if owner.generation in mine}
        theirs = {owner.generation for table in ever.keys() - tables for owner in ever[table]} - mine
        names = frozenset({pipeline, *(told - others)})
        return tables, Whose(pipeline, names, frozenset(mine), frozenset(theirs), generation)

    def of(self, table: str) -> Owner | None:
        """Whose a table is, by its folder; None of one that is nobody's. Raises CheckpointMismatch for a record that was edited."""
        return self.newest(table, self.numbers())[1]

    def newest(self, table: str, numbers: Sequence[int]) -> tuple[int, Owner | None]:
        """The number of the newest record among these, -1 where there is none, and whose the table is by it."""
        newest = -1
        for number in reversed(numbers):
            there, owner = self._read(_path(table, number))
            newest = max(newest, number) if there else newest
            if owner is not None:
                return newest, owner
        return newest, None

    def put(self, table: str, number: int, owner: Owner) -> bool:
        """Whether the record of this number is this one; it is not synced.

        A loss of power may empty it or cut it off: whoever put it is gone by then, and puts the next one.
        """
        self.root.make_folder(_folder(number))
        value = {"id": uuid.uuid4().hex, "owner": asdict(owner)}
        return self.root.put_new(_path(table, number), entry_json.to_bytes(value), durable=False)

    def _read(self, path: str) -> tuple[bool, Owner | None]:
        """Whether there is a record, and what it says."""
        where = f"{self.root.url}/{path}"
        try:
            data = self.root.read(path)
        except FileNotFoundError:
            return False, None
        try:
            return True, Owner(**entry_json.value_of(data, where)["owner"]) if self._is_whole(data) else None
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointMismatch(
                f"{where} was cut off or edited ({error}). Restore it, as it says whose the table is"
            ) from error

    def _told(self, path: str) -> Owner | None:
        try:
            return self._read(path)[1]
        except CheckpointMismatch:
            # Who has the table now is asked elsewhere, and refused.
            return None

    def _is_whole(self, data: bytes) -> bool:
        """Whether a loss of power did not empty a record or cut it off, as it may in a folder."""
        return data.rstrip().endswith(b"}") or (self.root.remote and bool(data))


class Owners:
    """The owners of the tables under one root, as one pipeline asks and answers."""

    def __init__(
        self, records: Records, me: Owner, reach: Reach = _nowhere, dead: Collection[str] = ()
    ) -> None:
        """`dead` are generations of which the user says that no run is alive."""
        self.records, self.me, self._reach, self._dead = records, me, reach, frozenset(dead)
        self._mine: set[str] = set()
        self._heirs: dict[Owner, Owner] = {}

    def claim(self, tables: Iterable[str]) -> None:
        """Have tables that are nobody's, or this pipeline's already; each is asked about once a run.

        Raises TablesOfAnotherRun, and OSError where nobody can tell just now to whom a table's owner handed his log over.
        """
        unasked = [table for table in tables if table not in self._mine]
        if not unasked:
            return
        # As they are now: where others come in between, putting the next one tells.
        numbers = self._numbers(unasked)
        with ThreadPoolExecutor(min(self.records.threads, len(unasked))) as pool:
            # Who is refused one of them leaves none behind as his: the run ends by it.
            wanted = dict(zip(unasked, pool.map(self._wanted, unasked, numbers), strict=True))
            free = {table: number for table, number in wanted.items() if number is not None}
            put = list(pool.map(self._taken, free, free.values()))
        # What follows would outlive them, and then tables with rows were nobody's.
        self.records.root.sync(filter(None, put))
        self._mine.update(unasked)

    def _numbers(self, tables: Sequence[str]) -> list[list[int]]:
        """The numbers that each of these tables may have a record of; one that is not told has no record, or another one comes in between."""
        numbers = self.records.numbers()
        if len(tables) * len(numbers) < _MANY:
            return [numbers] * len(tables)
        found = self.records.tables()
        return [found.get(table, []) for table in tables]

    def mine(self) -> list[str]:
        """The tables that are this pipeline's by their records, as far as those can be read."""
        return list(self._own(self._all()))

    def pipelines(self) -> dict[str, str]:
        """The name of each table's pipeline: of this one's the name that it has now, whatever their records say yet."""
        return {
            table: self.me.pipeline if self._is_me(owner) else owner.pipeline
            for table, owner in self.records.all().items()
        }

    def _own(self, told: Mapping[str, Owner | None]) -> dict[str, Owner]:
        return {table: owner for table, owner in told.items() if owner is not None and self._is_me(owner)}

    def _all(self) -> dict[str, Owner | None]:
        """What the records of all tables say, but for those that cannot be read; None of one of which a loss of power left nothing."""
        tables = self.records.tables()
        with ThreadPoolExecutor(max(1, min(self.records.threads, len(tables)))) as pool:
            told = pool.map(self._told, tables, tables.values())
            return {table: owner for table, said in zip(tables, told, strict=True) for owner in said}

    def _told(self, table: str, numbers: Sequence[int]) -> list[Owner | None]:
        """What a table's records say; nothing at all where the newest one cannot be read."""
        try:
            return [self.records.newest(table, numbers)[1]]
        except CheckpointMismatch:
            return []

    def adopt(self, tables: Collection[str]) -> None:
        """Have those of the tables of one's own log that were made before there were records. Raises TablesOfAnotherRun for a copy of the log.

        All of its tables tell the pipeline's name from here on, also such as get no rows any more: by that they are found, whatever it was called meanwhile.
        """
        recorded = self.records.tables().keys()
        for table in sorted(recorded & set(tables)):
            owner = self.records.of(table)
            if owner is not None and owner.generation == self.me.generation:
                # All of them are at the same place, or none is.
                self.claim([table])
                break
        told = self._all()
        # And those whose record a loss of power emptied amid a start like this one.
        emptied = {table for table, owner in told.items() if owner is None}
        self.claim(sorted(set(tables) - (recorded - emptied)))
        own = self._own(told)
        self.claim(sorted(table for table, owner in own.items() if owner.pipeline != self.me.pipeline))

    def take_over(self) -> None:
        """Have all tables of logs that were handed over to this one, and of those that are dead. Raises OSError as `heir` does."""
        self.claim(
            table
            for table, owner in self.records.all().items()
            if not self._is_me(owner) and self._was_handed_over(owner)
        )

    def _was_handed_over(self, owner: Owner) -> bool:
        try:
            return self._follows(owner)
        except OSError:
            if owner.pipeline == self.me.pipeline:
                raise
            # Another pipeline's hardly is, and is asked about again once there are rows for its table.
            return False

    def _wanted(self, table: str, numbers: Sequence[int]) -> int | None:
        """The number of the record by which a table would be this pipeline's; None where it is. Raises as `claim`."""
        number, owner = self.records.newest(table, numbers)
        if owner is not None and self._is_me(owner) and owner.pipeline == self.me.pipeline:
            return None
        if owner is not None and not self._is_me(owner) and not self._follows(owner):
            raise self._refused(table, owner)
        return number + 1

    def _taken(self, table: str, number: int | None) -> str | None:
        """The path of the record that it takes, which is to have this number; None where another one of this pipeline was first."""
        for _ in range(_ATTEMPTS):
            if number is None:
                return None
            if self.records.put(table, number, self.me):
                return _path(table, number)
            number = self._wanted(table, self.records.numbers())
        raise CheckpointMismatch(
            f"{self.records.root.url}/{_path(table, 0)}: {_ATTEMPTS} times another record was first; run again"
        )

    def _is_me(self, owner: Owner) -> bool:
        return (owner.log, owner.generation) == (self.me.log, self.me.generation)

    def _follows(self, owner: Owner) -> bool:
        """Whether this pipeline has what that owner had."""
        alike = owner.pipeline == self.me.pipeline or owner.generation == self.me.generation
        if alike and owner.generation in self._dead:
            return True
        if owner not in self._heirs:
            self._heirs[owner] = heir(owner, self._reach)
        return self._is_me(self._heirs[owner])

    def _refused(self, table: str, owner: Owner) -> TablesOfAnotherRun:
        whose = f"table {self.records.root.url}/{table} is that of {owner}"
        if owner.generation == self.me.generation:
            return TablesOfAnotherRun(
                f"{whose}, and this checkpoint, {self.me.log}, is a copy of that one or was moved. Run the pipeline with the one where "
                "it was; or, once no run of that one is alive any more, go on here with "
                f"`{confirmation([owner.generation])}` in the settings"
            )
        return TablesOfAnotherRun(
            f"{whose}, and two pipelines would mix their rows in it. Route this pipeline's records to other tables; or, to go on in "
            f"place of that pipeline, run {owner.pipeline!r} with a new checkpoint and `start: from_tables`"
        )


def heir(owner: Owner, reach: Reach) -> Owner:
    """Who has what an owner had, as far as logs are there that tell: whoever it was handed over to, or the owner himself.

    Raises NewerFormat for one that only a newer version reads, and OSError for one that cannot be read just now: what it would tell is
    not known.
    """
    met: set[str] = set()
    while owner.generation not in met:
        met.add(owner.generation)
        try:
            log = reach(owner)
            newest = None if log is None else log.state().newest
        except NewerFormat:
            raise
        # Such a one tells nothing at any other time, either.
        except (CheckpointMismatch, FileNotFoundError, PermissionError, NotADirectoryError):
            break
        if not isinstance(newest, HandedOver):
            break
        owner = newest.to
    return owner


def confirmation(generations: Iterable[str]) -> str:
    """The setting by which a user says that no run of these generations is alive."""
    return "confirm_dead: [{}]".format(", ".join(f'"{generation}"' for generation in generations))


def _path(table: str, number: int) -> str:
    return f"{_folder(number)}/{table}{_SUFFIX}"


def _folder(number: int) -> str:
    # Not a folder a table, which would take longer to make than all else together.
    return f"{_FOLDER}/{number:010d}"
