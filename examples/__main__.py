"""Plays the examples: each is sent its events, run by its settings, and held against a recomputation by other means.

python -m examples --help, from the repository's top; `make examples ARGS="keyed_json"`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Annotated

import typer
from examples.cameras.play import play as play_cameras
from examples.games.play import play as play_games
from examples.keyed_json.play import play as play_keyed_json
from examples.stage import Stage, staged
from examples.wearables.play import play as play_wearables

from distributary.errors import CheckFailed, ConfigError, DistributaryError

PLAYS: dict[str, Callable[[Stage], str]] = {
    "keyed_json": play_keyed_json,
    "wearables": play_wearables,
    "cameras": play_cameras,
    "games": play_games,
}


def main(
    names: Annotated[list[str] | None, typer.Argument(help=f"Of {', '.join(PLAYS)} (default: all).")] = None,
) -> None:
    """Play them, one after the other; exit code 3 if one did not end as it should."""
    chosen = names or list(PLAYS)
    if unknown := [name for name in chosen if name not in PLAYS]:
        raise ConfigError(f"there is no example {unknown[0]!r}; there are {', '.join(PLAYS)}")
    broken = []
    with staged(chosen) as stages:
        for name in chosen:
            began = time.monotonic()
            try:
                verdict = PLAYS[name](stages[name])
            except Exception as error:  # noqa: BLE001 - the others are to be played
                verdict = f"FAILED: {error}"
                broken.append(name)
            typer.echo(f"{name}: {verdict} ({time.monotonic() - began:.0f} s)")
    if broken:
        raise CheckFailed(f"{', '.join(broken)} did not end as they should")


if __name__ == "__main__":
    try:
        typer.run(main)
    except DistributaryError as error:
        typer.echo(f"examples: {error}", err=True)
        sys.exit(error.exit_code)
