"""What the pipeline does about each change of a schema, for one table: the truth about policies, in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa

from distributary.codecs.changes.classify import ChangeClass, SchemaChange
from distributary.codecs.types.fields import part, parts
from distributary.ingest.columns.layout import Layout, column_path, type_at
from distributary.ingest.conform.misfits import Kind, Trouble, policy_on
from distributary.ingest.evolution.fit import Path, TableFit, table_fit
from distributary.ingest.evolution.rules import CHANGE_POLICIES, Rules
from distributary.ingest.settings.groups import NamedTable, OnChange

Action = Literal[
    "add",  # the table gets the column
    "widen",  # the table's column becomes as wide
    "fit",  # nothing is to be done: every value has its place
    "keep",  # the column stays, and is null in the new rows
    "rescue",  # values without a place go to the rescued column
    "ignore",  # values without a place are left out
    "quarantine",  # records that have such a value go to quarantine
    "drop",  # records are dropped and counted
    "other_table",  # records go to another table
    "fail",  # the run stops
]

# From the gravest on: what is told of a field with several kinds of trouble.
_GRAVITY: tuple[Action, ...] = ("fail", "quarantine", "rescue", "ignore")

_TO_DECIDE: frozenset[Action] = frozenset({"rescue", "quarantine", "drop", "other_table", "fail"})

_KINDS: Mapping[Kind, ChangeClass] = {
    "new_field": "added",
    "wider_type": "widened",
    "incompatible_type": "changed",
}

# Changes that no column notices: every column may be null, and the symbols of an enum are texts.
_UNNOTICED: frozenset[ChangeClass] = frozenset(
    {"made_required", "made_optional", "enum_value_added", "enum_value_removed"}
)

# Changes after which a routing expression finds something else in a field, or nothing.
_READ_OTHERWISE: frozenset[ChangeClass] = frozenset({"dropped", "renamed", "changed"})

_MAY_MOVE = "the routing expression reads this field: records may go to other tables, or have no entity"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVerdict:
    """One change and what becomes of it in one table.

    kind     the change's class
    action   what the pipeline does
    column   the table's column, dotted; where it has none, the field's path in the payload's names
    before   what was there: a type, a name, a symbol
    after    what is there now
    table    the type of the table's column, once this is done; empty where it has none
    setting  the setting that says so; empty where none has a say
    detail   more in words
    routing  whether the routing expression reads the field, so that records may go elsewhere
    """

    kind: ChangeClass
    action: Action
    column: str = ""
    before: str = ""
    after: str = ""
    table: str = ""
    setting: str = ""
    detail: str = ""
    routing: bool = False

    @property
    def open(self) -> bool:
        """Whether somebody should decide about it before it happens."""
        return (
            self.routing
            or self.action in _TO_DECIDE
            or self.kind == "format_switched"
            or (self.kind == "renamed" and self.action == "add")
        )


def verdicts(
    found: Sequence[SchemaChange],
    record: pa.Schema,
    before: Layout,
    rules: Rules,
    after: Layout | None = None,
) -> tuple[TableVerdict, ...]:
    """What becomes of these changes, which led to records with the columns `record`, in a table.

    `before` are the table's payload columns; `after` those once it has grown, where other records had a say in that.
    """
    switched = [change for change in found if change.kind == "format_switched"]
    if switched and not rules.any_format:
        return tuple(_undecodable(change, rules) for change in switched)
    # A table that the records leave is not concerned by what else became of them.
    found = [change for change in found if _leaves(change, rules)] or found
    return _judged(found, record, table_fit(record, before, rules, after), rules)


def verdicts_of_table(
    record: pa.Schema, before: Layout, rules: Rules, after: Layout | None = None
) -> tuple[TableVerdict, ...]:
    """What records with these columns bring to a table of which nobody knows what its records were like."""
    fit = table_fit(record, before, rules, after)
    brought = [
        SchemaChange("widened" if one.before else "added", _dotted(one.source), one.before, one.type)
        for one in fit.added
    ]
    troubled = [
        SchemaChange(
            _KINDS[one.kind],
            one.column,
            _type_at(fit.layout.columns, parts(one.column)) or one.table,
            _type_at(record, parts(one.column)) or one.record,
        )
        for one in fit.trouble
    ]
    return _judged([*brought, *troubled], record, fit, rules)


def unreadable(why: str, rules: Rules) -> TableVerdict:
    """The verdict on a schema that nobody can decode with."""
    return TableVerdict(
        kind="changed", action=rules.policies.undecodable, setting=rules.setting("undecodable"), detail=why
    )


def unshapeable(why: str, rules: Rules) -> TableVerdict:
    """The verdict on a schema whose records cannot have the columns that the table's rule wants."""
    setting = f"{rules.said.by}.columns"
    return TableVerdict(kind="changed", action="quarantine", setting=setting, detail=f"all records: {why}")


