"""`distributary plan`: what the newest schemas would do to a pipeline's tables, before anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from distributary.commands.arguments import File, Given
from distributary.commands.settings import read_conditions, read_derived, routing_expression
from distributary.errors import CheckFailed, ConfigError
from distributary.lookup.schema_file import text_of
from distributary.lookup.versions import reference, type_known
from distributary.views import plan as views

if TYPE_CHECKING:
    from distributary.ingest.evolution.offered import Offer


def plan(
    file: File,
    schema: Annotated[
        Path | None,
        typer.Option(help="A file with a schema that is not registered yet: it is taken for the newest one."),
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option(help="The subject that --schema is for; may be left out where only one is watched."),
    ] = None,
    schema_type: Annotated[
        str | None,
        typer.Option(
            "--type", help="AVRO, PROTOBUF or JSON (default: by the file's suffix, or the subject's)."
        ),
    ] = None,
    references: Annotated[
        list[str] | None,
        typer.Option("--reference", help="An import of --schema, NAME=SUBJECT:VERSION; repeatable."),
    ] = None,
    given: Given = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Show what the newest schemas would do to each table; exit code 3 if something needs a decision."""
    from distributary.ingest.plan import plan_knowing
    from distributary.ingest.settings.model import load_with_places

    if schema is None and (subject or schema_type or references):
        raise ConfigError(
            "--subject, --type and --reference are about a schema in a file; give it by --schema"
        )
    settings, document = load_with_places(file, given=given or ())
    expression = routing_expression(document, settings, ", nor what changes do to it")
    read_conditions(document, settings)
    read_derived(document, settings)
    offer = None if schema is None else _offer(schema, subject, schema_type, references or [])
    found = plan_knowing(expression, settings, offer)
    for notice in found.notices:
        typer.echo(notice, err=True)
    view = views.View(found)
    typer.echo(json.dumps(view.as_dict(), indent=2) if as_json else view.text())
    if found.open and as_json:
        raise typer.Exit(CheckFailed.exit_code)
    if found.open:
        raise CheckFailed(view.verdict())


def _offer(file: Path, subject: str | None, given: str | None, references: list[str]) -> Offer:
    from distributary.ingest.evolution.offered import Offer

    return Offer(
        text_of(file),
        subject,
        type_known(file, given),
        tuple(map(reference, references)),
        # A file that is called something is taken for JSON where nothing else tells.
        "JSON" if file.suffix else None,
        str(file),
    )
