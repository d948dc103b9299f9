"""`distributary maintain`: upkeep of a pipeline's tables."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from distributary.commands.arguments import File, Given
from distributary.views.answers import tell
from distributary.views.maintain import lines
from distributary.views.terminal import bars


def maintain(
    file: File,
    table: Annotated[
        list[str] | None, typer.Option(help="A table, by its folder; may be given again (default: all).")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing, and tell what would be done.")
    ] = False,
    older_than: Annotated[
        float, typer.Option(help="Delete only what no version has needed for so many days.")
    ] = 7.0,
    force: Annotated[bool, typer.Option("--force", help="Let that be less than 7 days.")] = False,
    given: Given = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was done as JSON, and no progress.")
    ] = False,
) -> None:
    """Compact small files of a pipeline's tables and delete what no version needs any more; a run may go on meanwhile."""
    from distributary.ingest.settings.model import load
    from distributary.ingest.upkeep.maintain import Wish
    from distributary.ingest.upkeep.maintain import maintain as keep_up

    wish = Wish(tuple(table or ()), older_than, force, dry_run)
    with bars(silent=as_json) as make_bar:
        done = keep_up(load(file, given=given or ()), wish, make_bar)
    tell(asdict(done), lines(done), as_json=as_json)
    done.check()
