"""What the settings say of a table's columns: which fields land, by which names, and what of their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Annotated, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
)

from distributary.codecs.types.fields import part, parts
from distributary.ingest.columns.safe_names import RESERVED_COLUMNS, column_name, fold
from distributary.ingest.reshaping.casts import NAMES, type_of
from distributary.ingest.reshaping.rule import HIDING, Added, Op, Path, Reshape, Secret, Source, What
from distributary.values import Group, Keys, Name, Wrong, WrongValues
from distributary.values import Secret as SecretText

# Whoever knows a shorter one's length tries all of them.
_SHORTEST_SECRET = 16

_LONGS = (-(2**63), 2**63 - 1)


def _whole(path: str) -> bool:
    return ".".join(map(part, parts(path))) == path


def _whole_paths(paths: tuple[str, ...]) -> tuple[str, ...]:
    wrong: list[Wrong] = [((n,), _BROKEN) for n, path in enumerate(paths) if not _whole(path)]
    wrong += [((n,), "written twice; keep one") for n, path in enumerate(paths) if path in paths[:n]]
    if wrong:
        raise WrongValues(*wrong)
    return paths


_BROKEN = "it is no path; write names with dots between, such as customer.email, one with a dot of its own in backticks"

Paths: TypeAlias = Annotated[tuple[Name, ...], Field(min_length=1), AfterValidator(_whole_paths)]


class Hashed(Group):
    """Fields whose values land as a hash."""

    fields: Paths
    """Their paths."""
    secret: SecretText = None
    """What the hashes are made with, at least 16 characters, from the environment: `${HASH_SECRET}`. With another one the same values have other hashes."""

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        if self.secret is None:
            yield (
                ("secret",),
                "whoever tries all values would find those of hashes without one; write secret: ${HASH_SECRET}",
            )
        elif len(self.secret) < _SHORTEST_SECRET:
            yield ("secret",), f"it is too short; take one of at least {_SHORTEST_SECRET} characters"


class LastKept(Group):
    """A mask that lets the end of a value be seen."""

    keep_last: Annotated[int, Field(ge=1, le=100)]
    """How many characters."""


Masked: TypeAlias = Annotated[
    Annotated[StrictStr, Tag("text")] | Annotated[LastKept, Tag("last")],
    Discriminator(lambda value: "last" if isinstance(value, dict | LastKept) else "text"),
]

Constant: TypeAlias = StrictStr | StrictBool | StrictInt | StrictFloat


class ColumnsRule(Group):
    """What becomes of records' fields on their way to some tables; paths name them as records do."""

    take: Paths | None = None
    """The fields that land, dotted where they are nested: of all others nothing does. All unless given."""
    leave: Paths | None = None
    """Fields that never land, whatever `take` says."""
    rename: Annotated[dict[Name, Name], Field(default_factory=dict)]
    """New names of fields, each within its struct: `{custId: customer_id}`. A name that a field has already is refused."""
    cast: Annotated[dict[Name, Name], Field(default_factory=dict)]
    """Types of fields, as Spark's SQL has them: `{amount: "decimal(18,2)"}`. A record with a value that is none of its type goes to quarantine."""
    hash: Hashed | None = None
    """Fields of which HMAC-SHA256 of each value lands, as text of 64 hexadecimal digits; null of null."""
    mask: Annotated[dict[Name, Masked], Field(default_factory=dict)]
    """Fields of which a text lands in place of each value, such as `{name: hidden}`; or of which the last characters do, such as `{card: {keep_last: 4}}`, behind four stars. Null of null."""
    constants: Annotated[dict[Name, Constant], Field(default_factory=dict)]
    """Further columns with one value each: a text, a number or a boolean."""
    headers: Annotated[dict[Name, Name], Field(default_factory=dict)]
    """Further columns with the text of a record header, the last of its name: `{trace_id: X-Trace-Id}`; null where there is none."""
    days: Annotated[dict[Name, Name], Field(default_factory=dict)]
    """Further columns with the day, in UTC, of a field that has a time or a day: `{event_day: occurred_at}`; null where the field is, or is not there. For `partition_by`, which takes no expression. A number says one by a `cast` to `timestamp(ms)` or its like; a text that is no time has its record go to quarantine."""
    timestamp_type: Name | None = None
    """The name of a further column that says what a record's time in Kafka is: `create_time`, its producer's, or `log_append_time`, the broker's."""
    key: Literal["keep", "leave", "hash"] = "keep"
    """What becomes of the record's own key, in the columns that `sink.columns` has for it and in quarantine: `keep`, as it came; `leave`, null; `hash`, its HMAC-SHA256 with `hash.secret`."""
    quarantine: Literal["raw", "drop"] | None = None
    """What quarantine has of a record of these tables: `raw`, its value as it came; `drop`, all but value and key, which stay in Kafka alone. A record that cannot be decoded might be of any table where its entity is one of its fields: it is dropped if any rule says so. `drop` unless given where something is not taken, left out, hashed or masked, else `raw`."""

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        yield from self._wrong_paths()
        yield from self._wrong_types()
        yield from self._wrong_names()
        yield from self._wrong_together()
        if self.key == "hash" and self.hash is None:
            yield (
                ("key",),
                "a hash needs a secret; write hash: {fields: [...], secret: ...} too, or key: leave",
            )

    @property
    def keeps_payload(self) -> bool:
        """Whether records of its tables are kept whole in quarantine."""
        if self.quarantine is not None:
            return self.quarantine == "raw"
        hides = self.take or self.leave or self.hash is not None or self.mask or self.key != "keep"
        return not hides

    def rule(self) -> Reshape:
        """The same as workers and driver go by it."""
        ops = tuple((path, op) for _, path, op in self._ops())
        secret = None if self.hash is None or self.hash.secret is None else self.hash.secret
        return Reshape(
            ops,
            tuple(self._added()),
            None if secret is None else Secret(secret.encode()),
            self.key,
            self.keeps_payload,
        )

    def _ops(self) -> Iterator[tuple[Keys, Path, Op]]:
        """Each thing to do, behind the setting that says so and the path of its field."""
        listed: tuple[tuple[Keys, What, tuple[str, ...]], ...] = (
            (("take",), "take", self.take or ()),
            (("leave",), "leave", self.leave or ()),
            (("hash", "fields"), "hash", () if self.hash is None else self.hash.fields),
        )
        for keys, what, paths in listed:
            for place, path in enumerate(paths):
                yield (*keys, place), parts(path), Op(what)
        for path, name in self.rename.items():
            yield ("rename", path), parts(path), Op("rename", name)
        for path, kind in self.cast.items():
            yield ("cast", path), parts(path), Op("cast", kind.strip().lower())
        for path, mask in self.mask.items():
            op = Op("mask", mask) if isinstance(mask, str) else Op("mask", last=mask.keep_last)
            yield ("mask", path), parts(path), op

    def hidden(self) -> list[tuple[Keys, Path, Op]]:
        """What nobody is to see, each as `_ops` has it."""
        return [one for one in self._ops() if one[2].what in HIDING]

    def _added(self) -> Iterator[Added]:
        for name, value in self.constants.items():
            yield Added(name, *_constant(value))
        for name, header in self.headers.items():
            yield Added(name, "header", header)
        for name, path in self.days.items():
            yield Added(name, "day", path)
        if self.timestamp_type is not None:
            yield Added(self.timestamp_type, "timestamp_type")

    def added(self) -> list[tuple[Keys, str]]:
        """Its further columns, each behind the setting that names it."""
        return [
            *((("constants", name), name) for name in self.constants),
            *((("headers", name), name) for name in self.headers),
            *((("days", name), name) for name in self.days),
            *(() if self.timestamp_type is None else ((("timestamp_type",), self.timestamp_type),)),
        ]

    def _wrong_paths(self) -> Iterator[Wrong]:
        for name, given in (("rename", self.rename), ("cast", self.cast), ("mask", self.mask)):
            for path in given:
                if not _whole(path):
                    yield (name, path), _BROKEN
        for name, path in self.days.items():
            if not _whole(path):
                yield ("days", name), _BROKEN
            elif any(_within(parts(path), one) for _, one, _ in self.hidden()):
                yield (
                    ("days", name),
                    "the field is hidden, and its day would land; leave it out here, or there",
                )

    def _wrong_types(self) -> Iterator[Wrong]:
        for path, kind in self.cast.items():
            if type_of(kind) is None:
                yield ("cast", path), f"no type is called so; write one of {', '.join(NAMES)}"
        for name, value in self.constants.items():
            if isinstance(value, float) and not -float("inf") < value < float("inf"):
                yield ("constants", name), "write a finite number"
            if isinstance(value, int) and not _LONGS[0] <= value <= _LONGS[1]:
                yield ("constants", name), "it is too large for a bigint; write it in quotes"

    def _wrong_names(self) -> Iterator[Wrong]:
        taken: dict[str, Keys] = {fold(name): () for name in RESERVED_COLUMNS}
        for keys, name in self.added():
            if column_name(name, frozenset()) != name:
                yield keys, _NO_NAME
            elif fold(name) in taken:
                yield keys, _ALIKE
            taken.setdefault(fold(name), keys)
        within: dict[tuple[Path, str], Keys] = {}
        for path, name in self.rename.items():
            old = parts(path)
            here = (old[:-1], fold(name))
            if column_name(name, frozenset()) != name:
                yield ("rename", path), _NO_NAME
            elif old and old[-1] == name:
                yield ("rename", path), "that is its name already; leave it out"
            elif here in within or (len(old) == 1 and fold(name) in taken):
                yield ("rename", path), _ALIKE
            elif self._is_taken((*old[:-1], name)):
                yield (
                    ("rename", path),
                    "a field that is taken has this name; rename that too, or choose another",
                )
            within.setdefault(here, ("rename", path))

    def _is_taken(self, path: Path) -> bool:
        """Whether a field that is listed keeps this name, case aside."""
        renamed = {parts(old) for old in self.rename}
        return any(
            found not in renamed and tuple(map(fold, found)) == tuple(map(fold, path))
            for found in map(parts, self.take or ())
        )

    def _wrong_together(self) -> Iterator[Wrong]:
        ops = list(self._ops())
        of_values: list[Path] = []
        for keys, path, op in ops:
            if op.what not in ("take", "leave"):
                if any(_within(path, other) for _, other, one in ops if one.what == "leave"):
                    yield keys, "columns.leave leaves it out; leave it out here, or there"
                elif not self._may_come(path, op):
                    yield keys, "columns.take does not have it; add it there, or leave it out here"
            if op.what == "leave" and not self._may_come(path, op):
                yield keys, "columns.take does not have it, so that it lands nowhere; leave it out"
            if op.what in ("hash", "mask", "cast"):
                if any(_within(path, other) or _within(other, path) for other in of_values):
                    yield keys, "something is done with its values already; keep one of cast, hash and mask"
                of_values.append(path)

    def _may_come(self, path: Path, op: Op) -> bool:
        """Whether `take` has a field, or some of it."""
        taken = [parts(one) for one in self.take or ()]
        if not taken or any(_within(path, one) for one in taken):
            return True
        return op.what == "rename" and any(_within(one, path) for one in taken)


