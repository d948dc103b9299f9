"""What one query decodes a column with: a subject's schemas, learned on the driver when the query is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import pyarrow as pa

from distributary.codecs.base import (
    CODECS,
    Codec,
    RecordReader,
    load_codec,
    resolving,
)
from distributary.codecs.json.options import RESCUE
from distributary.codecs.notebook.record_names import RecordType, record_type
from distributary.codecs.types.row_shape import union
from distributary.errors import BadSchema, ConfigError, UnknownFieldException
from distributary.registry.base import Answer, Schema, SchemaRef

Evolution = Literal["restart", "none"]


class Lookup(Protocol):
    """How a worker learns of a schema that its query was not made with. Travels to the workers."""

    def schemas(self, refs: Iterable[SchemaRef]) -> Mapping[SchemaRef, Answer]:
        """What each of these came to, all within one wait. Raises RegistryUnavailable."""
        ...

    def is_version(self, schema: Schema) -> bool:
        """Whether this is now a version of the query's subject. Raises RegistryUnavailable."""
        ...


class Growing(Protocol):
    """What is done about fields that an inferred schema lacks. Travels to the workers."""

    def grow(self, payloads: pa.BinaryArray) -> UnknownFieldException | None:
        """The error that ends the query, for records with such fields; None where no schema can take them, being too many."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """As what each record is read.

    message    the record type to decode; the first of each schema where it is None
    schema     the schema that every record is read as by the rules of its format; with None columns are filled by name
    recursion  how many times a record is columns within itself where that schema lets it; with 0 it is JSON text
    by_latest  whether all records are read with the latest version's schema, whichever they name, which suits a format that
               has its fields' names in each record: then whatever that schema lacks is rescued, and nothing left out
    """

    message: str | None = None
    schema: Schema | None = None
    recursion: int = 0
    by_latest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What is done about schemas and fields that a query was not made with.

    evolution  what a record does that was written with a newer version: `restart` ends the query, `none` takes
               of it what the query's columns have
    lookup     None where workers cannot ask anybody: then every schema that is not pinned is taken for a newer one
    growing    what a field does that an inferred schema lacks: None where it is left out, or rescued
    """

    evolution: Evolution = "restart"
    lookup: Lookup | None = None
    growing: Growing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectDecoding:
    """How a query decodes one column.

    options  those of Spark's function whose columns and values are wanted; None for this project's own
    pinned   the schemas of the subject's versions, oldest first
    columns  what every row has, whatever its own schema
    rescued  the column, one more, that takes what no other does, as JSON text; with None a value that does not fit its
             column spoils its record, and a field that the schema lacks is left out
    """

    codec: str
    subject: str
    pinned: tuple[Schema, ...]
    columns: pa.Schema
    options: Mapping[str, str] | None = None
    rescued: str | None = None
    reading: Reading = field(default_factory=Reading)
    news: News = field(default_factory=News)

    def loaded(self) -> Codec:
        """The codec, as the options have it. Raises ConfigError."""
        return codec_of(self.codec, self.options, self.pinned)

    def is_bare(self) -> bool:
        """Whether what is read is no record but one value, which is the only column here. Raises BadSchema."""
        schema = self.reading.schema
        if schema is None:
            return False
        return not resolving(self.loaded())(schema, schema, self.reading.recursion).is_record

    def known(self, codec: Codec) -> dict[int, RecordType]:
        """The record type to decode in each pinned schema that has it."""
        return {schema.id: kind for schema, kind in record_types(codec, self.pinned, self.reading.message)}

    def reader_of(self, codec: Codec, kind: RecordType) -> RecordReader:
        """What decodes records of this type. Raises BadSchema."""
        if self.reading.by_latest:
            return codec.reader(self.pinned[-1], codec.default_path)
        if self.reading.schema is None:
            return kind.reader(codec)
        return resolving(codec)(kind.schema, self.reading.schema, self.reading.recursion)


