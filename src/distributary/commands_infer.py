"""`distributary infer`: the schema of records that name none, found by looking at them, and kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from distributary import infer_views as views
from distributary.commands_run import File, session
from distributary.schema_columns import changes_between

if TYPE_CHECKING:
    from distributary.ingest.entity_schemas import EntitySchemas
    from distributary.ingest.schema_location import SchemaLocation
    from distributary.ingest.settings import Settings


def infer(
    file: File,
    refresh: Annotated[
        bool,
        typer.Option(
            "--refresh", help="Infer again where there is a schema; what changed is shown, then kept."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Look at about this many of the newest records instead of all.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Infer the schema of a pipeline's JSON records from its topics, or one an entity, and keep it as the next version."""
    from distributary.ingest.entity_schemas import EntitySchemas
    from distributary.ingest.infer import location_of
    from distributary.ingest.settings import load

    settings = load(file)
    location = location_of(settings)
    look = Look(settings, refresh, sample)
    per_entity = isinstance(location, EntitySchemas)
    found = (
        _of_entities(look, location) if isinstance(location, EntitySchemas) else [_of_topic(look, location)]
    )
    # Before anything is written: who reads it knows what the next run decodes otherwise, whatever becomes of writing.
    if not as_json and (differences := views.differences(found)):
        typer.echo(differences)
    if not dry_run:
        found = _kept(location, found)
    folder = str(location.folder)
    typer.echo(views.as_json(folder, found, per_entity) if as_json else views.as_text(folder, found))


@dataclass(frozen=True, slots=True)
class Look:
    """What was asked for."""

    settings: Settings
    refresh: bool
    sample: int | None


def _of_topic(look: Look, location: SchemaLocation) -> views.Inferred:
    from distributary.ingest.infer import growing_codec
    from distributary.ingest.infer import infer as infer_schema

    codec = growing_codec(look.settings)
    before = location.latest()
    if before is not None and not look.refresh:
        return views.Inferred(None, before, changes_between(None, before, codec))
    with session(look.settings) as spark:
        found = infer_schema(spark, look.settings, look.sample)
    return views.Inferred(None, found, changes_between(before, found, codec), is_new=before is None)


def _of_entities(look: Look, location: EntitySchemas) -> list[views.Inferred]:
    """Entities that are not met any more keep what they have."""
    from distributary.ingest.infer import growing_codec
    from distributary.ingest.infer_entities import infer_entities

    codec = growing_codec(look.settings)
    before = location.newest(location.names())
    if before and not look.refresh:
        return [
            views.Inferred(location.entity(name), schema, changes_between(None, schema, codec))
            for name, schema in before.items()
        ]
    with session(look.settings) as spark:
        found = infer_entities(spark, look.settings, look.sample)
    return [
        views.Inferred(
            entity,
            schema,
            changes_between(was := before.get(schema.entity or ""), schema, codec),
            is_new=was is None,
        )
        for entity, schema in found.items()
    ]


def _kept(location: SchemaLocation, found: Sequence[views.Inferred]) -> list[views.Inferred]:
    """The same, each schema that is not kept yet being the next version of its own."""
    from distributary.ingest.entity_schemas import EntitySchemas
    from distributary.ingest.infer_entities import keep

    if isinstance(location, EntitySchemas):
        new = {one.entity or "": one.schema for one in found if not one.schema.id}
        made = keep(location, new)
        return [replace(one, schema=made.get(one.entity or "", one.schema)) for one in found]
    return [
        one
        if one.schema.id
        else replace(one, schema=location.by_ref(location.register(location.subject, one.schema.text)))
        for one in found
    ]