_NO_NAME = "Delta takes no column of this name; use letters, digits and _"
_ALIKE = "another column, or Delta itself, has this name (case aside); choose another"


def _within(path: Path, around: Path) -> bool:
    """Whether a path leads to another, or into what is there, case aside."""
    return tuple(map(fold, path[: len(around)])) == tuple(map(fold, around))


def _constant(value: str | bool | float) -> tuple[Source, str]:
    if isinstance(value, bool):
        return "boolean", "true" if value else "false"
    if isinstance(value, int):
        return "bigint", str(value)
    return ("double", repr(value)) if isinstance(value, float) else ("string", value)


def wrong_columns(
    rule: ColumnsRule,
    named: Mapping[Literal["keys", "sequence_by", "partition_by", "cluster_by"], Iterable[str]],
    reserved: AbstractSet[str],
    by_key: bool,
) -> Iterator[Wrong]:
    """What does not go with the rest of a rule.

    named     the fields that it names elsewhere, as they are called once the columns are what they are to be
    reserved  the names of the columns that every table has
    by_key    whether the record's own key names its row
    """
    taken = set(map(fold, reserved))
    renamed = (((("rename", path)), name) for path, name in rule.rename.items() if len(parts(path)) == 1)
    for keys, name in (*rule.added(), *renamed):
        if fold(name) in taken:
            yield ("columns", *keys), _ALIKE
    if by_key and rule.key == "leave":
        yield ("columns", "key"), "a record's key names its row; write keep or hash"
    for setting, fields in named.items():
        for place, field in enumerate(fields):
            if why := _why_not(rule, setting, field):
                yield (setting, place), why


