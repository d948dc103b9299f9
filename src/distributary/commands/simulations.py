"""`distributary simulations`: what a simulation's file may say, whether one can work, and some to start from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="List, show and check files for `distributary simulate`.", no_args_is_help=True)


@app.command("list")
def presets() -> None:
    """Name the simulations that come with distributary, and what each is for."""
    from distributary.producer_sim.traffic.presets import about
    from distributary.producer_sim.traffic.presets import presets as shipped

    for name, file in shipped().items():
        typer.echo(f"{name}: {about(file)}")


@app.command()
def show(
    simulation: Annotated[str, typer.Argument(help="A preset, or a simulation (YAML).")],
) -> None:
    """Print a simulation's file, to save as one of your own."""
    from distributary.producer_sim.traffic.presets import find

    typer.echo(find(simulation).read_text(encoding="utf-8"), nl=False)


@app.command()
def check(
    simulation: Annotated[str, typer.Argument(help="A simulation (YAML), or a preset.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all settings, defaults included, secrets masked.")
    ] = False,
) -> None:
    """Say whether a simulation can work; every problem is named with its line and remedy."""
    from distributary.producer_sim.traffic.presets import find
    from distributary.producer_sim.traffic.simulation import Simulation

    found = Simulation.from_file(find(simulation))
    if as_json:
        typer.echo(json.dumps(found.model_dump(mode="json"), indent=2))
        return
    last, total = found.last_version, found.total
    typer.echo(
        f"{Path(simulation)}: {total:,} records to {found.target.topic}, versions {found.evolution.first_version} to {last}"
    )


@app.command()
def schema() -> None:
    """Print the JSON Schema of a simulation's file, for editors."""
    from distributary.producer_sim.traffic.simulation import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))