def shows(change: SchemaChange, layout: Layout | None, rules: Rules) -> bool:
    """Whether values of a field that `shown` told come into a table with these columns; None for one that is yet to be, which has all."""
    if layout is None or (rules.policies.new_field != "ignore" and rules.growth_stops is None):
        return True
    return column_path(layout.columns, parts(change.after)) is not None


def of_routes(
    found: Sequence[SchemaChange], told: Sequence[SchemaChange], columns: pa.Schema, rules: Rules
) -> list[SchemaChange]:
    """Changes of what records are routed by that nothing is told of: routes see fields that a rule keeps from the table."""
    return [
        change
        for change in found
        if change.kind in _READ_OTHERWISE and change not in told and _is_routed_by(change, columns, rules)
    ]


def _is_routed_by(change: SchemaChange, columns: pa.Schema, rules: Rules) -> bool:
    path = parts(change.column)
    was = (*path[:-1], change.before) if change.kind == "renamed" else path
    return _routes(was, rules) or _in_expression(path, change, columns, rules)


def unroutable(why: str, rules: Rules) -> TableVerdict:
    """The verdict on records whose columns the routing expression does not go with, whatever has changed."""
    return _unroutable(TableVerdict(kind="changed", action="fit"), why, rules)


def _unroutable(plain: TableVerdict, why: str, rules: Rules) -> TableVerdict:
    return replace(_without_entity(plain, f"{why}. Such records have no entity", rules), routing=True)


def absent(path: Path, record: str, rules: Rules) -> TableVerdict:
    """The verdict on a field that the routing expression reads and that these records never have."""
    detail = (
        f"the routing expression reads {'.'.join(path)}, which {record or 'this schema'} lacks, so that it is null; "
        "records that the expression then names no table for have no entity"
    )
    return replace(
        _without_entity(TableVerdict(kind="dropped", column=_dotted(path), action="fit"), detail, rules),
        routing=True,
    )


def _judged(
    found: Sequence[SchemaChange], record: pa.Schema, fit: TableFit, rules: Rules
) -> tuple[TableVerdict, ...]:
    refusal = rules.expression.refusal(record) if rules.expression else None
    return tuple(_verdict(change, fit, rules, refusal) for change in found)


def _undecodable(change: SchemaChange, rules: Rules) -> TableVerdict:
    return TableVerdict(
        kind=change.kind,
        column=change.column,
        before=change.before,
        after=change.after,
        action=rules.policies.undecodable,
        setting=rules.setting("undecodable"),
        detail="decode.format is for one format, so that no such record can be decoded",
    )


def _verdict(change: SchemaChange, fit: TableFit, rules: Rules, refusal: str | None) -> TableVerdict:
    """`refusal` is why such records have no entity, where the routing expression does not go with their columns."""
    path = parts(change.column)
    column = column_path(fit.layout.columns, path)
    plain = TableVerdict(
        kind=change.kind,
        column=change.column if column is None else column,
        before=change.before,
        after=change.after,
        table=_type_at(fit.layout.columns, path),
        action="fit",
    )
    if change.kind in _UNNOTICED:
        return _unless_vetoed(plain, change, rules)
    found = _unless_vetoed(_BY_KIND.get(change.kind, _of_values)(plain, path, fit, rules), change, rules)
    if not (refusal or change.kind in _READ_OTHERWISE) or not _in_expression(
        path, change, fit.layout.columns, rules
    ):
        return found
    if refusal:
        return _unroutable(found, refusal, rules)
    return replace(found, routing=True, setting="route.expression", detail=_MAY_MOVE)


def _unless_vetoed(told: TableVerdict, change: SchemaChange, rules: Rules) -> TableVerdict:
    """What becomes of a change; where the settings keep such a schema's records from the table, that."""
    veto = veto_on(change.kind, rules) if told.action != "fail" and is_for_the_table(change, rules) else None
    if veto is None:
        return told
    return replace(told, action=veto[0], setting=veto[1], detail="all records of this schema")


def veto_on(kind: ChangeClass, rules: Rules) -> tuple[Literal["fail", "quarantine"], str] | None:
    """What the settings say of records that come with a class of change, and which one; None where they come to the table."""
    name = CHANGE_POLICIES.get(kind)
    policy: OnChange = "keep" if name is None else getattr(rules.policies, name)
    return None if name is None or policy == "keep" else (policy, rules.setting(name))


def is_for_the_table(change: SchemaChange, rules: Rules) -> bool:
    """Whether records still come to the table after a change: without the field that routes them, or under another name, they do not."""
    if _leaves(change, rules):
        return False
    path = parts(change.column) if change.column else ()
    gone = (*path[:-1], change.before) if change.kind == "renamed" else path
    return change.kind not in ("dropped", "renamed") or not _routes(gone, rules)


