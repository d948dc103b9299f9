"""A plan for people to read, and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from distributary.views.terminal import one_line

if TYPE_CHECKING:
    from distributary.ingest.evolution.planner import Step
    from distributary.ingest.evolution.rules_of_tables import RuleInPlan, ShapedBy
    from distributary.ingest.evolution.verdicts import TableVerdict
    from distributary.ingest.evolution.watched import WatchedSubject
    from distributary.ingest.plan import Plan
    from distributary.ingest.tables.properties import Setting

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
class View:
    """A plan as it is shown."""

    plan: Plan

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain JSON values."""
        tables = self.plan.tables
        return {
            "pipeline": self.plan.pipeline,
            "root": str(self.plan.root),
            "decision_needed": self.plan.open,
            "subjects": [_subject(one) for one in self.plan.subjects],
            "steps": [_step(one) for one in tables.steps],
            "rules": [_rule(one) for one in self.plan.rules],
            "tables_without_subject": list(tables.strangers),
            "tables_not_read": dict(tables.unread),
        }

    def text(self) -> str:
        """The plan in words."""
        return "\n".join(
            [*map(_subject_line, self.plan.subjects), *self._steps(), *self._strangers(), *self._rules()]
        ).rstrip()

    def verdict(self) -> str:
        """What needs a decision, in one sentence."""
        subjects, tables = self.plan.subjects, self.plan.tables
        refused = [one.subject for one in subjects if one.accepted is False]
        waiting = [step for step in tables.steps if step.open]
        changes = sum(verdict.open for step in waiting for verdict in step.verdicts)
        parts = []
        if changes:
            folders = len({folder for step in waiting for folder in step.tables})
            where = f" to {_count(folders, 'table')}" if folders else ""
            parts.append(f"{_count(changes, 'change')}{where} to decide about")
        if refused:
            parts.append(f"the registry refuses the schema for {', '.join(refused)}")
        accepted = {one.subject: one for one in subjects if one.accepted}
        torn = sorted({step.candidate.subject for step in waiting} & set(accepted))
        if tables.unread:
            parts.append(f"{_count(len(tables.unread), 'table')} could not be looked at")
        lacking = [rule for rule in self.plan.rules if rule.lacking]
        shaped = [rule for rule in self.plan.rules if rule.shaped is not None and rule.shaped.open]
        parts += [
            f"no schema has what tables[{rule.place}] is to {'be partitioned' if rule.partition_by else 'tell rows apart'} by"
            for rule in lacking
        ]
        parts += [
            f"no schema has what {_setting(rule)} is to be clustered by"
            for rule in self.plan.rules
            if rule.unclustered
        ]
        parts += [f"tables[{rule.place}].columns does not go with the schemas" for rule in shaped]
        if torn:
            levels = ", ".join(f"{name} ({accepted[name].level or 'level unknown'})" for name in torn)
            parts.append(f"the registry accepts {levels}, the tables cannot take it as it is")
        return "; ".join(parts)

    def _steps(self) -> Iterator[str]:
        held = any(step.tables for step in self.plan.tables.steps)
        if not (held or self.plan.tables.strangers or self.plan.tables.unread):
            yield f"no tables in {self.plan.root} yet: all will be created, with the columns of their records"
        for step in self.plan.tables.steps:
            yield from _step_lines(step)

    def _rules(self) -> Iterator[str]:
        # Without a list of rules there is only `sink`, which is told of where it changes something.
        listed = len(self.plan.rules) > 1
        for rule in self.plan.rules:
            if listed or rule.changes or rule.cluster_by is not None:
                yield from _rule_lines(rule)

    def _strangers(self) -> Iterator[str]:
        if self.plan.tables.strangers:
            yield (
                f"{_named(self.plan.tables.strangers)}: their records' schemas are of no watched subject; name it in "
                "registry.subjects to have them planned for"
            )
        for folder, why in self.plan.tables.unread.items():
            yield f"  ! {folder}: {one_line(why)}"


def _subject(told: WatchedSubject) -> dict[str, Any]:
    return {
        "subject": told.subject,
        "version": told.version,
        "id": told.id,
        "type": told.type,
        "offered": told.offered,
        "level": told.level,
        "accepted": told.accepted,
        "messages": list(told.messages),
    }


