"""What a change of a table is, in words."""

from __future__ import annotations

from collections.abc import Sequence

from distributary.ingest.tables.change import PlannedChange


def changes_in_place(changes: Sequence[PlannedChange]) -> list[str]:
    """Those of tables that were there before, in words."""
    return [f"table {one.folder} {_in_words(one)}" for one in changes if not one.new]


def _in_words(change: PlannedChange) -> str:
    wider = [column.column for column in change.added if column.kind == "widened"]
    added = [column.column for column in change.added if column.kind != "widened"]
    said = [f"gets {', '.join(added)}"] if added else []
    return "; ".join([*said, f"has wider {', '.join(wider)}"] if wider else said)
