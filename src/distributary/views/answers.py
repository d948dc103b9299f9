"""What a command found or did, for programs or for people."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import typer


def tell(told: Any, lines: Iterable[str], *, as_json: bool) -> None:
    """Print it as JSON, or else these lines, which are not asked for then."""
    if as_json:
        typer.echo(json.dumps(told, indent=2))
        return
    for line in lines:
        typer.echo(line)
