"""What `distributary infer` shows: of each schema where it is kept, and what a new look at the records changes in it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from distributary.views.schema import change_lines
from distributary.views.schema_columns import as_list
from distributary.views.terminal import one_line

if TYPE_CHECKING:
    from distributary.ingest.infer import Inference, Inferred


def as_json(found: Inference) -> str:
    """The outcome as JSON: the schema of all records, or one an entity."""
    told = (
        {"entities": [_as_dict(one) for one in found.schemas]}
        if found.per_entity
        else _as_dict(found.schemas[0])
    )
    return json.dumps({"location": str(found.folder), **told}, indent=2)


def differences(found: Inference) -> str:
    """What a new look at the records changes, for a terminal; empty where there was nothing before."""
    return "\n".join(line for one in found.schemas for line in _difference(one))


def as_text(found: Inference) -> str:
    """The outcome for a terminal."""
    lines = [line for one in found.schemas for line in _lines(one, str(found.folder))]
    if any(not one.is_read for one in found.schemas):
        hints = " and follows the hints" if any(map(_defies_hints, found.schemas)) else ""
        lines.append(f"nothing was read; --refresh looks again{hints}")
    return "\n".join(
        lines or [f"no record has an entity: there is nothing to infer; {found.folder} stays as it is"]
    )


def _as_dict(one: Inferred) -> dict[str, Any]:
    told = {"version": one.schema.id or None, "schema": json.loads(one.schema.text)}
    whose = {} if one.entity is None else {"entity": one.entity, "name": one.schema.entity}
    differ = as_list(one.hints) if one.hints else []
    return {**whose, **told, "read": one.is_read, "changes": as_list(one.changes), "hints_differ": differ}


def _difference(one: Inferred) -> list[str]:
    """The changes to what was there before, under the entity's name where there is one."""
    changes = [] if one.is_new else change_lines(one.changes)
    if one.entity is None or not changes:
        return changes
    return [f"{one_line(one.entity)}:", *(f"  {line}" for line in changes)]


def _defies_hints(one: Inferred) -> bool:
    """Whether the settings' hints say otherwise."""
    return one.hints is not None and one.hints.told != ()


def _lines(one: Inferred, location: str) -> list[str]:
    """Where the schema is, and in what hints say otherwise."""
    if one.hints is None or not _defies_hints(one):
        return [_line(one, location)]
    changes = [f"    {line}" for line in change_lines(one.hints)]
    return [_line(one, location), "  decode.schema_hints says otherwise:", *changes]


def _line(one: Inferred, location: str) -> str:
    fields = f"{len(json.loads(one.schema.text)['fields']):,} fields"
    folder = location if one.schema.entity is None else f"{location}/{one.schema.entity}"
    kept = f"version {one.schema.id} in {folder}" if one.schema.id else "nothing was written (--dry-run)"
    whose = "" if one.entity is None else f"{one_line(one.entity)}: "
    return f"{whose}{fields}: {kept}{'' if one.is_read else ', there already'}"
