"""A plan for people to read, and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from distributary.errors import BadSchema, NotOffered, RegistryUnavailable, SchemaNotFound
from distributary.views.terminal import one_line

if TYPE_CHECKING:
    from distributary.ingest.evolution.candidates import Candidate, Candidates
    from distributary.ingest.evolution.plan import Step, TablePlan
    from distributary.ingest.evolution.verdicts import TableVerdict
    from distributary.lookup.offered import Answered
    from distributary.registry.confluent.catalogue import Compatibility

_TABLES_NAMED = 5

_ACTIONS: Mapping[str, str] = {
    "add": "the column is added",
    "widen": "the table's column becomes wider",
    "fit": "every value has its place",
    "keep": "the column stays, null in new rows",
    "rescue": "values without a place go to the rescued column",
    "ignore": "values without a place are left out",
    "quarantine": "records concerned go to quarantine",
    "drop": "records concerned are dropped and counted",
    "other_table": "records go to another table",
    "fail": "the run stops",
}


@dataclass(frozen=True, slots=True)
class ToldSubject:
    """A watched subject, and what its registry says of its newest schema.

    version   None where it has none yet, or where its newest schema is the one offered
    accepted  whether the registry takes the schema offered; None where it cannot tell, and for a registered version:
              held against itself it would fit, and what the registry once let it in by, nobody knows
    """

    subject: str
    version: int | None
    id: int | None
    type: str | None
    level: str | None
    accepted: bool | None
    messages: tuple[str, ...] = ()
    offered: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return {
            "subject": self.subject,
            "version": self.version,
            "id": self.id,
            "type": self.type,
            "offered": self.offered,
            "level": self.level,
            "accepted": self.accepted,
            "messages": list(self.messages),
        }

    def line(self) -> str:
        """The same in words."""
        if self.type is None:
            return f"{self.subject}: no schema yet"
        what = "the schema offered" if self.offered else f"version {self.version}, id {self.id}"
        held = f"{self.subject}: {what}, {self.type}, compatibility {self.level or 'unknown'}"
        if self.accepted is False:
            return "\n".join(
                [f"{held}; the registry refuses it", *(f"  {one_line(m)}" for m in self.messages)]
            )
        return f"{held}; the registry accepts it" if self.offered and self.accepted else held


@dataclass(frozen=True, slots=True)
class View:
    """A plan and what belongs to it."""

    pipeline: str
    root: str
    subjects: Sequence[ToldSubject]
    plan: TablePlan

    @property
    def open(self) -> bool:
        """Whether something needs a decision."""
        return self.plan.open or any(one.accepted is False for one in self.subjects)

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain JSON values."""
        return {
            "pipeline": self.pipeline,
            "root": self.root,
            "decision_needed": self.open,
            "subjects": [one.as_dict() for one in self.subjects],
            "steps": [_step(one) for one in self.plan.steps],
            "tables_without_subject": list(self.plan.strangers),
            "tables_not_read": dict(self.plan.unread),
        }

    def text(self) -> str:
        """The plan in words."""
        return "\n".join(
            [*(one.line() for one in self.subjects), *self._steps(), *self._strangers()]
        ).rstrip()

    def verdict(self) -> str:
        """What needs a decision, in one sentence."""
        refused = [one.subject for one in self.subjects if one.accepted is False]
        waiting = [step for step in self.plan.steps if step.open]
        changes = sum(verdict.open for step in waiting for verdict in step.verdicts)
        parts = []
        if changes:
            tables = len({folder for step in waiting for folder in step.tables})
            where = f" to {_count(tables, 'table')}" if tables else ""
            parts.append(f"{_count(changes, 'change')}{where} to decide about")
        if refused:
            parts.append(f"the registry refuses the schema for {', '.join(refused)}")
        accepted = {one.subject: one for one in self.subjects if one.accepted}
        torn = sorted({step.candidate.subject for step in waiting} & set(accepted))
        if self.plan.unread:
            parts.append(f"{_count(len(self.plan.unread), 'table')} could not be looked at")
        if torn:
            levels = ", ".join(f"{name} ({accepted[name].level or 'level unknown'})" for name in torn)
            parts.append(f"the registry accepts {levels}, the tables cannot take it as it is")
        return "; ".join(parts)

    def _steps(self) -> Iterator[str]:
        held = any(step.tables for step in self.plan.steps)
        if not (held or self.plan.strangers or self.plan.unread):
            yield f"no tables in {self.root} yet: all will be created, with the columns of their records"
        for step in self.plan.steps:
            yield from _step_lines(step)

    def _strangers(self) -> Iterator[str]:
        if self.plan.strangers:
            yield (
                f"{_named(self.plan.strangers)}: their records' schemas are of no watched subject; name it in "
                "registry.subjects to have them planned for"
            )
        for folder, why in self.plan.unread.items():
            yield f"  ! {folder}: {one_line(why)}"


