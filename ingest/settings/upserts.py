"""What `mode: upsert` says of tables whose rows take the place of earlier ones of the same key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag

from distributary.ingest.settings.deletes import Deleting
from distributary.values import Name, Wrong, WrongValues

RECORD_KEY: Literal["kafka_key"] = "kafka_key"
"""What `keys` says where a record's own key is its row's."""

_MOST = 16


def _is_list(given: Any) -> Any:
    if isinstance(given, str) and given != RECORD_KEY:
        raise ValueError(f"write {RECORD_KEY}, or fields as a list, such as [{given}]")
    return given


def _whole_paths(paths: tuple[str, ...]) -> tuple[str, ...]:
    broken = [n for n, path in enumerate(paths) if not all(path.split("."))]
    if broken:
        raise WrongValues(
            *(((n,), "a part between dots is empty; write for example customer.id") for n in broken)
        )
    twice = [n for n, path in enumerate(paths) if path in paths[:n]]
    if twice:
        raise WrongValues(*(((n,), "written twice; keep one") for n in twice))
    return paths


Moved: TypeAlias = Literal["stop", "timestamp"]

Update: TypeAlias = Literal["all", "present"]

Fields: TypeAlias = Annotated[
    tuple[Name, ...], Field(min_length=1, max_length=_MOST), AfterValidator(_whole_paths)
]

RowKeys: TypeAlias = Annotated[
    Annotated[Literal["kafka_key"], Tag("record")] | Annotated[Fields, Tag("fields")],
    Discriminator(lambda value: "record" if isinstance(value, str) else "fields"),
    BeforeValidator(_is_list),
]


@dataclass(frozen=True, slots=True)
class Upsert:
    """How a table's rows take the place of earlier ones.

    keys         the payload's fields that name a row, dotted where they are nested; none where the record's own key does
    sequence_by  those that say which of two records is newer; none where their positions in Kafka do
    moved        what becomes of a known key in another partition, where positions order its records: the run stops, or the
                 records' times order them from there on
    update       whether a newer record sets all columns, or those that its own schema has
    deletes      which records take their key's row away; None: none does
    """

    keys: tuple[str, ...] = ()
    sequence_by: tuple[str, ...] = ()
    moved: Moved = "stop"
    update: Update = "all"
    deletes: Deleting | None = None

    @property
    def by_position(self) -> bool:
        """Whether records' positions in their topics alone say which is newer."""
        return not self.sequence_by and self.moved == "stop"

    @property
    def remembers(self) -> bool:
        """Whether there are deletes that a table beside remembers."""
        return self.deletes is not None and self.deletes.remembered

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
        return f"mode upsert, keys {', '.join(self.keys) or RECORD_KEY}{by}{update}{deletes}"

    @property
    def lasting(self) -> Upsert:
        """What cannot change once rows have landed by it."""
        return Upsert(self.keys, self.sequence_by)

    def to_json(self) -> dict[str, Any]:
        """What workers go by, as JSON values; all that lasts is part of it."""
        # Versions before have each column set and no row deleted, and know of nothing else.
        update = {} if self.update == "all" else {"update": self.update}
        deletes = {} if self.deletes is None else {"deletes": self.deletes.to_json()}
        return {"keys": list(self.keys), "sequence_by": list(self.sequence_by), **update, **deletes}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Upsert:
        """What `to_json` gave. Raises KeyError or TypeError for anything else."""
        deletes = value.get("deletes")
        return cls(
            tuple(value["keys"]),
            tuple(value["sequence_by"]),
            update=value.get("update", "all"),
            deletes=None if deletes is None else Deleting.from_json(deletes),
        )


@dataclass(frozen=True, slots=True)
class Written:
    """What a rule says of how rows land, as its file has it.

    keys, sequence_by, moved, update, deletes  None where it does not say
    """

    mode: str
    keys: Literal["kafka_key"] | tuple[str, ...] | None = None
    sequence_by: tuple[str, ...] | None = None
    moved: Moved | None = None
    update: Update | None = None
    deletes: Deleting | None = None

    @property
    def upsert(self) -> Upsert | None:
        """What it comes to."""
        if self.mode != "upsert" or self.keys is None:
            return None
        keys = () if self.keys == RECORD_KEY else tuple(self.keys)
        return Upsert(keys, self.sequence_by or (), self.moved or "stop", self.update or "all", self.deletes)


def wrong_upsert(written: Written, properties: Mapping[str, str | None], wider: str) -> Iterator[Wrong]:
    """What does not go together in a rule; `properties` are all that its tables get, and `wider` is what they do about wider types."""
    if written.mode != "upsert":
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
            f"with mode upsert a row is found by its key; write keys: {RECORD_KEY}, or a list of fields",
        )
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
