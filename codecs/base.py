"""The seam between bytes and tables: what a codec does, and how one is found by name.

A codec never reads Kafka, never writes Delta and never calls a registry. Adding a format is one new folder here
and one line in `BUILT_IN`, or an entry point of the group `distributary.codecs` in another package.

`Codec` is what every format does. What only some do are the protocols after it; who needs one of them asks by the functions
at the end (`growing`, `resolving`, `describe` and so on), which say what becomes of a codec without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.codecs.changes.description import RecordDescription, described_columns
from distributary.codecs.wire.header import Frames
from distributary.errors import ConfigError, UnknownCodec
from distributary.registry.base import Schema, SchemaRef, SchemaType, Unregistered

if TYPE_CHECKING:
    from pyspark.sql import Column

# Named, not imported: choosing one format must not need the libraries of another.
BUILT_IN: Mapping[str, str] = {
    "auto": "distributary.codecs.mixed.codec:AutoCodec",
    "avro": "distributary.codecs.avro.codec:AvroCodec",
    "json": "distributary.codecs.json.codec:JsonCodec",
    "jsonschema": "distributary.codecs.jsonschema.codec:JsonSchemaCodec",
    "protobuf": "distributary.codecs.protobuf.codec:ProtobufCodec",
}

# The codec for each type of schema that a registry tells.
CODECS: Mapping[SchemaType, str] = {"PROTOBUF": "protobuf", "AVRO": "avro", "JSON": "jsonschema"}

# What records are taken to name that name no schema: the newest version of the one that was inferred for them.
INFERRED = Unregistered.INFERRED

RecordPath = tuple[int, ...]
"""Which record type inside one schema a payload is: Protobuf's message index, () where a schema has only one."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One payload that could not be decoded: its place in the batch given, a reason code and a sentence.

    The sentence never quotes the payload.
    """

    row: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class UnknownField:
    """A field that records have and their own schema lacks, or types otherwise: its value is in no column.

    path     where it is: the names of the fields around it, and what the format knows it by, such as Protobuf's number
    records  how many of the records that were looked at have it
    first    the first of them, numbered as given
    """

    path: str
    records: int
    first: int


@dataclass(frozen=True, slots=True)
class Decoded:
    """What became of a batch of payloads: `rows.num_rows == len(source)`, `source[i]` is the payload of row i.

    Every payload given is either in `source` or in `failures`, exactly once, and `source` ascends.

    rescued  per row the JSON text of what no column took, such as `{"level":"high"}`; null where all was taken.
             None where the format cannot hold anything that its schema does not tell
    beyond   the payloads that have fields which the schema lacks, numbered as given; those fields are in `rescued`
    misfits  of the payloads that have a value which its column does not take, so that it is in `rescued`, the first such field
    unknown  what a sample of the payloads has and neither a column nor `rescued` holds: their producer is ahead of the
             schema that it names. Empty where the format cannot tell
    """

    rows: pa.RecordBatch
    source: npt.NDArray[np.int64]
    failures: Sequence[Failure]
    rescued: pa.StringArray | None = None
    beyond: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    unknown: Sequence[UnknownField] = ()
    misfits: Mapping[int, str] = field(default_factory=dict)

    def without(self, payloads: npt.NDArray[np.int64]) -> Decoded:
        """The same without the rows of these payloads, which are numbered as they were given."""
        kept = np.flatnonzero(~np.isin(self.source, payloads))
        places = pa.array(kept)
        rescued = None if self.rescued is None else self.rescued.take(places)
        beyond = self.beyond[~np.isin(self.beyond, payloads)]
        return replace(
            self, rows=self.rows.take(places), source=self.source[kept], rescued=rescued, beyond=beyond
        )


class RecordReader(Protocol):
    """Decodes records of one type of one schema. Lives in a worker; made by `Codec.reader`."""

    name: str
    """The record's full name, such as `games.v1.Event`."""

    schema: pa.Schema
    """The columns `decode` gives: only types that Delta can store, every field nullable, names as in the payload."""

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """All payloads (bodies without any header, no nulls) as rows; the broken ones as failures."""
        ...

    def column(self, payload: Column) -> Column:
        """A Spark expression giving the same columns as one struct, from a body without any header.

        Raises DecoderUnavailable where Spark lacks the function.
        """
        ...


