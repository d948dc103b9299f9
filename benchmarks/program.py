"""What the benchmarks have in common as programs: options, how they end, and whether their figures are good enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer
from benchmarks.bounds import Bound, broken
from rich.table import Table

from distributary.errors import CheckFailed, ConfigError, DistributaryError
from distributary.views.terminal import console

Smoke = Annotated[bool, typer.Option("--smoke", help="Tiny sizes: shows that it runs, measures nothing.")]


def chosen(only: str, parts: Sequence[str]) -> tuple[str, ...]:
    """Those of the parts that `--only` names, by commas; all where it names none. Raises ConfigError."""
    names = frozenset(name.strip() for name in only.split(",") if name.strip())
    if unknown := sorted(names.difference(parts)):
        raise ConfigError(f"--only {', '.join(unknown)}: there are only {', '.join(parts)}")
    return tuple(part for part in parts if not names or part in names)


@contextmanager
def ending() -> Iterator[None]:
    """Inside, an error that we raise on purpose ends the program by its sentence and exit code."""
    try:
        yield
    except DistributaryError as error:
        console().print(f"bench: {error}", soft_wrap=True)
        raise typer.Exit(error.exit_code) from None


def verdicts(title: str, figures: Mapping[str, float | None], bounds: Sequence[Bound]) -> Table:
    """Each figure beside what it must be."""
    table = Table("figure", "what", title=title, title_justify="left")
    table.add_column("measured", justify="right")
    table.add_column("must be", justify="right")
    for bound in bounds:
        value = figures.get(bound.figure)
        measured = "not measured" if value is None else f"{value:,.3g}"
        table.add_row(bound.figure, bound.meaning, measured, bound.required())
    return table


def require(figures: Mapping[str, float | None], bounds: Sequence[Bound]) -> None:
    """Raises CheckFailed where a figure is not good enough; one that was not measured is."""
    if failures := broken(figures, bounds):
        raise CheckFailed("; ".join(failures))
