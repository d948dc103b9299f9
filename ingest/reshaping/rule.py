"""What a rule of tables says of their columns, as workers and driver go by it: which fields, by which names, and what of their values."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from distributary.codecs.types.fields import part
from distributary.ingest.columns.safe_names import fold

Path: TypeAlias = tuple[str, ...]

What: TypeAlias = Literal["take", "leave", "rename", "cast", "hash", "mask"]

# What nobody may learn of a value from whatever lands.
HIDING: frozenset[What] = frozenset({"leave", "hash", "mask"})

# What is done with a value, so that one of them is enough.
OF_VALUES: frozenset[What] = frozenset({"hash", "mask", "cast"})

Source: TypeAlias = Literal["string", "bigint", "double", "boolean", "header", "timestamp_type", "day"]

OfKey: TypeAlias = Literal["keep", "leave", "hash"]


@dataclass(frozen=True, slots=True)
class Op:
    """One thing that is done with a field.

    to    the new name, the type, or the text that stands in place of each value
    last  of a mask without a text: how many characters of a value are kept
    """

    what: What
    to: str = ""
    last: int = 0


@dataclass(frozen=True, slots=True)
class Added:
    """A column that no field is for.

    source  the type of a constant, or what it is made of
    value   the constant as text, the record header's name, or the path of the field whose day it is
    """

    name: str
    source: Source
    value: str = ""


@dataclass(frozen=True, slots=True)
class Secret:
    """What values are hashed with; it is never shown."""

    value: bytes = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """By what it is recognised, and not told."""
        return hmac.digest(self.value, b"distributary: which secret", "sha256").hex()[:16]


@dataclass(frozen=True, slots=True)
class Reshape:
    """What becomes of records' columns before anything else looks at them.

    ops      by the path of a field in the record
    added    further columns
    secret   what hashes are made with
    key      what becomes of the record's own key
    payload  whether a record that goes to quarantine is kept there
    """

    ops: tuple[tuple[Path, Op], ...] = ()
    added: tuple[Added, ...] = ()
    secret: Secret | None = None
    key: OfKey = "keep"
    payload: bool = True

    @property
    def headers(self) -> tuple[str, ...]:
        """The record headers that become columns."""
        return tuple(one.value for one in self.added if one.source == "header")

    @property
    def hides(self) -> bool:
        """Whether something of records is to be seen by nobody."""
        return any(op.what in HIDING for _, op in self.ops)

    @property
    def timestamp_type(self) -> bool:
        """Whether it is a column what a record's time in Kafka says."""
        return any(one.source == "timestamp_type" for one in self.added)

    def names_by(self, keys: Iterable[str]) -> str | None:
        """The fingerprint of the secret by whose hashes rows are named; None where they are named by none.

        keys  the fields that name them, dotted, as they are called from here on; none where the record's own key does
        """
        fields = [self.came_from(key.split(".")) for key in keys]
        hashed = {tuple(map(fold, path)) for path, op in self.ops if op.what == "hash"}
        found = not hashed.isdisjoint(tuple(map(fold, path)) for path in fields)
        if self.secret is None or not (found if fields else self.key == "hash"):
            return None
        return self.secret.fingerprint

    def came_from(self, names: Iterable[str]) -> Path:
        """The path of a field in the record, by the names that lead to it from here on."""
        renamed = {(*path[:-1], op.to): path for path, op in self.ops if op.what == "rename"}
        found: Path = ()
        for name in names:
            found = renamed.get((*found, name), (*found, name))
        return found

    def __str__(self) -> str:
        """As people read it."""
        said: dict[str, list[str]] = {}
        for path, op in self.ops:
            name = ".".join(map(part, path))
            behind = f" as {op.to}" if op.what in ("rename", "cast") else f" but {op.last}" if op.last else ""
            said.setdefault(op.what, []).append(f"{name}{behind}")
        for one in self.added:
            said.setdefault("add", []).append(one.name)
        words = [f"{what} {', '.join(names)}" for what, names in said.items()]
        words += [] if self.key == "keep" else [f"{self.key} the record's key"]
        words += [] if self.payload else ["drop from quarantine"]
        return "; ".join(words)

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values, with the secret's fingerprint in its place."""
        return {
            "ops": [[list(path), op.what, op.to, op.last] for path, op in self.ops],
            "added": [[one.name, one.source, one.value] for one in self.added],
            "secret": None if self.secret is None else self.secret.fingerprint,
            "key": self.key,
            "payload": self.payload,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], secrets: Callable[[str], Secret]) -> Reshape:
        """What `to_json` gave; `secrets` gives them by their fingerprints. Raises KeyError or TypeError for anything else."""
        ops = tuple((tuple(path), Op(what, to, last)) for path, what, to, last in value["ops"])
        added = tuple(Added(*one) for one in value["added"])
        known = value["secret"]
        secret = None if known is None else secrets(known)
        return cls(ops, added, secret, value["key"], value["payload"])

    def without_secret(self) -> Reshape:
        """The same for who makes no hashes."""
        return self if self.secret is None else replace(self, secret=None)


@dataclass(frozen=True, slots=True)
class Beside:
    """What rules of tables want of a record in Kafka beside its key and value.

    headers         the names of record headers, in the order in which workers are handed their values
    timestamp_type  whether what the record's time says is wanted
    every_header    whether all headers are wanted, too, as they came
    """

    headers: tuple[str, ...] = ()
    timestamp_type: bool = False
    every_header: bool = False


NOTHING_BESIDE = Beside()