@runtime_checkable
class GrowingReader(RecordReader, Protocol):
    """A reader whose schema nobody registered: it can tell what a schema would have to be to take more."""

    def grown(self, payloads: pa.BinaryArray, most: int | None = None) -> Schema:
        """The schema with what these payloads have beyond it, each new field nullable and of the type they need.

        With `most` it grows to no more than so many fields, nested ones included: a payload that would lead beyond adds
        nothing, and keeps none out that would not. It is the schema itself where nothing is added.
        """
        ...


class JointReader(Protocol):
    """Decodes records of several schemas at once, each with the result that its own reader would give."""

    def add(self, reader: RecordReader) -> bool:
        """Whether records of this reader's schema can be decoded along from now on; it is then the next member."""
        ...

    def decode(self, parts: Sequence[tuple[int, pa.BinaryArray]]) -> Sequence[Decoded]:
        """What each of these members (numbered as they were added) makes of these payloads (no nulls)."""
        ...


class Survey(Protocol):
    """Looks at records before Spark infers a schema from them."""

    fields: int
    """How many fields the records so far have, nested ones included."""

    def take(self, payload: bytes) -> str | None:
        """A record's text for Spark, without what lies in fields of known types; None for what is no record."""
        ...


class Codec(Protocol):
    """Decodes one payload format."""

    registered: bool
    """Whether records name their schema; those that name none need a `GrowingCodec`, which may decode both."""

    default_path: RecordPath
    """The record type that a subject's schema is taken to be about before any record has said so."""

    def split(self, values: pa.BinaryArray, header_ids: pa.BinaryArray | None) -> Frames:
        """Each value's schema reference, record path and where its body starts, vectorised.

        `header_ids` holds the record header `__value_schema_id`, null where there was none.
        """
        ...

    def reader(self, schema: Schema, path: RecordPath) -> RecordReader:
        """The reader for one record type of a schema. Raises BadSchema."""
        ...


@runtime_checkable
class DescribingCodec(Codec, Protocol):
    """A codec whose schemas say more of their fields than columns do: numbers, aliases, symbols, what is required."""

    def description(self, schema: Schema, path: RecordPath) -> RecordDescription:
        """One record type of a schema, in words that all formats share. Raises BadSchema."""
        ...


@runtime_checkable
class ValidatingCodec(Codec, Protocol):
    """A codec whose schemas demand more of records than their columns' types, such as ranges and patterns."""

    def validating(self) -> Codec:
        """The same codec, whose readers refuse records that do not meet all of their schema."""
        ...


@runtime_checkable
class AnyFormatCodec(Codec, Protocol):
    """A codec for schemas of every type, each decoded by its own format's; it has to be told which is of which."""

    def knowing(self, types: Mapping[SchemaRef, SchemaType]) -> Codec:
        """The same codec where the types of these schemas are known."""
        ...

    def codec_for(self, schema: Schema) -> Codec:
        """The codec for this schema's type. Raises BadSchema where there is none."""
        ...


@runtime_checkable
class GrowingCodec(Codec, Protocol):
    """A codec for records that name no schema (`INFERRED`): theirs is inferred, a STRUCT, and grows with what they bring.

    Where it is `registered` too, these come beside records that name theirs.
    """

    def names_no_schema(self, value: Column) -> Column:
        """Whether a value (without a schema in its headers) is a record of an inferred schema, as Spark's expression."""
        ...

    def merged(self, schemas: Sequence[Schema]) -> Schema:
        """One schema that takes what each of these takes; the first one's fields stay as they are, and where."""
        ...


@runtime_checkable
class SurveyingCodec(GrowingCodec, Protocol):
    """A growing codec that counts fields faster than Spark infers their types."""

    def survey(self, known: Schema) -> Survey:
        """A look at records, some of whose fields have the types of this schema whatever they hold."""
        ...


@runtime_checkable
class PickingCodec(GrowingCodec, Protocol):
    """A growing codec that finds one field of a record without its schema, which then may be chosen by it."""

    def picked(self, payloads: pa.BinaryArray, path: Sequence[str]) -> pa.StringArray:
        """What each payload (none null) has at this path of names, as text; null where it has no such value."""
        ...


