"""`distributary expectations`: how often a pipeline's tables were given what they expect."""

from __future__ import annotations

from typing import Annotated

import typer

from distributary.commands.arguments import File, Given
from distributary.views.answers import tell
from distributary.views.expectations import lines, values


def expectations(
    file: File,
    given: Given = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts of each batch as JSON.")] = False,
) -> None:
    """Show how many records met each expectation, in all and day by day, as the ledger tells; a run may go on meanwhile."""
    from distributary.ingest.quality.rates import expected
    from distributary.ingest.settings.model import load
    from distributary.ingest.storage.opening import open_files

    settings = load(file, given=given or ())
    found = expected(open_files(settings.sink.root, settings.storage), settings.name)
    tell(values(settings.name, found), lines(settings.name, found), as_json=as_json)
