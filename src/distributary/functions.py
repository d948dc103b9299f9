"""`from_protobuf`, `from_avro` and `from_json` that know a schema registry, `to_protobuf` and `to_avro`, and `decode`, the fast way for a whole frame.

Signatures, option names and meanings are those of Databricks, whose functions these stand in for; without a registry
in the options each call is handed to open-source PySpark's function of the same name. docs/how-to/move-a-databricks-notebook.md
says what differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from distributary.codecs.base import Mode
from distributary.codecs.notebook.options import (
    ADDRESS,
    SUBJECT,
    FunctionOptions,
    asks_a_registry,
    exactly,
    function_options,
    reading_json,
)
from distributary.codecs.notebook.query import Wanted, subject_decoding
from distributary.codecs.notebook.subject import Evolution
from distributary.codecs.option_values import text_of
from distributary.errors import ConfigError
from distributary.registry.base import SchemaRegistry
from distributary.registry.confluent.options import RegistryOptions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

__all__ = ["decode", "from_avro", "from_json", "from_protobuf", "to_avro", "to_protobuf"]


def from_protobuf(
    data: Column | str,
    messageName: str | None = None,
    descFilePath: str | None = None,
    options: Mapping[str, str] | None = None,
    binaryDescriptorSet: bytes | None = None,
) -> Column:
    """Converts a binary column of Protobuf records to a struct, with the schemas of a registry.

    A registry is asked where `options` has `schema.registry.subject` and `schema.registry.address`; then
    records have Confluent's wire header. Otherwise this is PySpark's own function, which needs `messageName`
    and a descriptor, and records without any header.

    data                 the binary column, or its name
    messageName          as in PySpark; not together with a registry
    descFilePath         as in PySpark; not together with a registry
    options              see below
    binaryDescriptorSet  as in PySpark; not together with a registry

    Options:

    schema.registry.subject                       required for a registry
    schema.registry.address                       required for a registry
    schema.registry.protobuf.name                 the message, by simple or full name; default: the first one of the schema
    schema.registry.schema.evolution.mode         `restart` (default) fails with UnknownFieldException on a record of a
                                                  newer version, `none` leaves out what is new
    mode                                          `FAILFAST` (default) or `PERMISSIVE`, which gives null for a broken record
    emit.default.values, enums.as.ints            as in PySpark
    upcast.unsigned.ints                          as in PySpark
    unwrap.primitive.wrapper.types                as in PySpark
    retain.empty.message.types                    as in PySpark
    convert.any.fields.to.json                    as in PySpark
    recursive.fields.max.depth                    as in PySpark
    distributary.headers                          the column of Kafka's record headers, where those may name the schema
    distributary.payload                          `key` or `value`, whose schema they name; default: `key` for the column `"key"`
    confluent.schema.registry.<option>            for the registry's client

    Returns a struct with the columns of the subject's latest version; null for a null value. Raises ConfigError,
    SchemaNotFound, BadSchema and RegistryUnavailable at once, when the registry is asked for the subject.

    >>> options = {"schema.registry.subject": "games-value", "schema.registry.address": "http://127.0.0.1:8081"}
    >>> frame.select(from_protobuf("value", options=options).alias("event"))  # doctest: +SKIP
    """
    if asks_a_registry(options):
        if messageName is not None or descFilePath is not None or binaryDescriptorSet is not None:
            raise ConfigError(
                "from_protobuf: give either a registry or a message with its descriptor; the message of a registry's "
                "schema is named by schema.registry.protobuf.name"
            )
        return _column(data, "from_protobuf", function_options("from_protobuf", options or {}, "restart"))
    from pyspark.sql.protobuf.functions import from_protobuf as spark_from_protobuf

    if messageName is None:
        raise ConfigError(f"from_protobuf: give messageName and its descriptor, or {SUBJECT} and {ADDRESS}")
    return spark_from_protobuf(data, messageName, descFilePath, dict(options or {}), binaryDescriptorSet)


def from_avro(
    data: Column | str,
    jsonFormatSchema: str | None = None,
    options: Mapping[str, str] | None = None,
    subject: str | None = None,
    schemaRegistryAddress: str | None = None,
) -> Column:
    """Converts a binary column of Avro records to a struct, with the schemas of a registry.

    A registry is asked where `subject` and `schemaRegistryAddress` are given (or, in `options`, what they stand for);
    then records have Confluent's wire header, and each, written with whichever version, is read as the latest has it, by Avro's
    rules: fields it lacks have their defaults. Our decoder reads them, in a Python worker; a record with bytes left over behind
    it is a broken one. Otherwise this is PySpark's own function, which needs `jsonFormatSchema`.

    data                   the binary column, or its name
    jsonFormatSchema       an Avro schema; with a registry the one that records are read as, instead of the latest version
    options                see below
    subject                the registry's subject
    schemaRegistryAddress  the registry's address

    Options, besides `mode`, `distributary.headers` and `confluent.schema.registry.<option>` of `from_protobuf`:

    avroSchemaEvolutionMode  `none` (default) leaves out what a newer version brings, `restart` fails with
                             UnknownFieldException on a record of one; `schema.registry.schema.evolution.mode` is the same
    avroSchema               the same as `jsonFormatSchema`
    recursiveFieldMaxDepth   1 to 15, how many times a record that can contain itself is columns within itself; default: JSON text
    distributary.engine      `spark` for Spark's own function, which passes over what follows a record

    Returns a struct with the columns of the subject's latest version, or the value itself where that is no record; null for
    a null value. Raises as `from_protobuf` does.
    """
    given = _with(options, subject, schemaRegistryAddress)
    if asks_a_registry(given):
        asked = exactly(function_options("from_avro", given, "none"))
        return _column(data, "from_avro", _with_reader(asked, jsonFormatSchema))
    from pyspark.sql.avro.functions import from_avro as spark_from_avro

    if jsonFormatSchema is None:
        raise ConfigError("from_avro: give jsonFormatSchema, or subject and schemaRegistryAddress")
    return spark_from_avro(data, jsonFormatSchema, dict(options or {}))


def from_json(
    col: Column | str,
    schema: object = None,
    options: Mapping[str, str] | None = None,
    subject: str | None = None,
    schemaRegistryAddress: str | None = None,
) -> Column:
    """Converts a column of JSON to a struct: by a registry's JSON Schema, by an inferred schema, or by the one given.

    col                    the column, or its name: text; with a registry or a schema location binary, as it came from Kafka
    schema                 as in PySpark, whose function is then called
    options                see below
    subject                the registry's subject
    schemaRegistryAddress  the registry's address

    Options, besides those of `from_protobuf` for a registry and those of PySpark:

    schemaLocation                         a folder of inferred schemas, as `distributary infer` writes them; the newest counts
    schemaLocationKey                      which of several below that folder
    schemaHints                            types that win, as Spark's DDL
    schemaEvolutionMode                    what fields do that the schema lacks: `addNewColumns` (default) adds a version that
                                           has them and fails with UnknownFieldException, `failOnNewColumns` only fails,
                                           `rescue` rescues them, `none` leaves them out
    rescuedDataColumn                      the field, one more, that takes what no other does, as JSON text; with a registry too
    dateFormat, allowComments              as in PySpark, by its function alone, as all others that say how text is read

    Returns a struct; null for a null value. Raises ConfigError, SchemaNotFound, BadSchema and RegistryUnavailable at once.
    """
    given = _with(options, subject, schemaRegistryAddress)
    if schema is not None:
        _refuse_ours(given)
        from pyspark.sql.functions import from_json as spark_from_json

        return spark_from_json(col, schema, dict(options or {}))  # type: ignore[arg-type]
    if asks_a_registry(given):
        return _column(col, "from_json", reading_json(function_options("from_json", given, "restart")))
    if any(name.lower() == "schemalocation" for name in given):
        return _located(col, given)
    raise ConfigError(
        "from_json: give schema, or schemaLocation in the options, or subject and schemaRegistryAddress"
    )


def decode(
    frame: DataFrame,
    column: str = "value",
    *,
    registry: str | RegistryOptions | SchemaRegistry,
    subject: str,
    format: str | None = None,  # noqa: A002 - the word that users know
    message: str | None = None,
    version: Literal["latest", "all"] = "latest",
    evolution: Evolution = "restart",
    mode: Mode = "FAILFAST",
    into: str | None = None,
    headers: str | None = None,
    payload: Literal["value", "key"] | None = None,
    reader_schema: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The frame with a column of payloads replaced by what is in them: the fast way, for every format.

    Every record is decoded with the schema that its header names, and brought into the columns of one version.

    frame          a batch or a stream
    column         the binary column, such as Kafka's `value`; the result does not have it any more
    registry       its address, how to reach it, or the registry itself
    subject        the subject whose versions are used
    format         a codec's name; default: the one for the type of the subject's schemas
    message        the Protobuf message, by simple or full name; default: the first one of the schema
    version        `latest`: the columns of the latest version; `all`: those of all versions together
    evolution      what a record does that was written with a version that came later: `restart` fails with
                   UnknownFieldException, `none` leaves out what is new
    mode           in any capitals. `FAILFAST` fails on a record that cannot be decoded. `PERMISSIVE` gives nulls for it, and
                   adds two columns to every row: `_decode_error`, why it could not be decoded, and `_corrupt_record`, its bytes
    into           the name of a struct for all that is decoded; default: columns of the frame
    headers        the frame's column of Kafka's record headers (`includeHeaders`), where those may name the schema
    payload        which of a record's schemas in its headers counts: `key` or `value`; default: `key` for the column of that name
    reader_schema  an Avro schema that records are read as, instead of the latest version
    options        those of Spark's function for the format that say what values become, such as `enums.as.ints`: columns and
                   values are then that function's; `{}` for its defaults. Default: this project's own, those of its tables.
                   For JSON `rescuedDataColumn`: the column, one more, that takes what no other does, as JSON text

    Returns the frame with its new columns. Raises ConfigError, SchemaNotFound, BadSchema and RegistryUnavailable at once: for an
    argument that is not what it may be, and when the registry is asked for the subject.

    >>> games = decode(frame, registry="http://127.0.0.1:8081", subject="games-value")  # doctest: +SKIP
    """
    from distributary.codecs.notebook.arguments import check_subject, check_wanted, checked
    from distributary.codecs.notebook.frame import Shape, decoded_frame

    wanted = Wanted(format, message, version, evolution, reader_schema, options=options)
    record_part = column if payload is None else payload
    shape = Shape(column=column, headers=headers, payload=record_part, into=into, mode=mode)
    check_subject(registry, subject)
    check_wanted(wanted)
    shape = checked(shape)
    return decoded_frame(frame, subject_decoding(registry, subject, wanted), shape)


