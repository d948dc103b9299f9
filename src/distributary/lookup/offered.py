"""A schema in a file, as the registry would hold it if it were registered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from distributary.errors import ConfigError, SchemaNotFound
from distributary.lookup.syntax import check_syntax
from distributary.lookup.versions import find, reference, type_of

if TYPE_CHECKING:
    from distributary.ingest.evolution.candidates import Candidate
    from distributary.registry.base import Reference, Schema, SchemaRegistry
    from distributary.registry.confluent.catalogue import Catalogue


@dataclass(frozen=True, slots=True)
class Answered:
    """Where schemas come from; `catalogue` is the registry's, None where no registry is asked."""

    registry: SchemaRegistry
    catalogue: Catalogue | None


@dataclass(frozen=True, slots=True)
class Offer:
    """A schema as it is offered on the command line."""

    file: Path
    subject: str | None
    type: str | None
    references: Sequence[str]


def offered(offer: Offer, watched: Sequence[str], answered: Answered) -> Candidate:
    """The schema as the next version of its subject. Raises ConfigError, SchemaNotFound and BadSchema."""
    from distributary.ingest.evolution.candidates import OFFERED, Candidate
    from distributary.registry.base import Schema
    from distributary.registry.references import resolve

    subject = _watched(offer, watched)
    imports = tuple(reference(one) for one in offer.references)

    def fetch(one: Reference) -> tuple[str, Sequence[Reference]]:
        versions = answered.registry.versions(one.subject, deleted=True)
        held = answered.registry.by_ref(find(versions, one.subject, str(one.version)).id)
        return held.text, held.references

    latest = _latest(subject, answered)
    if latest is None and offer.type is None and not offer.file.suffix:
        raise ConfigError(
            f"subject {subject!r} has no version yet that would tell the type of {offer.file}; give --type"
        )
    kind = type_of(offer.file, offer.type, latest.type if latest else "JSON")
    schema = Schema(0, kind, text_of(offer.file), imports, resolve(imports, fetch))
    check_syntax(offer.file, schema)
    return Candidate(subject, None, OFFERED, schema)


def text_of(file: Path) -> str:
    """A schema's text. Raises ConfigError where the file cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is no text in UTF-8, as a schema has to be") from None


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


def _latest(subject: str, answered: Answered) -> Schema | None:
    try:
        versions = answered.registry.versions(subject)
    except SchemaNotFound:
        return None
    return answered.registry.by_ref(versions[-1].id)
