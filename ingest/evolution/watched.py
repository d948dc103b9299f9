"""The subjects that a pipeline watches, and what their registry says of their newest schemas."""

from __future__ import annotations

from dataclasses import dataclass

from distributary.errors import BadSchema, NotOffered, RegistryUnavailable, SchemaNotFound
from distributary.ingest.evolution.candidates import Candidate, Candidates
from distributary.registry.confluent.catalogue import Catalogue, Compatibility


@dataclass(frozen=True, slots=True)
class WatchedSubject:
    """A watched subject, and what its registry says of its newest schema.

    subject   its name
    version   None where it has none yet, or where its newest schema is the one offered
    id        the schema's; None likewise
    type      AVRO, PROTOBUF or JSON, STRUCT for an inferred one; None where there is no schema yet
    level     the compatibility level that the registry holds it to; None where nobody says
    accepted  whether the registry takes the schema offered; None where it cannot tell, and for a registered version:
              held against itself it would fit, and what the registry once let it in by, nobody knows
    messages  why the registry does not take it, in the registry's words
    offered   whether the schema is the one offered
    """

    subject: str
    version: int | None = None
    id: int | None = None
    type: str | None = None
    level: str | None = None
    accepted: bool | None = None
    messages: tuple[str, ...] = ()
    offered: bool = False


def watched_subjects(candidates: Candidates, catalogue: Catalogue | None) -> tuple[WatchedSubject, ...]:
    """What is told of each subject; the registry is asked for levels, and whether it takes what is offered."""
    newest = (_told(one, catalogue) for one in candidates.newest)
    return (*newest, *map(WatchedSubject, candidates.empty))


def _told(candidate: Candidate, catalogue: Catalogue | None) -> WatchedSubject:
    level = _level(candidate.subject, catalogue)
    is_offered = candidate.version is None
    verdict = _check(candidate, catalogue) if is_offered else None
    return WatchedSubject(
        candidate.subject,
        candidate.version,
        candidate.schema_id,
        candidate.schema.type,
        level,
        verdict.compatible if verdict else None,
        verdict.messages if verdict else (),
        is_offered,
    )


def _level(subject: str, catalogue: Catalogue | None) -> str | None:
    try:
        return catalogue.level(subject) if catalogue else None
    except NotOffered:
        return None


def _check(candidate: Candidate, catalogue: Catalogue | None) -> Compatibility | None:
    schema = candidate.schema
    if catalogue is None:
        return None
    try:
        return catalogue.check(candidate.subject, schema.text, schema.type, schema.references)
    except (NotOffered, SchemaNotFound):  # a subject without versions takes any schema
        return None
    except RegistryUnavailable:
        raise
    except BadSchema as error:
        return Compatibility(False, (str(error),), "")
