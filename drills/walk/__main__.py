"""Random walks to hunt with: python -m drills.walk --help, from the repository's top."""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from drills.walk.walking import EVERY, Wanted, walked
from drills.world import open_world

from distributary.errors import CheckFailed, ConfigError, DistributaryError


def main(  # noqa: PLR0913, PLR0917 - its parameters are the options
    seed: Annotated[int, typer.Option(min=0, help="Of the first walk.")] = 0,
    walks: Annotated[int, typer.Option(min=1, help="How many, of this seed and those behind it.")] = 1,
    steps: Annotated[int, typer.Option(min=1, help="Of each walk.")] = 30,
    only: Annotated[str, typer.Option(metavar="NAMES", help="Only these operations, with commas.")] = "",
    drop: Annotated[
        str, typer.Option(metavar="NUMBERS", help="Leave these steps out, with commas; all others stay.")
    ] = "",
    names: Annotated[bool, typer.Option("--list", help="Tell which operations there are.")] = False,
) -> None:
    """Walk; exit code 3 if a walk did not end as it should, which is told with its seed and its steps."""
    if names:
        for one in EVERY:
            typer.echo(f"{one.name} ({one.weight}): {(one.does.__doc__ or '').strip()}")
        return
    chosen = {name for name in only.split(",") if name}
    if unknown := chosen - {one.name for one in EVERY}:
        raise ConfigError(f"there is no operation {min(unknown)!r}; --list tells which there are")
    dropped = {int(number) for number in drop.split(",") if number}
    logging.disable(logging.WARNING)
    broken: list[int] = []
    with (
        tempfile.TemporaryDirectory(prefix="walk-") as folder,
        open_world(Path(folder), seed, rounds=1) as world,
    ):
        for number in range(seed, seed + walks):
            done = walked(world, Wanted(number, steps, chosen, dropped), typer.echo)
            typer.echo(
                f"seed {number}: {len(done.steps)} steps, {done.records} records, refused {dict(done.refused)}"
            )
            if done.wrong:
                broken.append(number)
                typer.echo(f"seed {number}: {', '.join(done.steps)}")
    if broken:
        raise CheckFailed(f"walks of seeds {', '.join(map(str, broken))} did not end as they should")


if __name__ == "__main__":
    try:
        typer.run(main)
    except DistributaryError as error:
        sys.exit(f"error: {error}")