def to_avro(
    data: Column | str,
    subject: str | None = None,
    schemaRegistryAddress: str | None = None,
    jsonFormatSchema: str | None = None,
    options: Mapping[str, str] | None = None,
    columnType: DataType | None = None,
) -> Column:
    """Converts a column to Avro records with Confluent's wire header: what `from_avro` reads again as the same values.

    The schema is the subject's latest; or `jsonFormatSchema`, or the one that `columnType` makes, which are registered under the
    subject unless they are there already. Without a registry this is PySpark's own function, whose records have no header.

    data                   the column, or its name: a struct for a record
    subject                the registry's subject
    schemaRegistryAddress  the registry's address
    jsonFormatSchema       the schema, in the place of the subject's latest
    options                `confluent.schema.registry.<option>` for the registry's client, and what `subject` and the address stand for
    columnType             the column's type, such as `frame.schema["event"].dataType`: its schema has every field nullable

    Returns binary; null for a null value. Raises ConfigError, SchemaNotFound, BadSchema and RegistryUnavailable at once, when the registry
    is asked. A value that does not go into the schema fails the query; so does a field that it lacks.

    >>> frame.select(to_avro("event", "events-value", "http://127.0.0.1:8081"))  # doctest: +SKIP
    """
    given = _with(options, subject, schemaRegistryAddress)
    if asks_a_registry(given):
        asked = function_options("to_avro", given, "none")
        return _written(data, asked, jsonFormatSchema, columnType)
    from pyspark.sql.avro.functions import to_avro as spark_to_avro

    if columnType is not None:
        raise ConfigError(
            "to_avro: columnType is for a registry; give subject and schemaRegistryAddress, too"
        )
    return spark_to_avro(data, jsonFormatSchema or "")


