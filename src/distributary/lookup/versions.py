"""A registry's schemas as a user names them: by subject and version, by id, by GUID."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from distributary.errors import ConfigError, SchemaError
from distributary.lookup.registry import chosen_registry

if TYPE_CHECKING:
    from distributary.registry.base import Reference, Schema, SchemaType, SubjectVersion
    from distributary.registry.confluent.catalogue import Catalogue
    from distributary.registry.confluent.registry import ConfluentRegistry

_TYPES: dict[str, SchemaType] = {"AVRO": "AVRO", "PROTOBUF": "PROTOBUF", "JSON": "JSON"}

_TYPE_OF_SUFFIX: dict[str, SchemaType] = {".avsc": "AVRO", ".proto": "PROTOBUF"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A registry that can be asked, and its catalogue."""

    registry: ConfluentRegistry
    catalogue: Catalogue


@contextmanager
def asking(address: str, settings: Path | None) -> Iterator[Asked]:
    """The registry that is meant, for as long as the block lasts."""
    from distributary.registry.confluent.catalogue import Catalogue
    from distributary.registry.confluent.registry import ConfluentRegistry

    with ConfluentRegistry(chosen_registry(address, settings)) as registry:
        yield Asked(registry, Catalogue(registry.connection))


def schemas_of(asked: Asked, versions: Sequence[SubjectVersion]) -> list[Schema | SchemaError]:
    """The schema of each version, or why there is none."""
    if not versions:
        return []
    answers = asked.registry.by_refs([one.id for one in versions], _context(versions[0].subject))
    return [answers[one.id] for one in versions]


def schema_of(asked: Asked, version: SubjectVersion) -> Schema:
    """The schema of a version. Raises SchemaNotFound or BadSchema."""
    return asked.registry.by_ref(version.id, _context(version.subject))


def reference(text: str) -> Reference:
    """A reference as it is typed, `NAME=SUBJECT:VERSION`."""
    from distributary.registry.base import Reference

    name, equals, rest = text.partition("=")
    subject, _, version = rest.rpartition(":")
    if not (name and equals and subject and version.isascii() and version.isdigit()):
        raise ConfigError(
            f"--reference takes NAME=SUBJECT:VERSION, such as common.proto=common:1, not {text!r}"
        )
    return Reference(name, subject, int(version))


def candidate(asked: Asked, text: str, kind: SchemaType, references: Sequence[Reference]) -> Schema:
    """The schema that a text would be, with its imports from the registry. Raises SchemaNotFound or BadSchema."""
    from distributary.registry.base import Schema
    from distributary.registry.versions import find

    imports: dict[str, str] = {}
    for one in references:
        known = asked.registry.versions(one.subject, deleted=True)
        held = schema_of(asked, find(known, one.subject, str(one.version)))
        imports |= {**held.imports, one.name: held.text}
    return Schema(0, kind, text, tuple(references), imports)


def type_of(file: Path, given: str | None, latest: SchemaType) -> SchemaType:
    """The type of a schema in a file: the one given, else by its suffix, else that of the subject's latest version."""
    return type_known(file, given) or latest


def type_known(file: Path, given: str | None) -> SchemaType | None:
    """The type that is given, or that the file's suffix tells; None where neither does."""
    if given is None:
        return _TYPE_OF_SUFFIX.get(file.suffix.lower())
    if given.upper() not in _TYPES:
        raise ConfigError(f"--type is one of {', '.join(_TYPES)}, not {given!r}")
    return _TYPES[given.upper()]


def _context(subject: str) -> str | None:
    """Asked for with its subject only where that says something: the fewest registries have contexts."""
    return subject if subject.startswith(":.") else None
