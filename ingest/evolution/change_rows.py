"""A batch's rows of the table of changes: columns that came, and whatever else a new schema meant for a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from distributary.ingest.checkpoint.change_log import LoggedChange, TableChange
from distributary.ingest.checkpoint.histories import Histories
from distributary.ingest.columns.layout import type_at
from distributary.ingest.evolution.meetings import Meeting
from distributary.ingest.evolution.transitions import Transitions
from distributary.ingest.evolution.verdicts import TableVerdict
from distributary.ingest.pins import Coordinates
from distributary.ingest.tables.change import PlannedChange
from distributary.ingest.tables.ledger import ChangeRow
from distributary.ingest.tables.state import TableState

# Kinds of changes that come with a column.
CAME = frozenset({"added", "renamed", "oneof_arm_added"})

# Those after which a column may become wider.
WIDENED = frozenset({"widened", "changed"})


@dataclass(frozen=True, slots=True)
class Came:
    """A column that came to a table or became wider; the schema that brought that and its first record, as far as was noted."""

    table: str
    entity: str | None
    column: str
    type: str
    kind: str
    schema_id: int | None
    first: Coordinates | None
    at: datetime
    before: str = ""


class ChangeRows:
    """Makes the rows of one batch."""

    def __init__(
        self,
        origin: tuple[str, str, int],
        transitions: Transitions,
        met: Histories,
        meetings: Sequence[Meeting],
    ) -> None:
        """`origin` is pipeline, generation and batch; `met` are the histories with this batch."""
        self._origin, self._transitions, self._met = origin, transitions, met
        self._meetings: dict[str, list[Meeting]] = {}
        for meeting in meetings:
            self._meetings.setdefault(meeting.folder, []).append(meeting)

    def of_column(self, came: Came) -> ChangeRow:
        """The row of a column that came, with the transition that brought it."""
        old, schema_id, first = self._brought_by(came)
        created, wider = came.kind == "created", came.kind == "widened"
        # A table that is new has nothing that was otherwise before.
        verdict = None if created else self._told(came)
        return self._row(
            came.table,
            came.entity,
            came.at,
            first,
            schema_id=schema_id,
            old_schema_id=None if created else old,
            kind=came.kind if verdict is None or wider else verdict.kind,
            column=came.column,
            type=came.type,
            before=(verdict.before if verdict else came.before) or None,
            after=(verdict.after or None) if verdict else None,
            decision="widen" if wider else "add",
            detail=verdict.detail if verdict else "",
        )

    def others(self, entities: Mapping[str, str], told: Sequence[ChangeRow]) -> list[ChangeRow]:
        """What else became of the new schemas' changes; `told` are the rows of columns that came.

        `entities` are those of the tables, by folder.
        """
        came, now = {(row.table, row.column, row.kind) for row in told}, datetime.now(timezone.utc)
        wider = {(row.table, row.column) for row in told if row.decision == "widen"}
        return [
            self._of_verdict(meeting, verdict, entities.get(folder), now)
            for folder, meetings in self._meetings.items()
            for meeting in meetings
            for verdict in meeting.verdicts
            # A column is told of when it comes, which one of an inferred schema does with its first value.
            if verdict.action not in {"add", "widen", "fail"}
            # One that came before this attempt is there already, and so is no change any more.
            and (folder, verdict.column, verdict.kind) not in came
            # To an attempt after the one that died, the column was as wide already.
            and not (verdict.kind in WIDENED and (folder, verdict.column) in wider)
        ]

    def _of_verdict(
        self, meeting: Meeting, verdict: TableVerdict, entity: str | None, now: datetime
    ) -> ChangeRow:
        return self._row(
            meeting.folder,
            entity,
            now,
            meeting.first,
            schema_id=self._transitions.schema_id(meeting.new),
            old_schema_id=None if meeting.old is None else self._transitions.schema_id(meeting.old),
            kind=verdict.kind,
            column=verdict.column,
            type=verdict.table,
            before=verdict.before or None,
            after=verdict.after or None,
            decision=verdict.action,
            detail=verdict.detail,
        )

    def _row(
        self, table: str, entity: str | None, at: datetime, first: Coordinates | None, **change: Any
    ) -> ChangeRow:
        pipeline, generation, batch_id = self._origin
        topic, partition, offset = first or (None, None, None)
        return ChangeRow(
            pipeline=pipeline,
            generation=generation,
            batch_id=batch_id,
            at=at,
            table=table,
            entity=entity,
            kafka_topic=topic,
            kafka_partition=partition,
            kafka_offset=offset,
            **change,
        )

    def _brought_by(self, came: Came) -> tuple[int | None, int | None, Coordinates | None]:
        """The old and the new schema's id, and the first record: of the first transition that brought a column, else as noted."""
        for one in self._meetings.get(came.table, ()):
            if came.column in one.brought:
                old = None if one.old is None else self._transitions.schema_id(one.old)
                return old, self._transitions.schema_id(one.new), one.first
        return self._predecessor(came), came.schema_id, came.first

    def _told(self, came: Came) -> TableVerdict | None:
        """What is told of a column that came, where it came by a change of a schema."""
        told = (verdict for one in self._meetings.get(came.table, ()) for verdict in one.verdicts)
        kinds = WIDENED if came.kind == "widened" else CAME
        return next((one for one in told if one.column == came.column and one.kind in kinds), None)

    def _predecessor(self, came: Came) -> int | None:
        """The id that a column's schema came after, by the table's history."""
        history = self._met.get(came.table, ())
        for place, key in enumerate(history):
            if self._transitions.knows(key) and self._transitions.schema_id(key) == came.schema_id:
                old = self._transitions.before(key, history[:place])
                return None if old is None else self._transitions.schema_id(old)
        return None


def planned(changes: Sequence[PlannedChange]) -> list[Came]:
    """The columns that this attempt adds."""
    now = datetime.now(timezone.utc)
    return [
        Came(
            change.folder,
            change.entity,
            column.column,
            column.type,
            "created" if change.new else column.kind,
            change.schema_id,
            change.first,
            now,
            column.before,
        )
        for change in changes
        for column in change.added
    ]


def made_before(
    logged: Sequence[LoggedChange],
    planned_now: Sequence[Came],
    entities: Mapping[str, str],
    states: Mapping[str, TableState],
) -> list[Came]:
    """Columns that an attempt added before it died: to the present one these were there already.

    `entities` are those of the tables, by folder.
    """
    now = {(one.table, one.column) for one in planned_now}
    # Attempts that died may each have written a change down, and credited different schemas with it.
    made: dict[tuple[str, str, str], LoggedChange] = {}
    for one in logged:
        change = one.change
        if (change.table, change.column) not in now and _was_made(change, states):
            made.setdefault((change.table, change.column, change.kind), one)
    return [
        Came(
            one.change.table,
            entities.get(one.change.table),
            one.change.column,
            one.change.type,
            one.change.kind,
            one.change.schema_id,
            _coordinates(one.change),
            datetime.fromisoformat(one.at),
        )
        for one in made.values()
    ]


def _was_made(change: TableChange, states: Mapping[str, TableState]) -> bool:
    """Written down first, a change may have been left undone; an outer column tells for all within it."""
    if change.table not in states:
        return False
    layout = states[change.table].layout
    if change.kind == "widened":
        return type_at(layout, change.column) == change.type
    return change.column.partition(".")[0] in layout.names


def _coordinates(change: TableChange) -> Coordinates | None:
    topic, partition, offset = change.kafka_topic, change.kafka_partition, change.kafka_offset
    if topic is None or partition is None or offset is None:
        return None
    return topic, partition, offset
