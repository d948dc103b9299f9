"""`distributary resolve`: what a pipeline cannot decide alone."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from distributary.commands.arguments import File, Given
from distributary.errors import ConfigError
from distributary.views.answers import tell

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from distributary.ingest.resolve import Choice, StuckTable


def resolve(
    file: File,
    table: Annotated[
        str | None, typer.Argument(help="The table to decide about; none: list those that wait.")
    ] = None,
    recreate: Annotated[
        bool,
        typer.Option(
            "--recreate", help="Make the table anew, for this batch's rows; the old one is put aside."
        ),
    ] = False,
    skip: Annotated[
        bool, typer.Option("--skip", help="Go on without this batch's rows in that table.")
    ] = False,
    skip_lost: Annotated[
        bool,
        typer.Option("--skip-lost", help="The same, for those batches alone whose files are gone."),
    ] = False,
    given: Given = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the tables as JSON.")] = False,
) -> None:
    """Decide about tables that cannot take their rows any more, because they were dropped or altered by hand."""
    from distributary.ingest.resolve import resolve as decide
    from distributary.ingest.resolve import stuck_tables
    from distributary.ingest.settings.model import load

    settings, choice = (
        load(file, given=given or ()),
        _choice(table, {"recreate": recreate, "skip": skip, "skip_lost": skip_lost}),
    )
    if table is None or choice is None:
        waiting = [stuck for stuck in stuck_tables(settings) if table in (None, stuck.table)]
        tell([asdict(stuck) for stuck in waiting], _waiting(waiting), as_json=as_json)
        return
    stuck = decide(settings, table, choice)
    if as_json:
        typer.echo(json.dumps({"choice": choice, **asdict(stuck)}))
    else:
        done = "is made anew" if choice == "recreate" else f"goes on without {stuck.rows:,} rows"
        typer.echo(f"{stuck.table}: {done} (batch {stuck.batch_id}); run the pipeline again")


def _choice(table: str | None, given: Mapping[Choice, bool]) -> Choice | None:
    chosen = [choice for choice, wanted in given.items() if wanted]
    if len(chosen) > 1:
        raise ConfigError("--recreate, --skip and --skip-lost exclude each other; give one of them")
    if chosen and table is None:
        raise ConfigError("name the table to decide about; `distributary resolve FILE` lists those that wait")
    return chosen[0] if chosen else None


def _waiting(tables: Sequence[StuckTable]) -> Iterator[str]:
    if not tables:
        yield "nothing waits for a decision"
        return
    for stuck in tables:
        yield f"{stuck.table}: {stuck.rows:,} rows of batch {stuck.batch_id} wait: {stuck.why}"
    yield "decide with --recreate (make the table anew), --skip (go on without these rows) or --skip-lost (without those whose files are gone)"
