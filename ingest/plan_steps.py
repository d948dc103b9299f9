"""What `distributary plan` tells: what each schema means for which tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from distributary.ingest.candidates import Candidate
from distributary.ingest.table_verdicts import TableVerdict


@dataclass(frozen=True, slots=True)
class Step:
    """What a schema means for some tables.

    tables   their folders; none where it is for tables that are not there yet
    record   the record type's name
    before   the id that these tables met last; None where nobody knows, or there is none
    unmet    whether no table has met this record type, and its records may go to these all the same
    """

    tables: tuple[str, ...]
    record: str
    before: int | None
    candidate: Candidate
    verdicts: tuple[TableVerdict, ...]
    unmet: bool = False

    @property
    def open(self) -> bool:
        """Whether something needs a decision."""
        return any(verdict.open for verdict in self.verdicts)


@dataclass(frozen=True, slots=True)
class TablePlan:
    """All steps, those of the most tables first.

    strangers  tables whose records' schemas are of no watched subject
    unread     tables that nobody could look at, and why
    """

    steps: tuple[Step, ...]
    strangers: tuple[str, ...]
    unread: Mapping[str, str]

    @property
    def open(self) -> bool:
        """Whether something needs a decision, which it does where nobody could look."""
        return bool(self.unread) or any(step.open for step in self.steps)
