"""`distributary graph`: what flows between what in a pipeline, as a picture or as data."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from distributary.commands.arguments import File, Given
from distributary.errors import ConfigError
from distributary.files import replace


class Format(str, Enum):
    """What the graph is written as."""

    MERMAID = "mermaid"
    SVG = "svg"
    JSON = "json"
    OPENLINEAGE = "openlineage"


def graph(
    file: File,
    as_: Annotated[
        Format,
        typer.Option(
            "--format",
            help="A flowchart for Markdown, a picture, nodes and edges as data, or an event of OpenLineage's for a data catalogue.",
        ),
    ] = Format.MERMAID,
    most: Annotated[
        int, typer.Option("--tables", min=1, help="Show at most so many tables; JSON has all of them.")
    ] = 25,
    output: Annotated[Path | None, typer.Option(help="Write it to this file instead of printing it.")] = None,
    namespace: Annotated[
        str, typer.Option(help="The namespace of the job in OpenLineage's event.")
    ] = "distributary",
    given: Given = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Show where a pipeline's records come from and where they end, with how many did; neither Kafka nor a registry is asked."""
    from distributary.ingest.lineage.seen import flow
    from distributary.ingest.settings.model import load
    from distributary.views.graph.mermaid import mermaid
    from distributary.views.graph.openlineage import event
    from distributary.views.graph.shown import with_most
    from distributary.views.graph.svg import svg

    found = flow(load(file, given=given or ()))
    if as_json or as_ is Format.JSON:
        text = json.dumps(asdict(found), indent=2)
    elif as_ is Format.OPENLINEAGE:
        text = json.dumps(event(found, namespace, datetime.now(timezone.utc)))
    else:
        text = (svg if as_ is Format.SVG else mermaid)(with_most(found, most))
    if output is None:
        typer.echo(text)
        return
    try:
        replace(output, f"{text}\n".encode())
    except (OSError, ValueError) as error:
        # A path that ends in no name, such as an empty one, is a ValueError.
        why = error.strerror if isinstance(error, OSError) else "it has no name"
        raise ConfigError(f"--output {output} cannot be written ({why}); name another file") from None
