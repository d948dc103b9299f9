"""Values that a table has no place for: which field they are of, where they were, and what is done with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa

from distributary.codecs.types.fields import part
from distributary.codecs.types.masks import Mask, Rows
from distributary.errors import PolicyStopped
from distributary.ingest.conform.rescued_text import json_values

Kind = Literal["new_field", "wider_type", "incompatible_type"]

Done = Literal["rescued", "rejected", "ignored"]

# What the settings may say of what does not fit, and what a worker does then; it stops itself at `fail`.
Policy = Literal["add", "rescue", "ignore", "widen", "quarantine", "fail"]

_DONE: Mapping[Policy, Done] = {
    "add": "rescued",
    "rescue": "rescued",
    "ignore": "ignored",
    "widen": "rescued",
    "quarantine": "rejected",
    "fail": "rejected",
}

_LONGEST_TYPE = 120


class FitPolicies(Protocol):
    """What is done about fields that do not fit; `Policies` of the settings is one."""

    @property
    def new_field(self) -> Policy:
        """About a field that the table lacks: add (here: rescue) | rescue | ignore | fail."""
        ...

    @property
    def wider_type(self) -> Policy:
        """About a value too wide for its column: rescue | widen (here: rescue) | quarantine | fail."""
        ...

    @property
    def incompatible_type(self) -> Policy:
        """About a field whose type does not go into its column's: quarantine | rescue | fail."""
        ...


def policy_on(kind: Kind, policies: FitPolicies) -> Policy:
    """What the policies say of one kind of trouble."""
    if kind == "new_field":
        return policies.new_field
    return policies.wider_type if kind == "wider_type" else policies.incompatible_type


@dataclass(frozen=True, slots=True)
class Trouble:
    """A field that does not fit its table, at least for some values.

    column  dotted path in the payload's names; a list's elements are `element`, a map's keys and values `key`, `value`
    record  the type in the record
    table   the type in the table; empty for a new field
    """

    column: str
    kind: Kind
    record: str
    table: str
    done: Done

    def sentence(self) -> str:
        """What is the matter, without any value."""
        if self.kind == "new_field":
            return f"{self.column}: the table has no such column (the record has {self.record})"
        return f"{self.column}: {self.record} in the record does not go into the column's {self.table}"


def trouble(
    column: str, kind: Kind, record: pa.DataType, table: pa.DataType | None, policies: FitPolicies
) -> Trouble:
    """The trouble with a field, as the policy of its kind has it. Raises PolicyStopped where that is `fail`."""
    policy = policy_on(kind, policies)
    found = Trouble(column, kind, _short(record), "" if table is None else _short(table), _DONE[policy])
    if policy == "fail":
        raise PolicyStopped(
            f"{found.sentence()}, and policies.{kind} is `fail`; change the schema, the table or the policy"
        )
    return found


@dataclass(frozen=True, slots=True)
class Misfit:
    """The values of one trouble in an array: each one's row, its path from there, and the value as JSON has it."""

    trouble: Trouble
    rows: Rows
    paths: Sequence[str]
    values: Sequence[Any]

    def under(self, prefixes: Sequence[str], rows: Rows) -> Misfit:
        """The same, seen from an array around: each one's row there and what its path begins with."""
        paths = [
            f"{prefix}.{path}" if path else prefix for prefix, path in zip(prefixes, self.paths, strict=True)
        ]
        return Misfit(self.trouble, rows, paths, self.values)

    def under_field(self, name: str) -> Misfit:
        """The same, seen from the struct that has the array as its field `name`."""
        return self.under([part(name)] * len(self.paths), self.rows)

    def only(self, rows: Mask) -> Misfit:
        """Those whose row is among `rows`."""
        keep = rows[self.rows]
        if keep.all():
            return self
        kept = np.flatnonzero(keep).tolist()
        return Misfit(
            self.trouble, self.rows[keep], [self.paths[i] for i in kept], [self.values[i] for i in kept]
        )


def misfits_at(found: Trouble, values: pa.Array, where: Mask) -> list[Misfit]:
    """The values at `where` as one misfit; none if there are none, or none that anybody wants to know of."""
    rows = np.flatnonzero(where)
    if not len(rows) or found.done == "ignored":
        return []
    # A rejected record is kept whole elsewhere: its values are not needed here.
    kept = json_values(values.take(pa.array(rows))) if found.done == "rescued" else [None] * len(rows)
    return [Misfit(found, rows, [""] * len(rows), kept)]


def _short(of: pa.DataType) -> str:
    text = str(of)
    return text if len(text) <= _LONGEST_TYPE else f"{text[:_LONGEST_TYPE]}…"
