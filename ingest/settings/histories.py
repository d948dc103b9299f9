"""What the settings say of tables that keep what was: which columns tell when a row was true, and which make no history."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from distributary.ingest.settings.deletes import DAYS
from distributary.ingest.settings.upserts import Ignored, Keeping
from distributary.values import Group, Name


class HistoryRule(Group):
    """How a table keeps what was."""

    ignore: Ignored | None = None
    """Fields, dotted where they are nested, that make no history: a record that differs from the one before it in these alone begins no row. A row has them by the record with which it began. Kafka's columns, and those of `sequence_by`, never make any."""
    valid_from: Name = "valid_from"
    """The column of the moment since when a row is true: the first field of `sequence_by`, of the record with which it began."""
    valid_to: Name = "valid_to"
    """The column of the moment since when it is true no more; null where it still is."""
    is_current: Name = "is_current"
    """The column that says whether it still is."""
    remember_days: Annotated[float, Field(gt=0, le=36_500)] = DAYS
    """For how long it is remembered of each record, and of each delete, that it came, so that what comes late lands in its place: by the records' times in Kafka, before the oldest one of a batch. Of what is older than that the table alone tells."""

    def keeping(self) -> Keeping:
        """What it comes to."""
        return Keeping(
            self.ignore or (), (self.valid_from, self.valid_to, self.is_current), self.remember_days
        )
