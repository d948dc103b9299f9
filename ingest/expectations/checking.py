"""Records held against what their table expects of them, in a worker, before anything else is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.ingest.expectations.given import Expectation

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Met:
    """For which rows a condition is true.

    rows    true where it is; false where it is false, null, or has no value for the row
    failed  why it has no value, by the place of the row
    every   why it has none for any of them; empty where it has
    """

    rows: Mask
    failed: Mapping[int, str] = field(default_factory=dict)
    every: str = ""

    def why(self, row: int) -> str:
        """Why it has no value for a row; empty where it has one."""
        return self.every or self.failed.get(row, "")


class Tried(Protocol):
    """A condition, as it is tried on each record by itself."""

    def tried(self, rows: pa.RecordBatch) -> Met:
        """For which rows it is true; what fails for one of them says nothing of the others."""
        ...


@dataclass(frozen=True, slots=True)
class Unmet:
    """Records that do not meet an expectation, by their places, ascending, each once: the first that decides about it.

    met  what is known of all that were held against it
    """

    expectation: Expectation
    rows: npt.NDArray[np.int64]
    met: Met

    def detail(self, row: int) -> str:
        """What quarantine says of it, or a run that stops."""
        why = self.met.why(row)
        return f"expectation {self.expectation.name} is not met" + (f": {why}" if why else "")


@dataclass(frozen=True, slots=True)
class Found:
    """What became of records that were held against their table's expectations.

    unmet  per expectation that does not let them land, those that stay out
    met    by the names of all expectations, which records meet each
    """

    unmet: Sequence[Unmet]
    met: Mapping[str, Mask]


def check(
    expectations: Sequence[Expectation], conditions: Mapping[str, Tried], rows: pa.RecordBatch
) -> Found:
    """All expectations of a table for all of these records, whichever they meet: each is counted by itself.

    What becomes of one that meets several of them not: the run stops before all else, then it goes to quarantine, then it is dropped.
    """
    found = [(one, conditions[one.condition].tried(rows)) for one in expectations]
    unmet, decided = list[Unmet](), np.zeros(rows.num_rows, np.bool_)
    for outcome in ("fail", "quarantine", "drop"):
        for one, met in found:
            if one.otherwise != outcome:
                continue
            mine = np.flatnonzero(~met.rows & ~decided)
            if len(mine):
                decided[mine] = True
                unmet.append(Unmet(one, mine, met))
    return Found(unmet, {one.name: met.rows for one, met in found})
