"""What a query asks of a subject, and how its records are then decoded: the one place where the functions for notebooks ask a registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from distributary.codecs.json.options import RESCUING, rescued_column
from distributary.codecs.notebook.subject import (
    Evolution,
    News,
    Reading,
    SubjectDecoding,
    codec_name,
    codec_of,
    columns_of,
    columns_read,
    full_name,
    read_as,
    rescuing,
)
from distributary.registry.base import SchemaRegistry
from distributary.registry.confluent.lookup import RegistryLookup, subject_schemas
from distributary.registry.confluent.options import RegistryAccess, RegistryOptions
from distributary.registry.confluent.registry import ConfluentRegistry


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which schemas of a subject a query takes, and as what.

    codec      None for the one of the schemas' type
    message    the Protobuf message; None for the schema's first
    version    whose columns the rows have: the latest version's, or those of all versions together
    evolution  what a record does that was written with a version that came later
    reader     the schema that all records are read as, in place of the latest version
    recursion  how many times a record is columns within itself; 0 for JSON text
    options    those of Spark's function whose columns and values are wanted; None for this project's own. For JSON one may be
               rescuedDataColumn, which takes what no other column does
    """

    codec: str | None
    message: str | None = None
    version: Literal["latest", "all"] = "latest"
    evolution: Evolution = "restart"
    reader: str | None = None
    recursion: int = 0
    options: Mapping[str, str] | None = None


def subject_decoding(
    registry: str | RegistryOptions | SchemaRegistry, subject: str, wanted: Wanted
) -> SubjectDecoding:
    """How a query decodes, by all that the registry has of the subject now.

    Raises ConfigError, SchemaNotFound, BadSchema or RegistryUnavailable.
    """
    if wanted.codec is not None:
        # What is wrong with the call is said before anybody is asked.
        codec_of(wanted.codec, _parted(wanted.codec, wanted.options)[1], ())
    if isinstance(registry, str):
        registry = RegistryOptions(url=registry)
    if isinstance(registry, RegistryOptions):
        options: RegistryAccess | None = registry
        with ConfluentRegistry(registry) as opened:
            schemas = subject_schemas(opened, subject)
    else:
        options = registry.options if isinstance(registry, ConfluentRegistry) else None
        schemas = subject_schemas(registry, subject)
    name = wanted.codec or codec_name(schemas)
    rescued, values = _parted(name, wanted.options)
    codec = codec_of(name, values, schemas)
    record = full_name(codec, schemas[-1], wanted.message)
    as_one = wanted.version == "latest" or wanted.reader is not None
    reader = read_as(codec, schemas[-1], wanted.reader) if as_one else None
    columns = (
        columns_of(codec, schemas, record, wanted.version)
        if reader is None
        else columns_read(codec, reader, wanted.recursion)
    )
    decoding = SubjectDecoding(
        codec=name,
        subject=subject,
        options=values,
        pinned=tuple(schemas),
        columns=columns,
        reading=Reading(
            message=record,
            schema=reader,
            recursion=wanted.recursion,
            by_latest=rescued is not None and wanted.version == "latest",
        ),
        # Only this kind of registry can be asked from other processes.
        news=News(
            evolution=wanted.evolution,
            lookup=None if options is None else RegistryLookup(options, subject),
        ),
    )
    return decoding if rescued is None else rescuing(decoding, rescued)


def _parted(codec: str, options: Mapping[str, str] | None) -> tuple[str | None, Mapping[str, str] | None]:
    """The column that takes what no other does, where the format can fill one, and the other options."""
    if options is None or codec not in RESCUING:
        return None, options
    return rescued_column(options)
