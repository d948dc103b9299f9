"""What a value read as the writer wrote it goes through to become the reader's.

schema_pair.py finds the steps; arrow.py takes them with Arrow arrays, json_text.py with values within JSON text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from distributary.codecs.avro.types.columns import Column
from distributary.codecs.avro.types.schema import AvroType

# The record is whole, but it has an enum's symbol or a union's branch that the reader's schema does not have.
NOT_THE_READERS: Final = "not_the_readers"


class Unreadable(Exception):
    """No value there, in what the writer wrote, can be one of the reader's type."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(place, why)
        self.place, self.why = place, why

    def __str__(self) -> str:
        return f"at {self.place}: {self.why}"


def named(avro: AvroType) -> str:
    """A type as sentences call it."""
    logical = avro.logical.value if avro.logical else avro.counts
    plain = f"{avro.kind.value} {avro.name}".rstrip()
    return f"{plain} ({logical})" if logical else plain


@dataclass(frozen=True, slots=True)
class Step:
    """How a value read as `column` becomes one of the reader's `target`."""

    column: Column
    target: Column


@dataclass(frozen=True, slots=True)
class Keep(Step):
    """It is one already."""


@dataclass(frozen=True, slots=True)
class Cast(Step):
    """By promotion: a number to a wider one, text to bytes or back."""


@dataclass(frozen=True, slots=True)
class Symbols(Step):
    """An enum: what each of the writer's symbols, in its order, is for the reader; None where it has none for it."""

    symbols: tuple[str | None, ...]

    @property
    def unknown(self) -> str:
        """What is said of a symbol that the reader has none for."""
        return f"an enum's symbol is none of {self.target.avro.name}, which has no default"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a field comes from: the writer's field of this number in the struct, or, read from these bytes, its default."""

    number: int | None
    step: Step
    default: bytes = b""


@dataclass(frozen=True, slots=True)
class Fields(Step):
    """A record: where each of the reader's fields comes from. What is not named is dropped."""

    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Present(Step):
    """A record of which the reader knows no field: it is there."""


@dataclass(frozen=True, slots=True)
class Elements(Step):
    """An array, or a map: each of its elements, or values."""

    inner: Step


@dataclass(frozen=True, slots=True)
class Nulls(Step):
    """The writer has nothing but null there."""


@dataclass(frozen=True, slots=True)
class Branches(Step):
    """A union of the writer's: each branch's step, or why the reader cannot have what is of it."""

    branches: tuple[Step | str, ...]

    @staticmethod
    def refusal(why: str) -> str:
        """What is said of a value of a branch that the reader cannot have."""
        return f"a union's branch cannot be read: {why}"


@dataclass(frozen=True, slots=True)
class Into(Step):
    """A branch of the reader's wide union: the member of the struct that is set, or "" where it is one number."""

    inner: Step
    member: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """How records are read: as `view`, a STRUCT, and then by the step.

    is_struct  whether the step is for the view as a whole; else for its only column
    is_record  whether the step makes the fields of the rows; else their only column, `value`
    """

    view: Column
    step: Step
    is_struct: bool
    is_record: bool
