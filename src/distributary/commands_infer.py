"""`distributary infer`: the schema of records that name none, found by looking at them, and kept."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from distributary.commands_run import File, session
from distributary.schema_columns import Changes, changes_between
from distributary.schema_views import change_lines

if TYPE_CHECKING:
    from distributary.ingest.schema_location import SchemaLocation
    from distributary.registry.base import Schema


def infer(
    file: File,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Infer again where there is a schema, and show what changed.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Look at about this many of the newest records instead of all.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Infer the schema of a pipeline's JSON records from its topics, and keep it as the next version."""
    from distributary.ingest.infer import growing_codec, location_of
    from distributary.ingest.infer import infer as infer_schema
    from distributary.ingest.settings import load

    settings = load(file)
    codec = growing_codec(settings)
    location = location_of(settings)
    before = location.latest()
    if before is not None and not refresh:
        _tell(location, before, changes_between(None, before, codec), as_json)
        return
    with session(settings) as spark:
        found = infer_schema(spark, settings, sample)
    changes = changes_between(before, found, codec)
    if before is not None and not as_json:
        typer.echo("\n".join(change_lines(changes)))
    kept = found if dry_run else location.by_ref(location.register(location.subject, found.text))
    _tell(location, kept, changes, as_json)


def _tell(location: SchemaLocation, schema: Schema, changes: Changes, as_json: bool) -> None:
    value = json.loads(schema.text)
    if as_json:
        told = {"location": str(location.folder), "version": schema.id or None, "schema": value}
        typer.echo(json.dumps({**told, "changes": changes.as_list()}, indent=2))
        return
    fields = f"{len(value['fields']):,} fields"
    kept = f"version {schema.id} in {location.folder}" if schema.id else "nothing was written (--dry-run)"
    typer.echo(f"{fields}: {kept}")