def to_protobuf(
    data: Column | str,
    messageName: str | None = None,
    descFilePath: str | None = None,
    options: Mapping[str, str] | None = None,
    columnType: DataType | None = None,
) -> Column:
    """Converts a column of structs to Protobuf records with Confluent's wire header: what `from_protobuf` reads again as the same values.

    A registry is asked where `options` has `schema.registry.subject` and `schema.registry.address`. The schema is the subject's latest, or the
    one that `columnType` makes, registered under the subject unless it is there already; a field that an earlier version has keeps its
    number. Otherwise this is PySpark's own function, which needs `messageName` and a descriptor.

    data          the column, or its name
    messageName   as in PySpark; not together with a registry
    descFilePath  as in PySpark; not together with a registry
    options       the two above, `schema.registry.protobuf.name` for the message (default: the first one of the schema), and
                  `confluent.schema.registry.<option>` for the registry's client
    columnType    the column's type, such as `frame.schema["event"].dataType`. Dates, decimals, and nulls within arrays and maps Protobuf has
                  no place for; an array or map that is null is read as an empty one

    Returns binary; null for a null value. Raises as `to_avro` does.
    """
    if asks_a_registry(options):
        if messageName is not None or descFilePath is not None:
            raise ConfigError("to_protobuf: give either a registry or a message with its descriptor")
        return _written(data, function_options("to_protobuf", options or {}, "none"), None, columnType)
    from pyspark.sql.protobuf.functions import to_protobuf as spark_to_protobuf

    if messageName is None:
        raise ConfigError(f"to_protobuf: give messageName and its descriptor, or {SUBJECT} and {ADDRESS}")
    return spark_to_protobuf(data, messageName, descFilePath, dict(options or {}))


