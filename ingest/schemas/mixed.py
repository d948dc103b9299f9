"""A registry and a location of inferred schemas as one, for topics that hold records of both kinds.

A version of the inferred schema goes by its number negated: registries' ids begin at 0, so none is ever two schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from distributary.codecs.base import INFERRED
from distributary.errors import BadSchema
from distributary.ingest.schemas.inferred import SchemaLocation
from distributary.ingest.schemas.inferred_per_entity import NO_FIELDS, EntityVersions
from distributary.registry.base import (
    Answer,
    Guid,
    Reference,
    Schema,
    SchemaRef,
    SchemaRegistry,
    SchemaType,
    SubjectVersion,
)


class MixedSchemas:
    """Asks the registry for what is registered, and the location for what is inferred.

    The first record that names no schema asks for `INFERRED`: that is the newest version, and where there is none yet
    `first` (the types that hints give, or no fields), which grows with what this record and its like bring. Topics that
    hold no such record are therefore never read for a schema.
    """

    def __init__(self, registry: SchemaRegistry, location: SchemaLocation, first: str = NO_FIELDS) -> None:
        self._registry, self._location, self._first = registry, location, first

    def by_ref(self, ref: SchemaRef, subject: str | None = None) -> Schema:
        """The schema of this reference. Raises SchemaNotFound or BadSchema."""
        answer = self.by_refs((ref,), subject)[ref]
        if isinstance(answer, Schema):
            return answer
        raise answer

    def by_refs(self, refs: Iterable[SchemaRef], subject: str | None = None) -> Mapping[SchemaRef, Answer]:
        """What each of these came to; the registry is asked only where one of them is its."""
        wanted = list(refs)
        theirs = [ref for ref in wanted if not _is_inferred(ref)]
        found = dict(self._registry.by_refs(theirs, subject)) if theirs else {}
        return {**found, **self._inferred([ref for ref in wanted if _is_inferred(ref)])}

    def versions(self, subject: str, deleted: bool = False) -> Sequence[SubjectVersion]:
        """All versions of a subject, oldest first. Raises SchemaNotFound."""
        if not self._location.holds(subject):
            return self._registry.versions(subject, deleted)
        found = self._location.versions(subject, deleted)
        return [replace(version, id=-version.version) for version in found]

    def register(
        self, subject: str, text: str, schema_type: SchemaType, references: Sequence[Reference] = ()
    ) -> int | Guid:
        """The id of this schema under this subject. Raises BadSchema."""
        if subject != self._location.subject:
            return self._registry.register(subject, text, schema_type, references)
        return -self._location.register(subject, text, schema_type, references)

    def newest(self, names: Iterable[str]) -> Mapping[str, Schema]:
        """The newest version of each of these entities' schemas that has one."""
        return _negated(self._entities().newest(names))

    def register_each(
        self, texts: Mapping[str, str], entities: Mapping[str, str] | None = None
    ) -> Mapping[str, Schema]:
        """The version of each of these entities' schemas. Raises BadSchema."""
        return _negated(self._entities().register_each(texts, entities))

    def hinted(self, text: str) -> str:
        """The schema with the types that hints give."""
        return self._entities().hinted(text)

    def _entities(self) -> EntityVersions:
        if isinstance(self._location, EntityVersions):
            return self._location
        raise BadSchema(
            f"{self._location.folder} holds one schema for all entities: decode.schema_per is topic"
        )

    def _inferred(self, refs: Sequence[SchemaRef]) -> Mapping[SchemaRef, Answer]:
        versions = {ref: -ref if isinstance(ref, int) else self._newest() for ref in refs}
        answers = self._location.by_refs(versions.values()) if versions else {}
        return {ref: _negated_one(answers[version]) for ref, version in versions.items()}

    def _newest(self) -> int:
        latest = self._location.latest()
        return latest.id if latest else self._location.register(self._location.subject, self._first)


def _negated(schemas: Mapping[str, Schema]) -> Mapping[str, Schema]:
    return {name: replace(schema, id=-schema.id) for name, schema in schemas.items()}


def _negated_one(answer: Answer) -> Answer:
    return replace(answer, id=-answer.id) if isinstance(answer, Schema) else answer


def _is_inferred(ref: SchemaRef) -> bool:
    return ref < 0 if isinstance(ref, int) else ref is INFERRED
