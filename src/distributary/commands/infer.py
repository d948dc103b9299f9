"""`distributary infer`: the schema of records that name none, found by looking at them, and kept."""

from __future__ import annotations

from typing import Annotated

import typer

from distributary.commands.arguments import File, Given
from distributary.commands.run import session
from distributary.errors import ConfigError
from distributary.views import infer as views


def infer(
    file: File,
    refresh: Annotated[
        bool,
        typer.Option(
            "--refresh", help="Infer again where there is a schema; what changed is shown, then kept."
        ),
    ] = False,
    grow: Annotated[
        bool,
        typer.Option(
            "--grow", help="Infer again, and add what is found to the schema that there is: no field goes."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Look at about this many of the newest records instead of all.")
    ] = None,
    given: Given = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Infer the schema of a pipeline's JSON records from its topics, or one an entity, and keep it as the next version."""
    from distributary.ingest.infer import kept, look
    from distributary.ingest.settings.model import load

    if refresh and grow:
        raise ConfigError("--refresh and --grow exclude each other; give one of them")
    settings = load(file, given=given or ())
    found = look(settings, "grow" if grow else refresh, sample, session)
    # Before anything is written: who reads it knows what the next run decodes otherwise, whatever becomes of writing.
    if not as_json and (differences := views.differences(found)):
        typer.echo(differences)
    found = found if dry_run else kept(settings, found)
    typer.echo(views.as_json(found) if as_json else views.as_text(found))