def _written(
    data: Column | str, asked: FunctionOptions, text: str | None, column_type: DataType | None
) -> Column:
    from pyspark.sql import functions as F

    from distributary.codecs.writing.column import Written, given, latest, registered, written_column
    from distributary.registry.confluent.registry import ConfluentRegistry

    if text is not None and column_type is not None:
        raise ConfigError("give jsonFormatSchema or columnType, one of both")
    if asked.wanted.options:
        raise ConfigError(f"option {min(asked.wanted.options)!r} is not known here")
    wanted = Written(asked.wanted.codec or "", asked.subject, asked.wanted.message)
    with ConfluentRegistry(asked.registry) as registry:
        if text is not None:
            schema = given(registry, wanted, text)
        elif column_type is not None:
            schema = registered(registry, wanted, column_type, "Record")
        else:
            schema = latest(registry, wanted)
    return written_column(F.col(data) if isinstance(data, str) else data, schema, wanted)


def _with(options: Mapping[str, str] | None, subject: str | None, address: str | None) -> dict[str, str]:
    named = {SUBJECT: subject, ADDRESS: address}
    return {**(options or {}), **{name: value for name, value in named.items() if value is not None}}


def _refuse_ours(given: Mapping[str, str]) -> None:
    """Raises ConfigError for options that PySpark's from_json would pass over in silence."""
    known = {"schemalocation", "schemalocationkey", "schemahints", "schemaevolutionmode", "rescueddatacolumn"}
    ours = [
        name
        for name in given
        if name.lower() in known or name.lower().startswith(("schema.registry.", "distributary."))
    ]
    if ours:
        raise ConfigError(
            f"from_json: {ours[0]} says something where the schema is not given in the call; leave either of them out"
        )


def _with_reader(asked: FunctionOptions, text: str | None) -> FunctionOptions:
    if text is not None:
        text_of("from_avro: jsonFormatSchema", text)
    if text is None or asked.wanted.reader in (None, text):
        return replace(asked, wanted=replace(asked.wanted, reader=text or asked.wanted.reader))
    raise ConfigError(
        "from_avro: jsonFormatSchema and the option avroSchema differ; with a registry both are the schema that records are "
        "read as (the registry knows what they were written with), so give one"
    )


def _column(data: Column | str, function: str, asked: FunctionOptions) -> Column:
    from distributary.codecs.notebook.column import Payloads, binary_only, struct_column

    decoding = subject_decoding(asked.registry, asked.subject, asked.wanted)
    payloads = Payloads.of(data, asked.headers, asked.payload)
    payloads = replace(payloads, value=binary_only(function, payloads.value))
    row = struct_column(payloads, decoding, asked.mode, asked.engine)
    return row[decoding.columns.names[0]] if decoding.is_bare() else row


def _located(data: Column | str, given: Mapping[str, str]) -> Column:
    from distributary.codecs.notebook.column import Payloads, struct_column
    from distributary.ingest.schemas.from_json import located_decoding, located_options

    asked = located_options(given)
    return struct_column(Payloads.of(data), located_decoding(asked), asked.mode, asked.engine)
