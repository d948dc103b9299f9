"""What `mode: upsert` and `mode: history` say of tables in which a row has a key: it takes the place of the one before, or comes after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag

from distributary.codecs.envelope.said import POSITION
from distributary.ingest.columns import safe_names
from distributary.ingest.settings.deletes import DAYS, Deleting
from distributary.values import Name, Wrong, WrongValues

RECORD_KEY: Literal["kafka_key"] = "kafka_key"
"""What `keys` says where a record's own key is its row's."""

_MOST = 16


def _is_list(given: Any) -> Any:
    if isinstance(given, str) and given != RECORD_KEY:
        raise ValueError(f"write {RECORD_KEY}, or fields as a list, such as [{given}]")
    return given


def whole_paths(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Fields, dotted where they are nested, each once. Raises WrongValues."""
    broken = [n for n, path in enumerate(paths) if not all(path.split("."))]
    if broken:
        raise WrongValues(
            *(((n,), "a part between dots is empty; write for example customer.id") for n in broken)
        )
    twice = [n for n, path in enumerate(paths) if path in paths[:n]]
    if twice:
        raise WrongValues(*(((n,), "written twice; keep one") for n in twice))
    return paths


Mode: TypeAlias = Literal["append", "upsert", "history"]

Moved: TypeAlias = Literal["stop", "timestamp"]

Update: TypeAlias = Literal["all", "present"]

Fields: TypeAlias = Annotated[
    tuple[Name, ...], Field(min_length=1, max_length=_MOST), AfterValidator(whole_paths)
]

Ignored: TypeAlias = Annotated[
    tuple[Name, ...], Field(min_length=1, max_length=8 * _MOST), AfterValidator(whole_paths)
]

RowKeys: TypeAlias = Annotated[
    Annotated[Literal["kafka_key"], Tag("record")] | Annotated[Fields, Tag("fields")],
    Discriminator(lambda value: "record" if isinstance(value, str) else "fields"),
    BeforeValidator(_is_list),
]


BOUNDS = ("valid_from", "valid_to", "is_current")
"""What a table that keeps what was calls since when a row is true, since when it is true no more, and whether it still is."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """How a table keeps what was.

    ignored  the payload's fields that make no history, dotted where they are nested
    columns  as `BOUNDS`, by the names that they have there
    days     for how long it is remembered of each record that it came
    """

    ignored: tuple[str, ...] = ()
    columns: tuple[str, str, str] = BOUNDS
    days: float = DAYS

    @property
    def lasting(self) -> Keeping:
        """What cannot change once rows have landed by it."""
        return replace(self, days=DAYS)

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {"ignored": list(self.ignored), "columns": list(self.columns), "days": self.days}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Keeping:
        """What `to_json` gave. Raises KeyError, ValueError or TypeError for anything else."""
        since, until, current = value["columns"]
        return cls(tuple(value["ignored"]), (since, until, current), value["days"])


@dataclass(frozen=True, slots=True)
class Upsert:
    """How a table's rows take the place of earlier ones, or come after them.

    keys         the payload's fields that name a row, dotted where they are nested; none where the record's own key does
    sequence_by  those that say which of two records is newer; none where their positions in Kafka do
    moved        what becomes of a known key in another partition, where positions order its records: the run stops, or the
                 records' times order them from there on
    update       whether a newer record sets all columns, or those that its own schema has
    deletes      which records take their key's row away; None: none does
    history      how earlier rows stay, where they do; None: they do not
    """

    keys: tuple[str, ...] = ()
    sequence_by: tuple[str, ...] = ()
    moved: Moved = "stop"
    update: Update = "all"
    deletes: Deleting | None = None
    history: Keeping | None = None

    @property
    def mode(self) -> Mode:
        """The mode that it comes of."""
        return "upsert" if self.history is None else "history"

    @property
    def by_position(self) -> bool:
        """Whether records' positions in their topics alone say which is newer."""
        return not self.sequence_by and self.moved == "stop"

    @property
    def remembers(self) -> bool:
        """Whether there is anything that a table beside remembers: deletes, or all records."""
        return self.history is not None or (self.deletes is not None and self.deletes.remembered)

    @property
    def remember_days(self) -> float:
        """For how long."""
        if self.history is not None:
            return self.history.days
        return DAYS if self.deletes is None else self.deletes.days

    @property
    def bounds(self) -> tuple[str, ...]:
        """The columns that say when a row was true, if there are any: no field of a record is called so."""
        return () if self.history is None else self.history.columns

    @property
    def ignored(self) -> tuple[str, ...]:
        """The fields that make no history."""
        return () if self.history is None else self.history.ignored

    @property
    def mark(self) -> str | None:
        """The column that says which rows are deleted, of those that stay."""
        return None if self.deletes is None else self.deletes.mark

    @property
    def fields(self) -> tuple[str, ...]:
        """All of these."""
        return (*self.keys, *self.sequence_by)

    @property
    def named_by(self) -> Literal["kafka_key"] | tuple[str, ...]:
        """What names a row, as users write it."""
        return self.keys or RECORD_KEY

    def __str__(self) -> str:
        """As people read it."""
        by = f", sequence_by {', '.join(self.sequence_by)}" if self.sequence_by else ""
        update = "" if self.update == "all" else f", update {self.update}"
        deletes = "" if self.deletes is None else f", {self.deletes}"
        ignored = f", ignore {', '.join(self.ignored)}" if self.ignored else ""
        return f"mode {self.mode}, keys {', '.join(self.keys) or RECORD_KEY}{by}{update}{deletes}{ignored}"

    @property
    def lasting(self) -> Upsert:
        """What cannot change once rows have landed by it."""
        history = None if self.history is None else self.history.lasting
        return Upsert(self.keys, self.sequence_by, history=history)

    def to_json(self) -> dict[str, Any]:
        """What workers go by, as JSON values; all that lasts is part of it."""
        # Versions before have each column set and no row deleted, and know of nothing else.
        update = {} if self.update == "all" else {"update": self.update}
        deletes = {} if self.deletes is None else {"deletes": self.deletes.to_json()}
        by = {"keys": list(self.keys), "sequence_by": list(self.sequence_by)}
        if self.history is not None:
            # Those that know of no history find no keys here, and have nothing to do with such a table.
            return {"mode": "history", "by": by, "history": self.history.to_json(), **deletes}
        return {**by, **update, **deletes}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Upsert:
        """What `to_json` gave. Raises KeyError or TypeError for anything else."""
        deletes, history = value.get("deletes"), value.get("history")
        by = value if history is None else value["by"]
        return cls(
            tuple(by["keys"]),
            tuple(by["sequence_by"]),
            update=value.get("update", "all"),
            deletes=None if deletes is None else Deleting.from_json(deletes),
            history=None if history is None else Keeping.from_json(history),
        )


