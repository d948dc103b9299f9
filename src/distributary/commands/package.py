"""`distributary package`: what Spark's workers on other machines need, as files that Spark takes there."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from distributary.errors import ConfigError

if TYPE_CHECKING:
    from distributary.packing.archive import Packed


def package(
    folder: Annotated[Path, typer.Option("--folder", help="Where the files go.")] = Path(),
    along: Annotated[
        list[str] | None,
        typer.Option("--with", help="Another installed package to take along, such as one with a codec."),
    ] = None,
    interpreter: Annotated[
        bool,
        typer.Option(
            "--interpreter", help="Take this Python along, for workers that have none of its version."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was made as JSON.")] = False,
) -> None:
    """Pack distributary and all it needs for a cluster's workers, and say how it is submitted."""
    from distributary.packing.archive import pack
    from distributary.packing.distributions import needed

    wanted = needed(along or ())
    try:
        made = pack(folder, wanted, interpreter=interpreter)
    except OSError as error:
        # A disk that is full names no file.
        why = ": ".join(str(part) for part in (error.strerror, error.filename) if part)
        raise ConfigError(f"nothing can be packed into {folder}: {why}; name another --folder") from None
    if as_json:
        told = {
            name: str(value) if isinstance(value, Path) else value for name, value in asdict(made).items()
        }
        typer.echo(json.dumps(told, indent=2))
    else:
        typer.echo(_told(made))


def _told(made: Packed) -> str:
    whose = "is in it" if made.interpreter else "has to be on the PATH of every worker"
    return f"""\
{made.archive}: {made.bytes / 1e6:.0f} MB for each worker; Python {made.python} {whose}
{made.program}: the command line for spark-submit

    export PYSPARK_DRIVER_PYTHON=python PYSPARK_PYTHON=./distributary/bin/python
    spark-submit --master MASTER --jars "$(distributary jars --paths)" \\
        --archives {made.archive}#distributary {made.program} run SETTINGS"""