def rescuing(decoding: SubjectDecoding, name: str) -> SubjectDecoding:
    """The same with one column more, for what no other takes. Raises ConfigError where there is one of that name."""
    if name.lower() in (other.lower() for other in decoding.columns.names):
        raise ConfigError(f"{RESCUE} is {name!r}, which the schema has a field of already; give another name")
    return replace(decoding, rescued=name, columns=decoding.columns.append(pa.field(name, pa.string())))


def codec_of(name: str, options: Mapping[str, str] | None, schemas: Sequence[Schema]) -> Codec:
    """The codec called `name`, knowing the types of these schemas, with the options of Spark's function where there are any.

    Raises ConfigError for an option that the function does not have, and where the codec stands in for none.
    """
    codec = load_codec(name).knowing({schema.id: schema.type for schema in schemas})
    if options is None:
        return codec
    if codec.capabilities.as_spark is None:
        raise ConfigError(
            f"options are those of the function of Spark for one format; for {name} there is none"
        )
    return codec.capabilities.as_spark(options)


def record_types(
    codec: Codec, schemas: Sequence[Schema], message: str | None
) -> list[tuple[Schema, RecordType]]:
    """The wanted type in each schema; left out are schemas that cannot be used, but never the last one."""
    found = []
    for schema in schemas:
        try:
            kind = type_in(codec, schema, message)
            kind.reader(codec)
        except (BadSchema, ConfigError):
            # An older version may be broken, or lack a message that came later: its records tell.
            if schema is schemas[-1]:
                raise
        else:
            found.append((schema, kind))
    return found


def type_in(codec: Codec, schema: Schema, message: str | None) -> RecordType:
    """The wanted type in a schema: the message of that name in one that can have several. Raises BadSchema and ConfigError."""
    own = codec.codec_for(schema)
    return record_type(own, schema, message if own.default_path else None)


def read_as(codec: Codec, latest: Schema, text: str | None) -> Schema | None:
    """The schema to read every record as: the one given, or the latest; None where the format has no rules for it.

    Raises ConfigError where one is given and the format has none.
    """
    if codec.codec_for(latest).capabilities.resolving is not None:
        return latest if text is None else replace(latest, text=text)
    if text is None:
        return None
    raise ConfigError(
        f"schemas of type {latest.type} have no rules for reading records as another schema has them"
    )


def columns_read(codec: Codec, reader: Schema, recursion: int) -> pa.Schema:
    """The columns of all records that are read as this schema has them. Raises BadSchema."""
    return resolving(codec)(reader, reader, recursion).schema


def full_name(codec: Codec, latest: Schema, message: str | None) -> str | None:
    """The record type's full name, so that it is the same one in all versions; None where schemas have but one type.

    Without a name it is the first type of the latest version. Raises BadSchema and ConfigError.
    """
    codec = codec.codec_for(latest)
    if not codec.default_path:
        if message is not None:
            raise ConfigError(
                f"{message!r} is to be the message of a Protobuf schema, but the subject's are of type {latest.type}, in which "
                "there is one record: name no message"
            )
        return None
    return record_type(codec, latest, message).reader(codec).name


def codec_name(schemas: Sequence[Schema]) -> str:
    """The codec for these schemas, by their type in the registry. Raises ConfigError where they have several."""
    types = {schema.type for schema in schemas}
    if len(types) != 1:
        raise ConfigError(
            f"the versions of this subject are of several types ({', '.join(sorted(types))}); say which by format="
        )
    return CODECS[types.pop()]


def columns_of(
    codec: Codec, schemas: Sequence[Schema], message: str | None, version: Literal["latest", "all"]
) -> pa.Schema:
    """The columns of the latest version, or those of all versions together. Raises BadSchema and ConfigError."""
    kinds = record_types(codec, schemas, message)
    if version == "latest":
        return kinds[-1][1].reader(codec).schema
    return union(kind.reader(codec).schema for _, kind in kinds)
