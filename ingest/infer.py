"""The schema of records that name none, found by looking at them, and kept: `distributary infer` as a function."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from distributary.codecs.base import load_codec
from distributary.codecs.changes_between import Changes, changes_between
from distributary.ingest.inference import entities, topic
from distributary.ingest.inference.bound import Looked, check_bound
from distributary.ingest.inputs.before_a_look import require_had_before
from distributary.ingest.inputs.opening import open_source
from distributary.ingest.schemas.hints import hinted, hints_of, with_hints
from distributary.ingest.schemas.inferred import SchemaLocation
from distributary.ingest.schemas.inferred_per_entity import EntitySchemas, location_of, schema_place
from distributary.ingest.session import pipeline_session
from distributary.ingest.settings.model import Settings
from distributary.ingest.source.contract import Channels, Records
from distributary.ingest.spark.jvm import jvm_needed
from distributary.ingest.storage.place import Place
from distributary.registry.base import Schema

Refresh: TypeAlias = bool | Literal["grow"]

MakeSession: TypeAlias = Callable[[Settings], AbstractContextManager[SparkSession]]


@dataclass(frozen=True, slots=True)
class Inferred:
    """One schema with what became of it; `schema.id` is its version, 0 where it is not kept.

    entity   None for a schema of all records
    schema   a STRUCT: Spark's type as JSON
    changes  what it says otherwise than the version before it
    is_new   whether there was no version before
    is_read  whether records were looked at; if not, the schema was kept before
    hints    in what the settings' hints say otherwise than a schema that was kept before
    """

    entity: str | None
    schema: Schema
    changes: Changes
    is_new: bool = True
    is_read: bool = True
    hints: Changes | None = None


@dataclass(frozen=True, slots=True)
class Inference:
    """What a look at a pipeline's records came to.

    folder      where versions are kept
    schemas     the one of all records, or one an entity
    per_entity  which of the two
    """

    folder: Place
    schemas: tuple[Inferred, ...]
    per_entity: bool


@jvm_needed()
def infer(
    settings: Settings,
    refresh: Refresh = False,
    sample: int | None = None,
    keep: bool = True,
    spark: SparkSession | None = None,
) -> Inference:
    """The schema of a pipeline's JSON records, or one an entity, found by looking at them, and kept as the next version.

    settings  the pipeline's; its `decode.format` is one whose records name no schema
    refresh   look at the records also where there is a version already, which gives way to what is found, or with "grow" grows by it
    sample    look at about so many of the newest records instead of all
    keep      whether what is found is written
    spark     the session to use; by default the process's own, or one for the moment

    Returns where the versions are, and what was found. Raises ConfigError where no schema is inferred in this format, and
    where records have more fields than `decode.max_fields`.

    >>> found = distributary.infer(settings, keep=False)
    >>> found.schemas[0].is_new, found.schemas[0].schema.type
    (True, 'STRUCT')
    """
    found = look(
        settings, refresh, sample, pipeline_session if spark is None else lambda _: nullcontext(spark)
    )
    return kept(settings, found) if keep else found


def look(
    settings: Settings, refresh: Refresh, sample: int | None, make_session: MakeSession = pipeline_session
) -> Inference:
    """What there is, or with `refresh` what a look at the records finds; nothing is written."""
    location = location_of(settings.name, settings.decode, settings.storage)
    folder = schema_place(settings.name, settings.decode)
    asked = _Look(settings, refresh, sample, make_session)
    if isinstance(location, EntitySchemas):
        return Inference(folder, asked.of_entities(location), per_entity=True)
    return Inference(folder, (asked.of_topic(location),), per_entity=False)


def kept(settings: Settings, found: Inference) -> Inference:
    """The same, each schema that is not kept yet being the next version of its own."""
    location = location_of(settings.name, settings.decode, settings.storage)
    location.check_store()
    made = _registered(location, [one for one in found.schemas if not one.schema.id])
    return replace(
        found,
        schemas=tuple(replace(one, schema=made.get(one.entity, one.schema)) for one in found.schemas),
    )


def _registered(location: SchemaLocation, new: Sequence[Inferred]) -> dict[str | None, Schema]:
    if isinstance(location, EntitySchemas):
        made = entities.keep(location, {one.entity or "": one.schema for one in new})
        return {one.entity: made[one.entity or ""] for one in new}
    return {one.entity: location.by_ref(location.register(location.subject, one.schema.text)) for one in new}


@dataclass(frozen=True, slots=True)
class _Look:
    """What was asked for."""

    settings: Settings
    refresh: Refresh
    sample: int | None
    make_session: MakeSession

    def of_topic(self, location: SchemaLocation) -> Inferred:
        """The schema of all records."""
        before = location.latest()
        if before is not None and not self.refresh:
            return self._there({None: before})[0]
        with self.make_session(self.settings) as spark, open_source(self.settings, spark) as channels:
            require_had_before(self.settings, channels)
            told = channels.columns()
            found = (
                topic.infer(self._topics(channels, spark), self.settings.decode, channels, self.sample)
                if told is None
                else Schema(0, "STRUCT", with_hints(told, self.settings.decode.schema_hints))
            )
            found = self._grown(before, found)
        return Inferred(None, found, self._changes(before, found), is_new=before is None)

    def of_entities(self, location: EntitySchemas) -> tuple[Inferred, ...]:
        """The schema of each entity's records. Entities that are not met any more keep what they have."""
        before = location.newest(location.names())
        if before and not self.refresh:
            return self._there({location.entity(name): schema for name, schema in before.items()})
        with self.make_session(self.settings) as spark, open_source(self.settings, spark) as channels:
            require_had_before(self.settings, channels)
            decode, route = self.settings.decode, self.settings.route
            found = entities.infer_entities(
                self._topics(channels, spark), decode, route, channels, self.sample
            )
            found = {
                entity: self._grown(before.get(schema.entity or ""), schema, entity)
                for entity, schema in found.items()
            }
        return tuple(
            Inferred(
                entity,
                schema,
                self._changes(was := before.get(schema.entity or ""), schema),
                is_new=was is None,
            )
            for entity, schema in found.items()
        )

    def _grown(self, before: Schema | None, found: Schema, entity: str | None = None) -> Schema:
        """What is found, or where the one before is to grow that one with it: itself, as it is kept, where it has all of that.

        In a session, which reads the hints. Raises ConfigError where that comes to more fields than decode.max_fields.
        """
        growing = load_codec(self.settings.decode.codec).capabilities.growing
        if self.refresh != "grow" or before is None or growing is None:
            return found
        text = with_hints(growing.merged([before, found]).text, self.settings.decode.schema_hints)
        if json.loads(text) == json.loads(before.text):
            return before
        grown = replace(found, text=text)
        check_bound([Looked(grown, False, entity)], self.settings.decode.max_fields)
        return grown

    def _topics(self, channels: Channels, spark: SparkSession) -> Records:
        return channels.records(spark, self.settings.name, self.settings.source, self.settings.route)

    def _there(self, kept: Mapping[str | None, Schema]) -> tuple[Inferred, ...]:
        """Versions that were kept before, by entity: no record is read, but they are held against what the hints say now."""
        changes = {entity: self._changes(None, schema) for entity, schema in kept.items()}
        readable = {entity: schema for entity, schema in kept.items() if changes[entity].told is not None}
        wished = self._hinted(readable)
        return tuple(
            Inferred(
                entity,
                schema,
                changes[entity],
                is_read=False,
                hints=self._changes(schema, wished[entity]) if entity in wished else None,
            )
            for entity, schema in kept.items()
        )

    def _changes(self, before: Schema | None, after: Schema) -> Changes:
        return changes_between(before, after, load_codec(self.settings.decode.codec))

    def _hinted(self, kept: Mapping[str | None, Schema]) -> dict[str | None, Schema]:
        """The same with the types that the settings' hints give; empty where there are no hints."""
        if self.settings.decode.schema_hints is None:
            return {}
        # Spark alone reads its DDL, and it does so in a session.
        with self.make_session(self.settings):
            hints = hints_of(self.settings.decode.schema_hints)
        types = {entity: StructType.fromJson(json.loads(schema.text)) for entity, schema in kept.items()}
        return {entity: replace(kept[entity], text=hinted(of, hints).json()) for entity, of in types.items()}
