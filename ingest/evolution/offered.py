"""A schema that is not registered yet, as the registry would hold it if it were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distributary.codecs.syntax import check_syntax
from distributary.errors import BadSchema, ConfigError, SchemaNotFound
from distributary.ingest.evolution.candidates import OFFERED, Candidate
from distributary.registry.base import Reference, Schema, SchemaRegistry, SchemaType
from distributary.registry.references import resolve
from distributary.registry.versions import find


@dataclass(frozen=True, slots=True)
class Offer:
    """A schema to plan with that is not registered yet: it is taken for the newest one of its subject.

    text        the schema
    subject     the one it is for; None where the pipeline watches one only
    type        AVRO, PROTOBUF or JSON; None for that of the subject's newest version
    references  its imports
    otherwise   the type where none is given and the subject has no version yet
    name        what messages call it, such as its file
    """

    text: str
    subject: str | None = None
    type: SchemaType | None = None
    references: Sequence[Reference] = ()
    otherwise: SchemaType | None = None
    name: str = "the schema offered"


def offered(offer: Offer, watched: Sequence[str], registry: SchemaRegistry) -> Candidate:
    """The schema as the next version of its subject. Raises ConfigError, SchemaNotFound and BadSchema."""
    subject = _watched(offer, watched)
    latest = _latest(subject, registry)
    kind = offer.type or (latest.type if latest else offer.otherwise)
    if kind is None:
        raise ConfigError(
            f"subject {subject!r} has no version yet that would tell the type of {offer.name}; give --type"
        )

    def fetch(one: Reference) -> tuple[str, Sequence[Reference]]:
        versions = registry.versions(one.subject, deleted=True)
        held = registry.by_ref(find(versions, one.subject, str(one.version)).id)
        return held.text, held.references

    imports = tuple(offer.references)
    schema = Schema(0, kind, offer.text, imports, resolve(imports, fetch))
    try:
        check_syntax(schema)
    except BadSchema as error:
        raise ConfigError(f"{offer.name}: {error}") from None
    return Candidate(subject, None, OFFERED, schema)


def _watched(offer: Offer, subjects: Sequence[str]) -> str:
    """The subject that the schema is for."""
    if not subjects:
        raise ConfigError("this pipeline's records name no schema, so that none can be registered for them")
    if offer.subject is None and len(subjects) > 1:
        raise ConfigError(f"give one of the subjects watched by --subject: {', '.join(subjects)}")
    chosen = offer.subject or subjects[0]
    if chosen not in subjects:
        raise ConfigError(
            f"the pipeline does not watch the subject {chosen!r}; it watches {', '.join(subjects)}"
        )
    return chosen


def _latest(subject: str, registry: SchemaRegistry) -> Schema | None:
    try:
        versions = registry.versions(subject)
    except SchemaNotFound:
        return None
    return registry.by_ref(versions[-1].id)
