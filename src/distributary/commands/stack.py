"""`distributary stack`: the local broker and registry, and a store."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from distributary.producer_sim.stack.local import StackStatus

app = typer.Typer(
    help="A real Kafka broker and schema registry on this machine, and a store that speaks S3.",
    no_args_is_help=True,
)

Folder = Annotated[
    Path | None,
    typer.Option("--folder", help="Where topics, schemas and logs are kept (default: one a user)."),
]

AsJson = Annotated[bool, typer.Option("--json", help="Print the state as JSON.")]


@app.command()
def up(
    folder: Folder = None,
    broker_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="The broker's port (default: as last time, or a free one)."),
    ] = None,
    registry_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The registry's port (default: likewise).")
    ] = None,
    s3: Annotated[
        bool, typer.Option("--s3", help="A store that speaks S3, too; what is in it ends with it.")
    ] = False,
    s3_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The store's port (default: likewise); means --s3.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start what does not run yet, and wait until all can be used."""
    from distributary.producer_sim.stack.local import LocalStack

    stack = LocalStack(folder, broker_port, registry_port, s3_port=0 if s3 and s3_port is None else s3_port)
    _show(stack.up(), as_json)


@app.command()
def down(
    folder: Folder = None,
    wipe: Annotated[bool, typer.Option("--wipe", help="Delete the topics, schemas and logs too.")] = False,
    as_json: AsJson = False,
) -> None:
    """End all; topics and schemas stay for the next start."""
    from distributary.producer_sim.stack.local import LocalStack

    _show(LocalStack(folder).down(wipe), as_json)


@app.command()
def status(folder: Folder = None, as_json: AsJson = False) -> None:
    """Say what runs, and where."""
    from distributary.producer_sim.stack.local import LocalStack

    _show(LocalStack(folder).status(), as_json)


def _show(state: StackStatus, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(asdict(state), indent=2))
        return
    for service in filter(None, (state.broker, state.registry, state.s3)):
        what = f"runs at {service.address} (process {service.pid})" if service.running else "does not run"
        kept = "" if service.keeps else "; what is in it ends with it"
        typer.echo(f"{service.name}: {what}{kept}; log: {service.log}")
