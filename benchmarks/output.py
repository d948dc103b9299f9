"""Where a benchmark's tables and its JSON go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from distributary.views.terminal import console


def screen() -> Console:
    """stdout; where it is no terminal, wide enough for the tables."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=120)


def write(document: dict[str, Any], path: Path | None) -> None:
    """Write the JSON, or say that there is no file for it."""
    if path is None:
        console().print("bench: no JSON was written; --output names a file for it", soft_wrap=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    console().print(f"bench: written to {path}", soft_wrap=True)
