"""Columns of rows written as bytes, each with the header that names its schema."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType

from distributary.codecs.notebook.shipped import shipped
from distributary.codecs.wire.prefix import prefixes
from distributary.codecs.writing import avro, protobuf
from distributary.codecs.writing.formats import WITH_SCHEMA
from distributary.codecs.writing.values import Misfit
from distributary.errors import BadSchema, ConfigError, SchemaNotFound
from distributary.registry.base import Schema, SchemaRegistry

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True, slots=True)
class Written:
    """As what rows are written.

    format   `avro` or `protobuf`
    subject  what the registry has their schema under
    message  the Protobuf message; None: the first one
    """

    format: str
    subject: str
    message: str | None = None


def type_name(table: str) -> str:
    """What a table's rows are called in their schema: neither Avro nor Protobuf has a name that begins with a digit."""
    return f"_{table}" if table[:1].isdigit() else table


def registered(registry: SchemaRegistry, wanted: Written, kind: DataType, name: str) -> Schema:
    """The schema of values of a type, registered under the subject unless it is there already. Raises BadSchema and RegistryUnavailable."""
    if wanted.format == "avro":
        text = avro.schema_text(kind, name)
    else:
        text = protobuf.schema_text(kind, name, protobuf.Numbers.of(_versions(registry, wanted.subject)))
    return given(registry, wanted, text)


def given(registry: SchemaRegistry, wanted: Written, text: str) -> Schema:
    """A schema that is said as text, registered under the subject unless it is there already."""
    schema_type = WITH_SCHEMA[wanted.format]
    number = registry.register(wanted.subject, text, schema_type)  # type: ignore[arg-type]
    return registry.by_ref(number, wanted.subject)


def latest(registry: SchemaRegistry, wanted: Written) -> Schema:
    """The subject's newest schema. Raises SchemaNotFound, ConfigError where it is of another format."""
    newest = registry.versions(wanted.subject)[-1]
    schema = registry.by_ref(newest.id, wanted.subject)
    if schema.type != WITH_SCHEMA[wanted.format]:
        raise ConfigError(
            f"to_{wanted.format}: the schemas of subject {wanted.subject!r} are of type {schema.type}"
        )
    return schema


def written_column(value: Column, schema: Schema, wanted: Written) -> Column:
    """The values as records, header first; null for a null value. One that does not fit fails the query. Raises BadSchema."""
    udf = F.udf(_writer(schema, wanted), BinaryType(), useArrow=False)
    return udf(value)


def _versions(registry: SchemaRegistry, subject: str) -> list[Schema]:
    try:
        return [registry.by_ref(one.id, subject) for one in registry.versions(subject)]
    except (SchemaNotFound, BadSchema):
        return []


def _writer(schema: Schema, wanted: Written) -> Callable[[Any], bytes | None]:
    path: tuple[int, ...] = ()
    if wanted.format == "avro":
        encode = avro.encoder(schema)
    else:
        encode, path = protobuf.encoder(schema, wanted.message)
    start, subject = prefixes(schema.id, path)[0], wanted.subject

    def write(value: Any) -> bytes | None:
        if value is None:
            return None
        try:
            return start + encode(value)
        except Misfit as error:
            raise ConfigError(
                f"to_{wanted.format}: a value does not go into schema {schema.id} of subject {subject!r}: {error}"
            ) from None

    unpacked = shipped(write)

    def there(value: Any) -> bytes | None:
        return unpacked()(value)

    return there
