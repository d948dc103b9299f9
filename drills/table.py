"""The table of the drills in the docs, made from drills.json."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parent.parent
RECORD = TOP / "drills" / "drills.json"
PAGE = TOP / "docs" / "explanation" / "what-is-guaranteed.md"

_BEGIN, _END = "<!-- drills: begin -->", "<!-- drills: end -->"


def recorded() -> list[dict[str, Any]]:
    """What came of the drills on record."""
    rows: list[dict[str, Any]] = json.loads(RECORD.read_text(encoding="utf-8"))
    return rows


def with_table(page: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The page with its table made anew."""
    before, _, rest = page.partition(_BEGIN)
    return before + _table(rows) + rest.partition(_END)[2]


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    head = "| drill | rounds | faults | records | lost | twice | whole again, s | refused by |"
    lines = [_row(row) for row in rows]
    return "\n".join([_BEGIN, head, "|---|--:|--:|--:|--:|--:|--:|---|", *lines, _END])


def _row(row: Mapping[str, Any]) -> str:
    recovery = row["recovery_seconds"]
    cells = [
        f"`{row['drill']}`",
        *(f"{row[name]:,}" for name in ("rounds", "faults", "records", "lost", "twice")),
        "" if recovery is None else f"{recovery:.1f}",
        ", ".join(f"`{name}`" for name in row.get("refused", ())),
    ]
    return f"| {' | '.join(cells)} |"