def _why_not(rule: ColumnsRule, setting: str, field: str) -> str:
    path = tuple(field.split("."))
    if field in {name for _, name in rule.added()}:
        return ""
    olds = {parts(old): name for old, name in rule.rename.items()}
    was = next((old for old, name in olds.items() if path[: len(old)] == (*old[:-1], name)), None)
    gone = None if was is not None else next((old for old in olds if path[: len(old)] == old), None)
    if gone is not None:
        now = ".".join(map(part, (*gone[:-1], olds[gone], *path[len(gone) :])))
        return f"columns.rename calls it {now}; write that"
    return _why_hidden(rule, setting, path if was is None else (*was, *path[len(was) :]))


def _why_hidden(rule: ColumnsRule, setting: str, path: Path) -> str:
    def among(fields: Iterable[str]) -> bool:
        return any(_within(path, parts(one)) for one in fields)

    if among(rule.leave or ()):
        return "columns.leave leaves it out, so that it has no column; name another, or have it land"
    if rule.take and not among(rule.take):
        return "columns.take does not have it, so that it has no column; add it there"
    hashed = () if rule.hash is None else rule.hash.fields
    if setting == "sequence_by" and among((*hashed, *rule.mask)):
        return "columns has a hash or a mask of it, which is in no order; name another"
    if setting == "keys" and among(rule.mask):
        return "columns.mask has it, and masked values tell no rows apart; have a hash of it instead"
    return ""


def wrong_beside(rule: ColumnsRule, name: str) -> str:
    """Why what a rule hides would land by a column that has the record as it was before; empty where it would not."""
    column = (name,)
    left, taken = ([parts(one) for one in listed or ()] for listed in (rule.leave, rule.take))
    if column in left:
        return ""
    if taken and all(path[0] != name for path in taken):
        return ""
    hidden = {path for _, path, op in rule.hidden()}
    bare = [
        path for path in hidden if path[0] != name and not any(_within((name, *path), one) for one in hidden)
    ]
    if not bare and column not in taken:
        return ""
    what = ".".join(map(part, (name, *min(bare)))) if bare else "what is not taken"
    return f"the column {name} has the row as it was, so that {what} would land: hide that, too, or leave out {name}"
