"""What all commands of a pipeline take: its file, and settings for this once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

File = Annotated[Path, typer.Argument(help="The pipeline's settings (YAML).")]

Given = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A setting instead of what the file says, such as sink.root=./trial; may be given again.",
    ),
]
