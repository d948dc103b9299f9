"""`distributary erase`: rows that are to be nowhere any more."""

from __future__ import annotations

from typing import Annotated

import typer

from distributary.commands.arguments import File, Given
from distributary.views.answers import tell
from distributary.views.erase import lines
from distributary.views.terminal import bars


def erase(
    file: File,
    where: Annotated[
        str,
        typer.Option(help="A SQL condition over the tables' columns; the rows for which it is true go."),
    ],
    key: Annotated[
        list[str] | None,
        typer.Option(
            help="A key, of which records in quarantine, and in what remembers deletes, go whatever they say; may be given again."
        ),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(help="A table, by its folder; may be given again (default: all, and the quarantine)."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing, and tell what would be done.")
    ] = False,
    given: Given = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was done as JSON, and no progress.")
    ] = False,
) -> None:
    """Take rows out of a pipeline's tables and quarantine: their files are written anew without them; a run may go on meanwhile."""
    from distributary.ingest.erasure.erase import Wanted
    from distributary.ingest.erasure.erase import erase as take_out
    from distributary.ingest.settings.model import load

    wanted = Wanted(where, tuple(key or ()), tuple(table or ()), dry_run)
    with bars(silent=as_json) as make_bar:
        done = take_out(load(file, given=given or ()), wanted, make_bar)
    tell(done.as_dict(), lines(done), as_json=as_json)
    done.check()