def _of_values(plain: TableVerdict, path: Path, fit: TableFit, rules: Rules) -> TableVerdict:
    """A field whose values must find their place: a new one, or one of another type."""
    trouble = [_of_trouble(one, rules) for one in fit.trouble_at(path)]
    for action in _GRAVITY:
        for acted, setting, detail in trouble:
            if acted == action:
                return replace(plain, action=action, setting=setting, detail=detail)
    added = fit.added_at(path)
    if not added:
        return plain
    if all(change.kind == "widened" for change in added):
        if rules.growth_stops == "decode.evolution":
            return replace(plain, action="fail", setting=rules.growth_stops)
        return replace(plain, action="widen", setting=rules.setting("wider_type"))
    if rules.growth_stops:
        return replace(plain, action="fail", setting=rules.growth_stops)
    return replace(plain, action="add", setting=rules.setting("new_field"))


def _of_trouble(trouble: Trouble, rules: Rules) -> tuple[Action, str, str]:
    setting = rules.setting(trouble.kind)
    if policy_on(trouble.kind, rules.policies) == "fail":
        return "fail", setting, trouble.sentence()
    if trouble.kind == "new_field":
        setting = rules.leaves_columns
    action: Action = "quarantine" if trouble.done == "rejected" else "rescue"
    return ("ignore" if trouble.done == "ignored" else action), setting, trouble.sentence()


def _renamed(plain: TableVerdict, path: Path, fit: TableFit, rules: Rules) -> TableVerdict:
    if _routes((*path[:-1], plain.before), rules):
        return _unrouted(plain, rules)
    found = _of_values(plain, path, fit, rules)
    if found.action == "add":
        return replace(found, detail=f"beside {plain.before}, which stays and is null in the new rows")
    return found


def _dropped(plain: TableVerdict, path: Path, fit: TableFit, rules: Rules) -> TableVerdict:
    if _routes(path, rules):
        return _unrouted(plain, rules)
    return replace(plain, action="keep") if plain.table else plain


def _record_renamed(plain: TableVerdict, path: Path, fit: TableFit, rules: Rules) -> TableVerdict:
    if not _leaves(SchemaChange(plain.kind, "", plain.before, plain.after), rules):
        return plain
    policy = rules.policies.new_entity
    action: Action = "other_table" if policy == "create" else policy
    return replace(
        plain,
        action=action,
        setting="route.by" if policy == "create" else rules.setting("new_entity"),
        detail="records are routed by the name of their record",
    )


def _leaves(change: SchemaChange, rules: Rules) -> bool:
    """Whether records go to another table after this change, for another name."""
    if change.kind != "record_renamed" or rules.route.by != "record":
        return False
    return not rules.route.fold_case or change.before.casefold() != change.after.casefold()


def _format_switched(plain: TableVerdict, path: Path, fit: TableFit, rules: Rules) -> TableVerdict:
    return replace(plain, setting="decode.format", detail="each record is decoded by its own schema's format")


def _retyped(plain: TableVerdict, path: Path, fit: TableFit, rules: Rules) -> TableVerdict:
    if _routes(path, rules) and plain.after.startswith(("struct<", "array<", "map<")):
        return _unrouted(plain, rules)
    return _of_values(plain, path, fit, rules)


def _routes(path: Path, rules: Rules) -> bool:
    """Whether the routing value is at this path or within it."""
    if rules.route.by != "field":
        return False
    route = tuple((rules.route.field or "").split("."))
    return route[: len(path)] == path


def _in_expression(path: Path, change: SchemaChange, columns: pa.Schema, rules: Rules) -> bool:
    """Whether the routing expression reads this field; by the name that it had, where that is another now."""
    before = (*path[:-1], change.before) if change.kind == "renamed" else path
    return bool(before) and rules.expression is not None and rules.expression.touches(before, columns)


def _unrouted(plain: TableVerdict, rules: Rules) -> TableVerdict:
    # Of a field that was there, a change says what type it had.
    why = "and have no value there any more" if plain.before or plain.after else "which they do not have"
    return _without_entity(plain, f"records are routed by {rules.route.field}, {why}", rules)


def _without_entity(plain: TableVerdict, detail: str, rules: Rules) -> TableVerdict:
    policy, setting = rules.policies.no_entity, rules.setting("no_entity")
    if isinstance(policy, NamedTable):
        return replace(
            plain, action="other_table", setting=setting, detail=f"{detail}: they go to {policy.table}"
        )
    return replace(plain, action=policy, setting=setting, detail=detail)


_BY_KIND: Mapping[ChangeClass, Callable[[TableVerdict, Path, TableFit, Rules], TableVerdict]] = {
    "renamed": _renamed,
    "dropped": _dropped,
    "changed": _retyped,
    "record_renamed": _record_renamed,
    "format_switched": _format_switched,
}


def _type_at(layout: pa.Schema, path: Path) -> str:
    column = column_path(layout, path)
    return type_at(layout, column) if column else ""


def _dotted(path: Path) -> str:
    return ".".join(map(part, path))
