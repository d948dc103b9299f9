"""What the settings say of records that are to take a key's row away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import Discriminator, Field, Tag

from distributary.values import Group, Name

DAYS = 30.0
"""For how long a delete is remembered where nothing else is said."""


class DeleteRule(Group):
    """Which records take their key's row away."""

    when: Name
    """A SQL condition over the record's own fields; those for which it is true are deletes."""
    remember_days: Annotated[float, Field(gt=0, le=36_500)] = DAYS
    """For how long a delete is remembered, so that a late record that is older does not bring its key back: by the records' times, before the oldest one of a batch."""


GivenDeletes: TypeAlias = Annotated[
    Annotated[Name, Tag("text")] | Annotated[DeleteRule, Tag("rule")],
    Discriminator(lambda value: "rule" if isinstance(value, dict | DeleteRule) else "text"),
]


@dataclass(frozen=True, slots=True)
class Deleting:
    """Which records of a table take their key's row away.

    when  the condition that they meet
    days  for how long a delete is remembered
    """

    when: str
    days: float = DAYS

    @classmethod
    def by(cls, given: str | DeleteRule | None) -> Deleting | None:
        """What a rule says."""
        if given is None:
            return None
        return cls(given) if isinstance(given, str) else cls(given.when, given.remember_days)

    def __str__(self) -> str:
        return f"deletes when {self.when}"

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {"when": self.when, "days": self.days}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Deleting:
        """What `to_json` gave. Raises KeyError for anything else."""
        return cls(value["when"], value["days"])
