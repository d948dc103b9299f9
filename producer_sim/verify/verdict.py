"""What a verification found: the differences by name, and what it counted on the way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from distributary.errors import CheckFailed

DifferenceKind = Literal[
    "table_missing",
    "table_unreadable",
    "log_damaged",
    "rows_missing",
    "rows_surplus",
    "values_differ",
    "key_twice",
    "record_lost",
    "record_twice",
    "record_without_coordinates",
    "record_unsent",
    "corrupt_not_quarantined",
    "corrupt_in_table",
    "corrupt_bytes_differ",
    "reason_differs",
    "good_in_quarantine",
    "tombstone_kept",
    "ledger_missing",
    "ledger_sum",
    "ledger_rows",
    "ledger_offsets",
    "batch_unfinished",
    "batch_unrecorded",
    "checkpoint_behind",
    "checkpoint_unreadable",
    "table_parked",
    "tables_behind",
    "topic_made_anew",
    "topic_offsets",
]

EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it should be.

    kind    one of the kinds in docs/how-to/simulate.md
    where   the table or the partition
    detail  in which way, in words
    """

    kind: DifferenceKind
    where: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.where}: {self.detail}"


@dataclass(frozen=True, slots=True)
class TableCount:
    """An entity's table as it was found.

    name        its folder
    rows        how many
    columns     how many
    schema_ids  the schemas that its rows were written with
    """

    name: str
    rows: int
    columns: int
    schema_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a verification.

    differences       what is not as it should be; empty where everything is
    tables            the entities' tables as they were found
    rows_quarantined  rows in the quarantine
    rows_dropped      records that the settings let go, by the ledger
    batches           how many the ledger tells of
    sent              records sent; None where there was no truth to compare with
    unread            offsets of the topics that no batch has read yet; None where Kafka was not asked
    """

    differences: tuple[Difference, ...]
    tables: tuple[TableCount, ...]
    rows_quarantined: int
    rows_dropped: int
    batches: int
    sent: int | None = None
    unread: int | None = None

    @property
    def holds(self) -> bool:
        """Whether everything is as it should be."""
        return not self.differences

    @property
    def rows_in_tables(self) -> int:
        """Rows in all entities' tables."""
        return sum(table.rows for table in self.tables)

    def check(self) -> None:
        """Raises CheckFailed with all differences if there are any."""
        if self.differences:
            lines = "\n".join(f"  {difference}" for difference in self.differences)
            raise CheckFailed(f"{len(self.differences)} differences:\n{lines}")


def listed(numbers: Iterable[int], count: int) -> str:
    """A few examples of `count` offsets, such as `offsets 3, 7, 9 and 20 more`."""
    shown = [str(number) for number, _ in zip(numbers, range(EXAMPLES), strict=False)]
    more = f" and {count - len(shown):,} more" if count > len(shown) else ""
    return f"{'offset' if count == 1 else 'offsets'} {', '.join(shown)}{more}"


def named(partition: tuple[str, int]) -> str:
    """A partition as messages call it: topic/number."""
    return f"{partition[0]}/{partition[1]}"
