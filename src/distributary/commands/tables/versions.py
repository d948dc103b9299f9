"""`distributary versions`: which versions of a pipeline's tables belong together."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from distributary.commands.run import File, Given

if TYPE_CHECKING:
    from distributary.ingest.table_versions import TableVersion


def versions(
    file: File,
    batch: Annotated[
        int | None, typer.Option(help="The batch, by its number in ledger_batches (default: the newest one).")
    ] = None,
    given: Given = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the versions as JSON.")] = False,
) -> None:
    """Show each table's version as of one batch that all of them have, to read them together."""
    from distributary.ingest.settings.model import load
    from distributary.ingest.table_versions import versions_at

    found = versions_at(load(file, given=given or ()), batch)
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2))
        return
    typer.echo(f"batch {found.batch} of {found.pipeline} (generation {found.generation})")
    for table in found.tables:
        typer.echo(f"{table.table}: version {table.version}{_remark(table)}")
    for name, why in found.unreadable.items():
        typer.echo(f"{name}: nobody can open it ({why})")


def _remark(table: TableVersion) -> str:
    return f"; {table.waits:,} batches wait for it (`distributary resolve`)" if table.waits else ""
