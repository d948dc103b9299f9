"""`distributary settings`: what a pipeline's file may say, and whether one can work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Check settings files, and help editors to.", no_args_is_help=True)


@app.command()
def schema() -> None:
    """Print the JSON Schema of the settings file, for editors."""
    from distributary.ingest.settings.model import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="The pipeline's settings (YAML).")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all settings, defaults included, secrets masked.")
    ] = False,
) -> None:
    """Say whether the settings can work; every problem is named with its line and remedy."""
    from distributary.ingest.routing.words import check_text
    from distributary.ingest.settings.model import load

    settings = load(file)
    if settings.route.expression is not None:
        check_text(settings.route.expression, native=settings.decode.engine == "arrow")
    typer.echo(json.dumps(settings.effective(), indent=2) if as_json else f"{file}: {settings.name} can run")
