"""`distributary quarantine list` and `show`: what waits there."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from distributary.commands.arguments import File, Given
from distributary.commands.quarantine.choosing import (
    MOST_OFFSET,
    AsJson,
    Entity,
    Partition,
    Reason,
    SchemaId,
    Since,
    Topic,
    Until,
    chosen_by,
)
from distributary.views.answers import tell
from distributary.views.quarantine import listed, shown


def list_(
    file: File,
    reason: Reason = None,
    entity: Entity = None,
    schema_id: SchemaId = None,
    topic: Topic = None,
    since: Since = None,
    until: Until = None,
    given: Given = None,
    as_json: AsJson = False,
) -> None:
    """Count what is in quarantine by reason, schema and topic, what was brought back apart from what is open."""
    from distributary.ingest.quarantine.contents import contents
    from distributary.ingest.settings.model import load

    found = contents(
        load(file, given=given or ()), chosen_by(reason, entity, schema_id, topic, (since, until))
    )
    tell(found.as_dict(), listed(found), as_json=as_json)


def show(
    file: File,
    reason: Reason = None,
    entity: Entity = None,
    schema_id: SchemaId = None,
    topic: Topic = None,
    since: Since = None,
    until: Until = None,
    partition: Partition = None,
    offset: Annotated[int | None, typer.Option(min=0, max=MOST_OFFSET, help="The record's offset.")] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Show so many, the first ones.")] = 1,
    payload: Annotated[
        bool, typer.Option("--payload", help="Show key and value, too, in base64: they may be private.")
    ] = False,
    given: Given = None,
    as_json: AsJson = False,
) -> None:
    """Show a record in quarantine: where it is from, why it is there and what became of it; its bytes only if asked."""
    from distributary.ingest.quarantine.contents import records
    from distributary.ingest.settings.model import load

    chosen = chosen_by(reason, entity, schema_id, topic, (since, until))
    found = records(
        load(file, given=given or ()), replace(chosen, place=(partition, offset)), most, payload=payload
    )
    told = {"total": found.total, "records": [one.as_dict() for one in found.records]}
    tell(told, shown(found), as_json=as_json)
