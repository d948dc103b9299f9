"""What the settings say of the conditions that a table's records are to meet, and what becomes of those that do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import BeforeValidator, Discriminator, Tag

from distributary.values import Group, Name

Otherwise: TypeAlias = Literal["warn", "drop", "quarantine", "fail"]


def _known_outcome(given: Any) -> Any:
    if given not in get_args(Otherwise):
        raise ValueError(f"nothing is called {given}; write warn, drop, quarantine or fail")
    return given


class ExpectationRule(Group):
    """A condition that a table's records are to meet."""

    condition: Name
    """A SQL condition over the columns that the record has for the table, behind `columns`. It is met where it is true."""
    otherwise: Annotated[Otherwise, BeforeValidator(_known_outcome)] = "warn"
    """What becomes of a record for which it is not true: with `warn` it lands, and is counted; `drop` keeps it out, and counts it; `quarantine` puts it there, whole; `fail` stops the run before anything of the batch is visible."""


GivenExpectation: TypeAlias = Annotated[
    Annotated[Name, Tag("text")] | Annotated[ExpectationRule, Tag("rule")],
    Discriminator(lambda value: "rule" if isinstance(value, dict | ExpectationRule) else "text"),
]


@dataclass(frozen=True, slots=True)
class Expectation:
    """A condition that a table's records are to meet.

    name       what people call it
    condition  in SQL
    otherwise  what becomes of a record that does not meet it
    """

    name: str
    condition: str
    otherwise: Otherwise = "warn"

    @classmethod
    def all_of(cls, given: Mapping[str, str | ExpectationRule]) -> tuple[Expectation, ...]:
        """What a rule says, in its order."""
        return tuple(cls._of(name, one) for name, one in given.items())

    @classmethod
    def _of(cls, name: str, given: str | ExpectationRule) -> Expectation:
        return cls(name, given) if isinstance(given, str) else cls(name, given.condition, given.otherwise)

    def to_json(self) -> list[str]:
        """The same as JSON values."""
        return [self.name, self.condition, self.otherwise]

    @classmethod
    def from_json(cls, value: list[Any]) -> Expectation:
        """What `to_json` gave. Raises ValueError or TypeError for anything else."""
        name, condition, otherwise = value
        if otherwise not in get_args(Otherwise):
            raise ValueError(f"what does not meet {name} is to {otherwise!r}")
        return cls(name, condition, otherwise)


def conditions_in(given: Mapping[str, str | ExpectationRule]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The conditions that a rule's `expect` has, each behind its place there."""
    for name, one in given.items():
        if isinstance(one, str):
            yield (name,), one
        else:
            yield (name, "condition"), one.condition