@dataclass(frozen=True, slots=True)
class Written:
    """What a rule says of how rows land, as its file has it.

    keys, sequence_by, moved, update, deletes, history  None where it does not say
    """

    mode: Mode
    keys: Literal["kafka_key"] | tuple[str, ...] | None = None
    sequence_by: tuple[str, ...] | None = None
    moved: Moved | None = None
    update: Update | None = None
    deletes: Deleting | None = None
    history: Keeping | None = None

    @property
    def upsert(self) -> Upsert | None:
        """What it comes to."""
        if self.mode == "append" or self.keys is None:
            return None
        keys = () if self.keys == RECORD_KEY else tuple(self.keys)
        history = (self.history or Keeping()) if self.mode == "history" else None
        moved, update = self.moved or "stop", self.update or "all"
        return Upsert(keys, self.sequence_by or (), moved, update, self.deletes, history)


def wrong_upsert(written: Written, properties: Mapping[str, str | None], wider: str) -> Iterator[Wrong]:
    """What does not go together in a rule; `properties` are all that its tables get, and `wider` is what they do about wider types."""
    if written.history is not None and written.mode != "history":
        yield (
            ("history",),
            f"with mode {written.mode} no row says when it was true; leave it out, or write mode: history",
        )
    if written.mode == "append":
        said = (
            ("keys", written.keys),
            ("sequence_by", written.sequence_by),
            ("on_repartition", written.moved),
            ("update", written.update),
            ("deletes", written.deletes),
        )
        for name, given in said:
            if given is not None:
                yield (name,), "with mode append each record is a row; leave it out, or write mode: upsert"
        return
    if written.sequence_by and written.moved is not None:
        yield (
            ("on_repartition",),
            "with sequence_by it does not matter where a record comes from; leave it out",
        )
    if written.keys is None:
        yield (
            ("keys",),
            f"with mode {written.mode} a row is found by its key; write keys: {RECORD_KEY}, or a list of fields",
        )
    if written.mode == "history":
        yield from _wrong_history(written, written.history or Keeping())
    if properties.get("delta.appendOnly") == "true":
        yield (
            ("mode",),
            "delta.appendOnly lets nobody change rows; take that property away, or write mode: append",
        )
    if wider == "widen":
        yield (
            ("policies", "wider_type"),
            "a table with one row a key keeps its columns' types: only Spark adds rows where they became wider; write rescue here",
        )


def _wrong_history(written: Written, keeping: Keeping) -> Iterator[Wrong]:
    """What does not go together in a rule of tables that keep what was."""
    sequence = written.sequence_by or ()
    if not sequence:
        yield (
            ("sequence_by",),
            "with mode history a row is true since a time; write sequence_by, the first field of which has one",
        )
    elif sequence[0] == POSITION:
        yield (
            ("sequence_by", 0),
            f"a position says nothing of when; write a field that has a time before it, such as [__source_ts, {POSITION}]",
        )
    if written.update == "present":
        yield ("update",), "with mode history a row is what one record says; leave it out"
    if written.deletes is not None and written.deletes.mark is not None:
        yield ("deletes", "mark"), "with mode history a delete ends its row, which stays; leave it out"
    fields = (*(() if written.keys in (None, RECORD_KEY) else written.keys or ()), *sequence)
    for place, name in enumerate(keeping.ignored):
        if name in fields:
            yield (
                ("history", "ignore", place),
                "it names rows, or orders them, and makes no history as it is; leave it out",
            )
    folded = [safe_names.fold(name) for name in keeping.columns]
    for place, (bound, name) in enumerate(zip(BOUNDS, keeping.columns, strict=True)):
        if safe_names.column_name(name, frozenset()) != name:
            yield ("history", bound), "Delta takes no column of this name; use letters, digits and _"
        elif folded[place] in folded[:place] or folded[place] in map(
            safe_names.fold, (*fields, *keeping.ignored)
        ):
            yield ("history", bound), "another column has this name; choose another"
