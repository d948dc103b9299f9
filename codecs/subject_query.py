"""What a query asks of a subject becomes its plan: the one place where the functions for notebooks ask a registry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from distributary.codecs.subject_plan import (
    Evolution,
    SubjectPlan,
    codec_of,
    columns_of,
    columns_read,
    full_name,
    read_as,
)
from distributary.registry.base import SchemaRegistry
from distributary.registry.confluent import ConfluentRegistry
from distributary.registry.options import RegistryOptions
from distributary.registry.subject_lookup import RegistryLookup, subject_schemas


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which schemas of a subject a query takes, and as what.

    codec      None for the one of the schemas' type
    message    the Protobuf message; None for the schema's first
    version    whose columns the rows have: the latest version's, or those of all versions together
    evolution  what a record does that was written with a version that came later
    reader     the schema that all records are read as, in place of the latest version
    recursion  how many times a record is columns within itself; 0 for JSON text
    """

    codec: str | None
    message: str | None = None
    version: Literal["latest", "all"] = "latest"
    evolution: Evolution = "restart"
    reader: str | None = None
    recursion: int = 0


def subject_plan(
    registry: str | RegistryOptions | SchemaRegistry, subject: str, wanted: Wanted
) -> SubjectPlan:
    """The plan of a query, by all that the registry has of the subject now.

    Raises ConfigError, SchemaNotFound, BadSchema or RegistryUnavailable.
    """
    if isinstance(registry, str):
        registry = RegistryOptions(url=registry)
    if isinstance(registry, RegistryOptions):
        options: RegistryOptions | None = registry
        with ConfluentRegistry(registry) as opened:
            schemas = subject_schemas(opened, subject)
    else:
        options = registry.options if isinstance(registry, ConfluentRegistry) else None
        schemas = subject_schemas(registry, subject)
    codec = wanted.codec or codec_of(schemas)
    record = full_name(codec, schemas[-1], wanted.message)
    as_one = wanted.version == "latest" or wanted.reader is not None
    reader = read_as(codec, schemas[-1], wanted.reader) if as_one else None
    columns = (
        columns_of(codec, schemas, record, wanted.version)
        if reader is None
        else columns_read(codec, reader, wanted.recursion)
    )
    return SubjectPlan(
        codec=codec,
        subject=subject,
        pinned=tuple(schemas),
        columns=columns,
        message=record,
        evolution=wanted.evolution,
        reader=reader,
        recursion=wanted.recursion,
        # Only this kind of registry can be asked from other processes.
        lookup=None if options is None else RegistryLookup(options, subject),
    )
