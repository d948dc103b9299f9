"""What the settings say of records that are to take a key's row away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from distributary.ingest.columns import safe_names
from distributary.values import Group, Name, Wrong

DAYS = 30.0
"""For how long a delete is remembered where nothing else is said."""


class DeleteRule(Group):
    """Which records take their key's row away."""

    when: Name | None = None
    """A SQL condition over the record's own fields; those for which it is true are deletes."""
    then: Literal["delete", "ignore"] | None = None
    """What becomes of such records: they `delete` their key's row, or `ignore` has them kept out, and counted. `delete` unless given."""
    tombstones: Literal["delete", "ignore"] | None = None
    """What becomes of records without a value: they `delete` the row of their own key, for `keys: kafka_key` without `sequence_by`, where records are routed by topic, key or header; or `ignore` has them kept out, and counted. `ignore` unless given."""
    mark: Name | None = None
    """A column of the table, made where it is not there, that becomes true where a row is deleted, which stays then, and is false in all others."""
    remember_days: Annotated[float, Field(gt=0, le=36_500)] | None = None
    """For how long a delete is remembered, so that a late record that is older does not bring its key back: by the records' times, before the oldest one of a batch. 30 days unless given."""

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        if self.mark is not None and safe_names.column_name(self.mark, frozenset()) != self.mark:
            yield ("mark",), "Delta takes no column of this name; use letters, digits and _"
        if self.when is None and self.tombstones != "delete":
            yield (), "nothing is deleted by this; write `when`, `tombstones: delete`, or both"
        if self.when is None and self.then is not None:
            yield ("then",), "it is about the records that meet `when`; write that, or leave it out"
        for name, given in (("mark", self.mark), ("remember_days", self.remember_days)):
            if self.then == "ignore" and self.tombstones != "delete" and given is not None:
                yield (name,), "with then: ignore no row is deleted; leave it out"


GivenDeletes: TypeAlias = Annotated[
    Annotated[Name, Tag("text")] | Annotated[DeleteRule, Tag("rule")],
    Discriminator(lambda value: "rule" if isinstance(value, dict | DeleteRule) else "text"),
]


@dataclass(frozen=True, slots=True)
class Deleting:
    """Which records of a table take their key's row away.

    when        the condition that they meet; None where there is none
    days        for how long a delete is remembered
    mark        the column that becomes true where a row stays; None: it goes
    ignored     whether those that meet the condition are kept out instead
    tombstones  whether records without a value are deletes, too
    """

    when: str | None = None
    days: float = DAYS
    mark: str | None = None
    ignored: bool = False
    tombstones: bool = False

    @property
    def remembered(self) -> bool:
        """Whether any row is deleted."""
        return self.tombstones or not self.ignored

    @classmethod
    def by(cls, given: str | DeleteRule | None) -> Deleting | None:
        """What a rule says."""
        if given is None:
            return None
        if isinstance(given, str):
            return cls(given)
        days, ignored = given.remember_days or DAYS, given.then == "ignore"
        return cls(given.when, days, given.mark, ignored, given.tombstones == "delete")

    def __str__(self) -> str:
        ignored = " (ignored)" if self.ignored else ""
        which = [] if self.when is None else [f"when {self.when}{ignored}"]
        which += ["by tombstones"] if self.tombstones else []
        marked = "" if self.mark is None else f", marked by {self.mark}"
        return f"deletes {' and '.join(which)}{marked}"

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Deleting:
        """What `to_json` gave. Raises TypeError for anything else."""
        return cls(**value)
