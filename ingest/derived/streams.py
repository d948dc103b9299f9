"""A stream's round: which rows are added to its table, and what its entry remembers of that.

What is remembered is the watermark, as the version of a Delta transaction in the same entry as the rows: a crash cannot come between the two,
checkpoints of the log keep it, and a backup of the table has it. Of rows without a watermark it is the version of the input, as for aggregates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from distributary.errors import PipelineError
from distributary.ingest.derivation.streams import WINDOW_END, Stream, Watermark
from distributary.ingest.derived.inputs import Snapshot
from distributary.ingest.derived.lookups import Source
from distributary.ingest.derived.told import Told, Transaction
from distributary.ingest.derived.windows import Inputs, Sessions, Turn, plain, shaped
from distributary.ingest.tables.handle import opened

# Before all times that there are: up to it no row is there.
_NEVER = -(2**62)

# What is remembered of sessions beside the watermark, as another application.
_SINCE = "/since"


@dataclass(frozen=True, slots=True)
class Making:
    """How a derived table's next version is made.

    made          whether of all rows, or of what was added
    frame         its rows, or those that are added
    adds          whether the rows that are there stay
    transactions  what the entry remembers beside them
    late          how many rows came too late for it
    """

    made: bool
    frame: AbstractContextManager[DataFrame]
    adds: bool = False
    transactions: Sequence[Transaction] = ()
    late: int = 0


@dataclass(frozen=True, slots=True)
class Streamed:
    """One stream at one round.

    now   the table as it is; None where there is none, or all is made anew
    told  what its last version was made of, by whichever settings; None where nobody can tell
    """

    table: str
    definition: str
    rule: Stream
    inputs: Inputs
    now: Snapshot | None
    told: Told | None

    @property
    def had(self) -> Told | None:
        """What its last version was made of, by the same settings; None where it was by others, or nobody can tell."""
        return None if self.told is None else self.told.by(self.definition)

    def making(self, spark: SparkSession, names: Mapping[str, Source]) -> Making:
        """How the next version is made. Raises PipelineError where nobody can tell which rows are there."""
        added = self._added(spark, names, self.inputs.this)
        if self.rule.watermark is None:
            return self._of_rows(spark, added)
        beside = None if self.inputs.other is None else self._added(spark, names, self.inputs.other)
        return self._of_times(self.rule.watermark, added, beside, spark)

    def _added(self, spark: SparkSession, names: Mapping[str, Source], of: Snapshot) -> DataFrame | None:
        """The rows that came to an input since the last round; None where nobody can tell."""
        (name, *_) = (name for name, source in names.items() if source is of)
        since = None if self.had is None else self.had.inputs.get(name)
        return None if since is None else of.came(spark, since)

    def _of_rows(self, spark: SparkSession, added: DataFrame | None) -> Making:
        if self.now is None:
            added = self.inputs.this.rows(spark)
        elif added is None:
            raise PipelineError(
                f"rows of its input were replaced or deleted, or nobody can tell any more which came since: rows that are there cannot be taken back; {self._anew}"
            )
        rows = plain(shaped(added, self.rule, self.inputs.lookups, spark), self.rule)
        return Making(self.now is None, nullcontext(rows), adds=self.now is not None)

    def _of_times(
        self, mark: Watermark, added: DataFrame | None, beside: DataFrame | None, spark: SparkSession
    ) -> Making:
        before = self._number()
        # Rounds before any row had a time remember none.
        is_known = self.now is None or before is not None or self.had is not None
        if not is_known and self.rule.output == "append":
            raise PipelineError(
                f"its rows were made by other settings, or it was put back to an earlier version, so that nobody can tell up to when they go; have those settings again, or: {self._anew}"
            )
        sessions = Sessions() if self.now is None else Sessions(self._number(_SINCE), self.now)
        turn = Turn(self.rule, mark, self.inputs, before, sessions)
        reached = turn.watermark()
        late = 0 if added is None else turn.late(added)
        late += 0 if beside is None else turn.late_beside(beside)
        made = self.now is None or not is_known
        upto = _NEVER if reached is None else reached
        # The log may remember what these settings reached over rows that are no more.
        remembered = tuple(self._remembered(turn, upto)) if made or reached is not None else ()
        if self.rule.output == "append":
            frame = turn.closed(before, upto)
            return Making(made, nullcontext(frame), not made, remembered, late)
        if made or self.now is None or before is None or self.rule.output == "complete":
            return Making(made, nullcontext(turn.closed(None, None)), False, remembered, 0)
        over = self.now.rows(spark).where(sql.unix_micros(sql.col(WINDOW_END)) <= before)
        frame = over.unionByName(turn.closed(before, None))
        return Making(False, nullcontext(frame), False, remembered, late)

    def _number(self, of: str = "") -> int | None:
        """What the table's log remembers of this stream; None where other settings made the rows that are there: it keeps what was reached before them."""
        if self.now is None or (self.told is not None and self.had is None):
            return None
        return opened(self.now.place).transaction_version(f"{self._app}{of}")

    def _remembered(self, turn: Turn, reached: int) -> Iterator[Transaction]:
        yield Transaction(self._app, reached)
        since = None if self.rule.output == "complete" else turn.since(reached)
        if since is not None:
            yield Transaction(f"{self._app}{_SINCE}", since)

    @property
    def _app(self) -> str:
        return f"distributary/derived/{self.definition}"

    @property
    def _anew(self) -> str:
        return (
            f"`distributary derive --table {self.table} --whole` makes it anew, of what its inputs have now"
        )