@runtime_checkable
class JointCodec(Codec, Protocol):
    """A codec that decodes a few records of each of many schemas in less time than one schema after the other takes."""

    def joint(self) -> JointReader:
        """A reader for records of several inferred schemas, of which it knows none yet."""
        ...


@runtime_checkable
class ResolvingCodec(Codec, Protocol):
    """A codec whose format has rules of its own for reading records of one schema as another has them."""

    def resolving(self, writer: Schema, reader: Schema, recursion: int = 0) -> RecordReader:
        """The reader for records of the writer's schema whose columns are the reader's. Raises BadSchema."""
        ...


@runtime_checkable
class SparkCodec(Codec, Protocol):
    """A codec that can give the very columns and values of Spark's own function for its format."""

    def as_spark(self, options: Mapping[str, str]) -> Codec:
        """The same codec where that function is called with these options. Raises ConfigError."""
        ...


def load_codec(name: str) -> Codec:
    """The codec called `name`: built in, or from a package's `distributary.codecs` entry points."""
    plugins = {point.name: point.value for point in entry_points(group="distributary.codecs")}
    known = {**plugins, **BUILT_IN}
    if name not in known:
        raise UnknownCodec(f"no codec is called {name!r}; there are: {', '.join(sorted(known))}")
    module, _, attribute = known[name].partition(":")
    return cast("Codec", getattr(import_module(module), attribute)())


def growing(codec: Codec) -> GrowingCodec | None:
    """The codec where it decodes records of inferred schemas; None for one that does not."""
    return codec if isinstance(codec, GrowingCodec) else None


def growing_reader(reader: RecordReader) -> GrowingReader:
    """The reader, whose schema nobody registered. Raises ConfigError for one of a registered schema."""
    if isinstance(reader, GrowingReader):
        return reader
    raise ConfigError(f"records of {reader.name} have a registered schema, which does not grow with them")


def surveying(codec: Codec) -> SurveyingCodec:
    """The codec, which counts fields of records without a schema. Raises ConfigError for one that does not."""
    if isinstance(codec, SurveyingCodec):
        return codec
    raise ConfigError("records of this format are not surveyed before a schema is inferred from them")


def picking(codec: Codec) -> PickingCodec:
    """The codec, which finds one field of a record without its schema. Raises ConfigError for one that does not."""
    if isinstance(codec, PickingCodec):
        return codec
    raise ConfigError("a field of a record of this format is not found without its schema")


def resolving(codec: Codec) -> ResolvingCodec:
    """The codec, which reads records of one schema as another has them. Raises ConfigError for one that does not."""
    if isinstance(codec, ResolvingCodec):
        return codec
    raise ConfigError("this format has no rules for reading records as another schema has them")


def validating(codec: Codec) -> Codec:
    """The codec, holding records to all of their schema. Raises ConfigError where schemas say no more than types."""
    if not isinstance(codec, ValidatingCodec):
        raise ConfigError(
            "schemas of this format say nothing of records that decoding does not check; leave decode.check out"
        )
    return codec.validating()


def codec_for(codec: Codec, schema: Schema) -> Codec:
    """The codec itself, or where it takes every format the one for this schema's. Raises BadSchema."""
    return codec.codec_for(schema) if isinstance(codec, AnyFormatCodec) else codec


def decodes_any_format(name: str) -> bool:
    """Whether the codec called `name` takes records of every format beside each other."""
    return isinstance(load_codec(name), AnyFormatCodec)


def codec_knowing(name: str, types: Mapping[SchemaRef, SchemaType]) -> Codec:
    """The codec called `name`, told the types of schemas: one for every format splits records by them."""
    codec = load_codec(name)
    return codec.knowing(types) if isinstance(codec, AnyFormatCodec) else codec


def describe(codec: Codec, schema: Schema, path: RecordPath) -> RecordDescription:
    """One record type of a schema. A codec that does not describe its schemas has told all by its reader's columns.

    Raises BadSchema.
    """
    if isinstance(codec, DescribingCodec):
        return codec.description(schema, path)
    reader = codec.reader(schema, path)
    return RecordDescription(schema.type, reader.name, described_columns(reader.schema))
