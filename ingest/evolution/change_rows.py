"""A batch's rows of the table of changes: columns that came, and whatever else a new schema meant for a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Literal

from distributary.codecs.changes.classify import ChangeClass
from distributary.ingest.checkpoint.change_log import LoggedChange, TableChange
from distributary.ingest.checkpoint.histories import Histories
from distributary.ingest.columns.growth import Change
from distributary.ingest.columns.layout import type_at
from distributary.ingest.evolution.meetings import Meeting
from distributary.ingest.evolution.transitions import Transitions
from distributary.ingest.evolution.verdicts import Action, TableVerdict
from distributary.ingest.pins import Coordinates, RecordKey, by_age
from distributary.ingest.tables.change import PlannedChange
from distributary.ingest.tables.ledger import ChangeRow
from distributary.ingest.tables.properties import COMMENT, Retelling
from distributary.ingest.tables.state import TableState

# Kinds of changes that come with a column.
CAME = frozenset({"added", "renamed", "oneof_arm_added"})

# Those after which a column may become wider.
WIDENED = frozenset({"widened", "changed"})


@dataclass(frozen=True, slots=True)
class Origin:
    """Which batch of which pipeline the rows are of."""

    pipeline: str
    generation: str
    batch_id: int


@dataclass(frozen=True, slots=True)
class Brought:
    """By what something came: the schema, the one that its records came with before, and its first record, as far as known."""

    schema_id: int | None
    first: Coordinates | None
    old_schema_id: int | None = None


@dataclass(frozen=True, slots=True)
class Came:
    """A column that came to a table or became wider, or a property that a table got, and by what.

    detail  the setting that wanted a property
    """

    table: str
    entity: str | None
    change: Change
    by: Brought
    at: datetime
    detail: str = ""


@dataclass(frozen=True, slots=True)
class _Where:
    """The table that a row is about, and when."""

    table: str
    entity: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class _What:
    """What a row tells of it."""

    kind: ChangeClass | Literal["created", "property"]
    column: str
    type: str
    before: str
    after: str
    decision: Action | Literal["set"]
    detail: str


class ChangeRows:
    """Makes the rows of one batch."""

    def __init__(
        self,
        origin: Origin,
        transitions: Transitions,
        met: Histories,
        meetings: Sequence[Meeting],
    ) -> None:
        """`met` are the histories with this batch."""
        self._origin, self._transitions, self._met = origin, transitions, met
        self._meetings: dict[str, list[Meeting]] = {}
        for meeting in meetings:
            self._meetings.setdefault(meeting.folder, []).append(meeting)
        self._telling = {meeting.folder for meeting in meetings if meeting.verdicts}

    def of_column(self, came: Came) -> ChangeRow:
        """The row of a column that came, with the transition that brought it."""
        change = came.change
        if change.kind == "property":
            return self._of_property(came)
        created, wider = change.kind == "created", change.kind == "widened"
        # A table that is new has nothing that was otherwise before.
        verdict = None if created else self._told(came)
        return self._row(
            _Where(came.table, came.entity, came.at),
            self._brought_by(came),
            _What(
                kind=change.kind if verdict is None or wider else verdict.kind,
                column=change.column,
                type=change.type,
                before=verdict.before if verdict else change.before,
                after=verdict.after if verdict else "",
                decision="widen" if wider else "add",
                detail=verdict.detail if verdict else "",
            ),
        )

    def _of_property(self, came: Came) -> ChangeRow:
        change = came.change
        return self._row(
            _Where(came.table, came.entity, came.at),
            came.by,
            _What("property", change.column, "", change.before, change.type, "set", came.detail),
        )

    def others(self, entities: Mapping[str, str], told: Sequence[ChangeRow]) -> list[ChangeRow]:
        """What else became of the new schemas' changes; `told` are the rows of columns that came.

        `entities` are those of the tables, by folder.
        """
        # A thousand new tables bring tens of thousands of columns, few of which something else is told of.
        told = [row for row in told if row.table in self._telling]
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
            _Where(meeting.folder, entity, now),
            self._by(meeting),
            _What(
                kind=verdict.kind,
                column=verdict.column,
                type=verdict.table,
                before=verdict.before,
                after=verdict.after,
                decision=verdict.action,
                detail=verdict.detail,
            ),
        )

    def _row(self, where: _Where, by: Brought, what: _What) -> ChangeRow:
        topic, partition, offset = by.first or (None, None, None)
        return ChangeRow(
            pipeline=self._origin.pipeline,
            generation=self._origin.generation,
            batch_id=self._origin.batch_id,
            at=where.at,
            table=where.table,
            entity=where.entity,
            schema_id=by.schema_id,
            old_schema_id=by.old_schema_id,
            kafka_topic=topic,
            kafka_partition=partition,
            kafka_offset=offset,
            kind=what.kind,
            column=what.column,
            type=what.type,
            before=what.before or None,
            after=what.after or None,
            decision=what.decision,
            detail=what.detail,
        )

    def _brought_by(self, came: Came) -> Brought:
        """The first transition that brought a column, else what was noted. A new table's columns follow no other schema."""
        created = came.change.kind == "created"
        for one in self._meetings.get(came.table, ()):
            if came.change.column in one.brought:
                return self._by(one, follows=not created)
        return came.by if created else replace(came.by, old_schema_id=self._predecessor(came))

    def _by(self, meeting: Meeting, *, follows: bool = True) -> Brought:
        old = self._transitions.schema_id(meeting.old) if follows and meeting.old is not None else None
        return Brought(self._transitions.schema_id(meeting.new), meeting.first, old)

    def _told(self, came: Came) -> TableVerdict | None:
        """What is told of a column that came, where it came by a change of a schema."""
        told = (verdict for one in self._meetings.get(came.table, ()) for verdict in one.verdicts)
        kinds = WIDENED if came.change.kind == "widened" else CAME
        return next((one for one in told if one.column == came.change.column and one.kind in kinds), None)

    def _predecessor(self, came: Came) -> int | None:
        """The id that a column's schema came after, by the table's history."""
        history, number = self._met.get(came.table, ()), came.by.schema_id
        for place, key in enumerate(history):
            if self._transitions.knows(key) and self._transitions.schema_id(key) == number:
                return self._id_before(key, history[:place])
        # Of an inferred one the attempt that died may have had a version that no other had.
        lone: RecordKey | None = None if number is None else (number, ())
        if lone is None or not self._transitions.knows(lone):
            return None
        return self._id_before(lone, [one for one in history if by_age(one) < by_age(lone)])

    def _id_before(self, key: RecordKey, history: Sequence[RecordKey]) -> int | None:
        old = self._transitions.before(key, history)
        return None if old is None else self._transitions.schema_id(old)