def told_subjects(candidates: Candidates, answered: Answered) -> list[ToldSubject]:
    """What is told of each subject; the registry is asked for levels, and whether it takes what is offered."""
    newest = [_told(one, answered) for one in candidates.newest]
    return [*newest, *(ToldSubject(one, None, None, None, None, None) for one in candidates.empty)]


def _told(candidate: Candidate, answered: Answered) -> ToldSubject:
    level = _level(candidate.subject, answered)
    is_offered = candidate.version is None
    verdict = _check(candidate, answered) if is_offered else None
    return ToldSubject(
        candidate.subject,
        candidate.version,
        candidate.schema_id,
        candidate.schema.type,
        level,
        verdict.compatible if verdict else None,
        verdict.messages if verdict else (),
        is_offered,
    )


def _level(subject: str, answered: Answered) -> str | None:
    try:
        return answered.catalogue.level(subject) if answered.catalogue else None
    except NotOffered:
        return None


def _check(candidate: Candidate, answered: Answered) -> Compatibility | None:
    from distributary.registry.confluent.catalogue import Compatibility

    schema = candidate.schema
    if answered.catalogue is None:
        return None
    try:
        return answered.catalogue.check(candidate.subject, schema.text, schema.type, schema.references)
    except (NotOffered, SchemaNotFound):  # a subject without versions takes any schema
        return None
    except RegistryUnavailable:
        raise
    except BadSchema as error:
        return Compatibility(False, (str(error),), "")


def _step(step: Step) -> dict[str, Any]:
    return {
        "tables": list(step.tables),
        "subject": step.candidate.subject,
        "record": step.record,
        "unmet": step.unmet,
        "from_id": step.before,
        "to_id": step.candidate.schema_id,
        "to_version": step.candidate.version,
        "decision_needed": step.open,
        "changes": [_change(one) for one in step.verdicts],
    }


def _change(verdict: TableVerdict) -> dict[str, Any]:
    return {
        "class": verdict.kind,
        "column": verdict.column,
        "before": verdict.before,
        "after": verdict.after,
        "table_type": verdict.table,
        "decision": verdict.action,
        "decision_needed": verdict.open,
        "setting": verdict.setting,
        "detail": verdict.detail,
    }


def _step_lines(step: Step) -> Iterator[str]:
    new = "the schema offered" if step.candidate.schema_id is None else f"schema {step.candidate.schema_id}"
    what = f"{new} ({one_line(step.record)})" if step.record else new
    if not step.tables:
        yield f"no table has met {what}:{'' if step.open else ' its tables are created'}"
    elif step.unmet:
        yield f"no table has met {what}; if its records go to {_named(step.tables)}:"
        if not step.verdicts:
            yield "    nothing changes for them"
    elif step.before is None:
        yield f"{_named(step.tables)}: nobody knows what they met; held against {what}"
    elif step.before == step.candidate.schema_id:
        yield f"{_named(step.tables)}: up to date with {what}"
    else:
        yield f"{_named(step.tables)}: schema {step.before} -> {what}"
        if not step.verdicts:
            yield "    nothing changes for them"
    yield from map(_change_line, step.verdicts)


def _change_line(verdict: TableVerdict) -> str:
    types = " -> ".join(one_line(part) for part in (verdict.before, verdict.after) if part)
    where = " ".join(part for part in (one_line(verdict.column), types) if part)
    why = ", ".join(part for part in (one_line(verdict.detail), verdict.setting) if part)
    line = f"  {'!' if verdict.open else ' '} {verdict.kind:<18} {where}: {_ACTIONS[verdict.action]}"
    return f"{line} ({why})" if why else line


def _named(tables: Sequence[str]) -> str:
    few, more = ", ".join(tables[:_TABLES_NAMED]), len(tables) - _TABLES_NAMED
    return f"{_count(len(tables), 'table')} ({few}{f', and {more:,} more' if more > 0 else ''})"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