def _subject_line(told: WatchedSubject) -> str:
    if told.type is None:
        return f"{told.subject}: no schema yet"
    what = "the schema offered" if told.offered else f"version {told.version}, id {told.id}"
    held = f"{told.subject}: {what}, {told.type}, compatibility {told.level or 'unknown'}"
    if told.accepted is False:
        return "\n".join([f"{held}; the registry refuses it", *(f"  {one_line(m)}" for m in told.messages)])
    return f"{held}; the registry accepts it" if told.offered and told.accepted else held


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


def _rule(rule: RuleInPlan) -> dict[str, Any]:
    return {
        "rule": rule.place,
        "match": rule.match or None,
        "tables": list(rule.tables),
        "tables_with_an_earlier_rule": list(rule.earlier),
        "mode": "append" if rule.upsert is None else rule.upsert.mode,
        "keys": None if rule.upsert is None else rule.upsert.named_by,
        "sequence_by": None if rule.upsert is None else list(rule.upsert.sequence_by),
        "update": None if rule.upsert is None else rule.upsert.update,
        "deletes": None
        if rule.upsert is None or rule.upsert.deletes is None
        else rule.upsert.deletes.to_json(),
        "history": None
        if rule.upsert is None or rule.upsert.history is None
        else rule.upsert.history.to_json(),
        "partition_by": list(rule.partition_by),
        "cluster_by": None if rule.cluster_by is None else list(rule.cluster_by),
        "fields_in_no_schema": [*rule.lacking, *rule.unclustered],
        "columns": _columns(rule.shaped),
        "changes": [
            {"tables": list(one.tables), "properties": [_property(each) for each in one.settings]}
            for one in rule.changes
        ],
    }


def _columns(shaped: ShapedBy | None) -> dict[str, Any] | None:
    if shaped is None:
        return None
    return {
        "said": str(shaped.rule),
        "fields_in_no_schema": list(shaped.lacking),
        "refused": list(shaped.refused),
    }


def _property(setting: Setting) -> dict[str, Any]:
    return {"name": setting.name, "before": setting.before, "after": setting.after}


def _rule_lines(rule: RuleInPlan) -> Iterator[str]:
    name = _setting(rule) if rule.place is None else f"{_setting(rule)} ({one_line(rule.match)})"
    there = _named(rule.tables) if rule.tables else "none of the tables that are there"
    beside = f"; {_named(rule.earlier)} that it fits have an earlier rule" if rule.earlier else ""
    yield f"{name}: {there}{beside}"
    if rule.upsert is not None:
        yield f"    mode               {one_line(str(rule.upsert).removeprefix('mode '))}"
    if rule.partition_by:
        yield f"    partition_by       {one_line(', '.join(rule.partition_by))}"
    if rule.cluster_by is not None:
        yield f"    cluster_by         {one_line(', '.join(rule.cluster_by)) or 'nothing'}"
    yield from _columns_lines(rule.shaped)
    for field in rule.unclustered:
        yield f"  ! cluster_by         no schema has field {one_line(field)} as a string, number, date or time: no table is clustered by it"
    for field in rule.lacking:
        what, wanted = (
            ("partition_by", "as a string, integer, boolean or date")
            if rule.partition_by
            else ("mode", "with one value a record")
        )
        yield f"  ! {what:<19}no schema has field {one_line(field)} {wanted}: all records go to quarantine"
    for one in rule.changes:
        whose = "" if one.tables == rule.tables else f"{_named(one.tables)}: "
        for setting in one.settings:
            values = " -> ".join(_value(value) for value in (setting.before, setting.after))
            name = "" if setting.name == "cluster_by" else f"{setting.name} "
            what = "property  " if name else "cluster_by"
            yield f"    {what}         {whose}{name}{values}: the table gets it with its next rows"


def _setting(rule: RuleInPlan) -> str:
    return "sink" if rule.place is None else f"tables[{rule.place}]"


def _columns_lines(shaped: ShapedBy | None) -> Iterator[str]:
    if shaped is None:
        return
    yield f"    columns            {one_line(str(shaped.rule))}"
    for field in shaped.lacking:
        yield f"  ! columns            no schema has field {one_line(field)}: nothing becomes of it"
    for why in shaped.refused:
        yield f"  ! columns            {one_line(why)}: all records of such a schema go to quarantine"


def _value(value: str | None) -> str:
    return "none" if value is None else one_line(value)


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
