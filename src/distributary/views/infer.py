"""What `distributary infer` shows: of each schema where it is kept, and what a new look at the records changes in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from distributary.views.schema import change_lines
from distributary.views.schema_columns import Changes
from distributary.views.terminal import one_line

if TYPE_CHECKING:
    from distributary.registry.base import Schema


@dataclass(frozen=True, slots=True)
class Inferred:
    """One schema with what became of it; `schema.id` is 0 where it is not kept.

    entity   None for a schema of all records
    is_read  whether records were looked at; if not, the schema was kept before
    hints    in what the settings' hints say otherwise than a schema that was kept before
    """

    entity: str | None
    schema: Schema
    changes: Changes
    is_new: bool = True
    is_read: bool = True
    hints: Changes | None = None

    def as_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        told = {"version": self.schema.id or None, "schema": json.loads(self.schema.text)}
        whose = {} if self.entity is None else {"entity": self.entity, "name": self.schema.entity}
        differ = self.hints.as_list() if self.hints else []
        return {
            **whose,
            **told,
            "read": self.is_read,
            "changes": self.changes.as_list(),
            "hints_differ": differ,
        }

    def difference(self) -> list[str]:
        """For a terminal: the changes to what was there before, under the entity's name where there is one."""
        changes = [] if self.is_new else change_lines(self.changes)
        if self.entity is None or not changes:
            return changes
        return [f"{one_line(self.entity)}:", *(f"  {line}" for line in changes)]

    @property
    def defies_hints(self) -> bool:
        """Whether the settings' hints say otherwise."""
        return self.hints is not None and self.hints.told != ()

    def lines(self, location: str) -> list[str]:
        """For a terminal: where the schema is, and in what hints say otherwise."""
        if self.hints is None or not self.defies_hints:
            return [self._line(location)]
        changes = [f"    {line}" for line in change_lines(self.hints)]
        return [self._line(location), "  decode.schema_hints says otherwise:", *changes]

    def _line(self, location: str) -> str:
        fields = f"{len(json.loads(self.schema.text)['fields']):,} fields"
        folder = location if self.schema.entity is None else f"{location}/{self.schema.entity}"
        kept = (
            f"version {self.schema.id} in {folder}" if self.schema.id else "nothing was written (--dry-run)"
        )
        whose = "" if self.entity is None else f"{one_line(self.entity)}: "
        return f"{whose}{fields}: {kept}{'' if self.is_read else ', there already'}"


def as_json(location: str, found: Sequence[Inferred], per_entity: bool) -> str:
    """The outcome as JSON: the schema of all records, or one an entity."""
    told = {"entities": [one.as_dict() for one in found]} if per_entity else found[0].as_dict()
    return json.dumps({"location": location, **told}, indent=2)


def differences(found: Sequence[Inferred]) -> str:
    """What a new look at the records changes, for a terminal; empty where there was nothing before."""
    return "\n".join(line for one in found for line in one.difference())


def as_text(location: str, found: Sequence[Inferred]) -> str:
    """The outcome for a terminal."""
    lines = [line for one in found for line in one.lines(location)]
    if any(not one.is_read for one in found):
        hints = " and follows the hints" if any(one.defies_hints for one in found) else ""
        lines.append(f"nothing was read; --refresh looks again{hints}")
    return "\n".join(
        lines or [f"no record has an entity: there is nothing to infer; {location} stays as it is"]
    )
