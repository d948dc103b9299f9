"""How the schemas of a simulation get into the registry, also those that it would rather not take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from distributary.errors import BadSchema
from distributary.producer_sim.events.model import EventSchema
from distributary.producer_sim.formats.base import load_format
from distributary.producer_sim.traffic.simulation import Simulation
from distributary.producer_sim.traffic.stages import Stage
from distributary.registry.base import Reference, SchemaRegistry, SchemaType
from distributary.registry.confluent.compatibility_level import registry_at_none, subject_at_none
from distributary.registry.confluent.connection import Connection
from distributary.registry.confluent.registry import ConfluentRegistry

# What is set to NONE, and for how long.
Relaxation = tuple[str, Callable[[], AbstractContextManager[None]]]


class Registration:
    """Registers a simulation's schemas, with references if it asks for them."""

    def __init__(
        self,
        settings: Simulation,
        registry: SchemaRegistry,
        on_notice: Callable[[str], None] | None = None,
    ) -> None:
        """`on_notice` is told of each level that is set aside."""
        self._settings, self._registry = settings, registry
        self._notice = on_notice or (lambda _: None)

    def register(self, stage: Stage, record: str) -> int | None:
        """The id of what a type's records are written with; None in a format without registered schemas."""
        written, schema = load_format(stage.format), stage.schemas[record]
        if written.schema_type is None:
            return None
        subject = self._settings.subject_of(schema.record, stage.format)
        references = (
            self._parts(stage, schema, written.schema_type) if self._settings.writing.references else ()
        )
        text = written.schema_text(schema, imported=self._settings.writing.references)
        return self._registered(stage, subject, text, written.schema_type, references)

    def _parts(self, stage: Stage, schema: EventSchema, schema_type: SchemaType) -> list[Reference]:
        written, references = load_format(stage.format), []
        for part in schema.parts:
            subject = self._settings.subject_of_part(part, stage.format)
            held = self._registered(stage, subject, written.part_text(part, schema), schema_type)
            (version,) = (each.version for each in self._registry.versions(subject) if each.id == held)
            references.append(Reference(written.import_name(part), subject, version))
        return references

    def _registered(
        self,
        stage: Stage,
        subject: str,
        text: str,
        schema_type: SchemaType,
        references: Sequence[Reference] = (),
    ) -> int:
        def register() -> int:
            # It sends to registries with ids alone.
            return int(self._registry.register(subject, text, schema_type, references))

        try:
            return register()
        except BadSchema as refusal:
            # What only grows breaks no reader, so that it is refused for another reason.
            if stage.change is None or not isinstance(self._registry, ConfluentRegistry):
                raise
            what = f"version {stage.number} ({stage.change}) of {subject}"
            return self._relaxed(what, register, _relaxations(self._registry.connection, subject), refusal)

    def _relaxed(
        self, what: str, register: Callable[[], int], relaxations: Sequence[Relaxation], refusal: BadSchema
    ) -> int:
        """What is refused at NONE too is refused for something else, which is then the last refusal's to say."""
        for which, relaxed in relaxations:
            try:
                with relaxed():
                    found = register()
            except BadSchema as still:
                refusal = still
            else:
                self._notice(
                    f"the registry refuses {what}: it was registered with {which} set to NONE meanwhile"
                )
                return found
        raise refusal


def _relaxations(connection: Connection, subject: str) -> Sequence[Relaxation]:
    return (
        ("the subject's level", lambda: subject_at_none(connection, subject)),
        ("the level of the whole registry", lambda: registry_at_none(connection, subject)),
    )