def planned(changes: Sequence[PlannedChange | Retelling]) -> list[Came]:
    """The columns that this attempt adds, and what it has tables say otherwise of themselves."""
    now = datetime.now(timezone.utc)
    return [
        came
        for change in changes
        for came in (_told(change, now) if isinstance(change, Retelling) else _columns(change, now))
    ]


def _columns(change: PlannedChange, now: datetime) -> Iterator[Came]:
    by = Brought(change.schema_id, change.first)
    for column in change.added:
        known = replace(column, kind="created") if change.new else column
        yield Came(change.folder, change.entity, known, by, now)


def _told(change: Retelling, now: datetime) -> Iterator[Came]:
    for one in change.settings:
        told = Change(one.name, "property", one.after or "", before=one.before or "")
        yield Came(change.folder, change.entity, told, Brought(None, None), now, change.spec.setting)


def made_before(
    logged: Sequence[LoggedChange],
    planned_now: Sequence[Came],
    entities: Mapping[str, str],
    states: Mapping[str, TableState],
) -> list[Came]:
    """Columns that an attempt added before it died: to the present one these were there already.

    `entities` are those of the tables, by folder. Of a new table that no batch has brought rows for yet the first one that does will tell.
    """
    now = {_about(one.table, one.change) for one in planned_now}
    # Attempts that died may each have written a change down, and credited different schemas with it.
    made: dict[tuple[str, str, str], LoggedChange] = {}
    for one in logged:
        change = one.change
        told_later = change.kind == "created" and change.table not in entities
        if not told_later and _about(change.table, change) not in now and _was_made(change, states):
            made.setdefault((change.table, change.column, change.kind), one)
    return [
        Came(
            one.change.table,
            entities.get(one.change.table),
            Change(one.change.column, one.change.kind, one.change.type),
            Brought(one.change.schema_id, _coordinates(one.change)),
            datetime.fromisoformat(one.at),
            one.change.detail if one.change.kind == "property" else "",
        )
        for one in made.values()
    ]


def _about(table: str, change: Change | TableChange) -> tuple[str, str, bool]:
    """What a change is of: a property is called as a column may be."""
    return table, change.column, change.kind == "property"


def _was_made(change: TableChange, states: Mapping[str, TableState]) -> bool:
    """Written down first, a change may have been left undone; an outer column tells for all within it."""
    if change.table not in states:
        return False
    if change.kind == "property":
        state = states[change.table]
        have = state.comment if change.column == COMMENT else state.properties.get(change.column, "")
        return have == change.type
    layout = states[change.table].layout
    if change.kind == "widened":
        return type_at(layout, change.column) == change.type
    return change.column.partition(".")[0] in layout.names


def _coordinates(change: TableChange) -> Coordinates | None:
    topic, partition, offset = change.kafka_topic, change.kafka_partition, change.kafka_offset
    if topic is None or partition is None or offset is None:
        return None
    return topic, partition, offset
