"""A subject's schemas, for one query: all that there are when it is made, and those that come after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from distributary.errors import BadSchema, RegistryFault, SchemaNotFound
from distributary.registry.base import Answer, Schema, SchemaRef, SchemaRegistry
from distributary.registry.confluent.options import RegistryAccess
from distributary.registry.confluent.registry import ConfluentRegistry
from distributary.registry.same_schema import same_schema


def subject_schemas(registry: SchemaRegistry, subject: str) -> list[Schema]:
    """The schema of every version that can be read, oldest first.

    Raises SchemaNotFound for an unknown subject, BadSchema or SchemaNotFound where the latest cannot be read.
    """
    ids = list(dict.fromkeys(version.id for version in registry.versions(subject)))
    answers = registry.by_refs(ids, subject)
    latest = answers[ids[-1]]
    if not isinstance(latest, Schema):
        raise latest
    for answer in answers.values():
        if isinstance(answer, RegistryFault):
            raise answer
    return [answer for schema_id in ids if isinstance(answer := answers[schema_id], Schema)]


@dataclass(frozen=True, slots=True)
class RegistryLookup:
    """Asks the registry with these options, once a process for each schema."""

    options: RegistryAccess
    subject: str

    def schemas(self, refs: Iterable[SchemaRef]) -> Mapping[SchemaRef, Answer]:
        """What each of these came to, all within one wait. Raises RegistryUnavailable."""
        return _registry(self.options).by_refs(refs, self.subject)

    def is_version(self, schema: Schema) -> bool:
        """Whether this is now a version of the subject. Raises RegistryUnavailable."""
        registry = _registry(self.options)
        try:
            if schema.id:
                return any(version.id == schema.id for version in registry.versions(self.subject))
            # It was asked for by its GUID, and not every registry says which id that is.
            return any(same_schema(schema, version) for version in subject_schemas(registry, self.subject))
        except (BadSchema, SchemaNotFound):
            return False


@lru_cache(maxsize=8)
def _registry(options: RegistryAccess) -> ConfluentRegistry:
    # A list of versions from before the schema came would call it a stranger.
    return ConfluentRegistry(options.model_copy(update={"latest_cache_seconds": 0}))
