"""`distributary infer`: the schema of records that name none, found by looking at them, and kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from distributary.commands.run import File, session
from distributary.views import infer as views
from distributary.views.schema_columns import changes_between

if TYPE_CHECKING:
    from distributary.ingest.schemas.entity_location import EntitySchemas
    from distributary.ingest.schemas.location import SchemaLocation
    from distributary.ingest.settings.model import Settings
    from distributary.registry.base import Schema


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
    from distributary.ingest.schemas.entity_location import EntitySchemas, location_of
    from distributary.ingest.settings.model import load

    settings = load(file)
    location = location_of(settings.name, settings.decode)
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
    from distributary.ingest.inference.topic import infer as infer_schema
    from distributary.ingest.kafka.connect import connect
    from distributary.ingest.schemas.entity_location import growing_codec

    codec = growing_codec(look.settings.decode)
    before = location.latest()
    if before is not None and not look.refresh:
        return _there(look, {None: before})[0]
    with session(look.settings) as spark, connect(look.settings.source, spark) as kafka:
        found = infer_schema(spark, look.settings, kafka, look.sample)
    return views.Inferred(None, found, changes_between(before, found, codec), is_new=before is None)


def _of_entities(look: Look, location: EntitySchemas) -> list[views.Inferred]:
    """Entities that are not met any more keep what they have."""
    from distributary.ingest.inference.entities import infer_entities
    from distributary.ingest.kafka.connect import connect
    from distributary.ingest.schemas.entity_location import growing_codec

    codec = growing_codec(look.settings.decode)
    before = location.newest(location.names())
    if before and not look.refresh:
        return _there(look, {location.entity(name): schema for name, schema in before.items()})
    with session(look.settings) as spark, connect(look.settings.source, spark) as kafka:
        found = infer_entities(spark, look.settings, kafka, look.sample)
    return [
        views.Inferred(
            entity,
            schema,
            changes_between(was := before.get(schema.entity or ""), schema, codec),
            is_new=was is None,
        )
        for entity, schema in found.items()
    ]


def _there(look: Look, kept: Mapping[str | None, Schema]) -> list[views.Inferred]:
    """Versions that were kept before, by entity: no record is read, but what the hints say now is held against them."""
    from distributary.ingest.schemas.entity_location import growing_codec

    codec = growing_codec(look.settings.decode)
    changes = {entity: changes_between(None, schema, codec) for entity, schema in kept.items()}
    readable = {entity: schema for entity, schema in kept.items() if changes[entity].told is not None}
    hinted = _hinted(look.settings, readable)
    return [
        views.Inferred(
            entity,
            schema,
            changes[entity],
            is_read=False,
            hints=changes_between(schema, hinted[entity], codec) if entity in hinted else None,
        )
        for entity, schema in kept.items()
    ]


def _hinted(settings: Settings, kept: Mapping[str | None, Schema]) -> dict[str | None, Schema]:
    """The same with the types that the settings' hints give; empty where there are no hints."""
    from pyspark.sql.types import StructType

    from distributary.ingest.schemas.hints import hinted, hints_of

    if settings.decode.schema_hints is None:
        return {}
    # Spark alone reads its DDL, and it does so in a session.
    with session(settings):
        hints = hints_of(settings.decode.schema_hints)
    types = {entity: StructType.fromJson(json.loads(schema.text)) for entity, schema in kept.items()}
    return {entity: replace(kept[entity], text=hinted(of, hints).json()) for entity, of in types.items()}


def _kept(location: SchemaLocation, found: Sequence[views.Inferred]) -> list[views.Inferred]:
    """The same, each schema that is not kept yet being the next version of its own."""
    from distributary.ingest.inference.entities import keep
    from distributary.ingest.schemas.entity_location import EntitySchemas

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
