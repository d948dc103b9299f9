"""The seam between bytes and tables: what a codec does, and how one is found by name.

A codec never reads Kafka, never writes Delta and never calls a registry. Adding a format is one new folder here
and one line in `BUILT_IN`, with one more in `CODECS` where registries have a type for it; or, in another package, an entry
point of the group `distributary.codecs`.

`Codec` is what every format does. What only some do is in its `capabilities`; who cannot go on without one of them asks by
the functions at the end (`resolving`, `picking` and so on), which say so of a codec that lacks it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.codecs.changes.description import RecordDescription, described_columns
from distributary.codecs.wire.header import Frames
from distributary.errors import ConfigError, DecoderUnavailable, UnknownCodec
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

# The same formats as the serializers of Glue's registry write them; settings choose them by their registry.
IN_GLUE: Mapping[str, str] = {
    "glue/avro": "distributary.codecs.glue.codec:avro",
    "glue/jsonschema": "distributary.codecs.glue.codec:json_schema",
    "glue/protobuf": "distributary.codecs.glue.codec:GlueProtobufCodec",
}

# The codec for each type of schema that a registry tells.
CODECS: Mapping[SchemaType, str] = {"PROTOBUF": "protobuf", "AVRO": "avro", "JSON": "jsonschema"}

# What records are taken to name that name no schema: the newest version of the one that was inferred for them.
INFERRED = Unregistered.INFERRED


@dataclass(frozen=True, slots=True)
class Enveloped:
    """A codec whose records stand in an envelope that says what became of each: what is inside of it becomes the row.

    format    the codec that decodes them, by name
    envelope  what they stand in, by name
    keep      of what the envelope says: what becomes columns beside the row's
    truncate  what becomes of a record that says that a table was emptied: it is a failure, which goes to `quarantine` or is to
              `stop` the run, or is left out (`ignore`)
    """

    format: str
    envelope: str
    keep: tuple[str, ...] = ()
    truncate: Literal["quarantine", "ignore", "stop"] = "quarantine"


CodecName: TypeAlias = str | Enveloped
"""What a codec is loaded by."""

ENVELOPES: Mapping[str, str] = {"debezium": "distributary.codecs.envelope.codec:DebeziumCodec"}

RecordPath = tuple[int, ...]
"""Which record type inside one schema a payload is: Protobuf's message index, () where a schema has only one."""

Mode: TypeAlias = Literal["FAILFAST", "PERMISSIVE"]
"""What a broken payload does in a notebook: it fails the query, or becomes a null."""


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
class Around:
    """What the envelopes say that records stand in.

    beside    per row what is known of it and is no column of its table: routes and conditions may name it
    left_out  by reason the payloads that are no rows, and no failures either, such as a producer's signs of life
    """

    beside: pa.RecordBatch
    left_out: Mapping[str, npt.NDArray[np.int64]]

    def some(self, rows: pa.Array) -> Around:
        """The same of these rows alone."""
        return replace(self, beside=self.beside.take(rows))


@dataclass(frozen=True, slots=True)
class Decoded:
    """What became of a batch of payloads: `rows.num_rows == len(source)`, `source[i]` is the payload of row i.

    Every payload given is in `source`, in `failures` or in `around.left_out`, exactly once, and `source` ascends.

    rescued  per row the JSON text of what no column took, such as `{"level":"high"}`; null where all was taken.
             None where the format cannot hold anything that its schema does not tell
    beyond   the payloads that have fields which the schema lacks, numbered as given; those fields are in `rescued`
    misfits  of the payloads that have a value which its column does not take, so that it is in `rescued`, the first such field
    unknown  what a sample of the payloads has and neither a column nor `rescued` holds: their producer is ahead of the
             schema that it names. Empty where the format cannot tell
    around   what the envelopes say that the payloads are; None where they are none
    """

    rows: pa.RecordBatch
    source: npt.NDArray[np.int64]
    failures: Sequence[Failure]
    rescued: pa.StringArray | None = None
    beyond: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    unknown: Sequence[UnknownField] = ()
    misfits: Mapping[int, str] = field(default_factory=dict)
    around: Around | None = None

    @property
    def beside(self) -> pa.RecordBatch | None:
        """Per row what is known of it and is no column of its table; None where there is nothing."""
        return None if self.around is None else self.around.beside

    def without(self, payloads: npt.NDArray[np.int64]) -> Decoded:
        """The same without the rows of these payloads, which are numbered as they were given."""
        kept = np.flatnonzero(~np.isin(self.source, payloads))
        places = pa.array(kept)
        rescued = None if self.rescued is None else self.rescued.take(places)
        beyond = self.beyond[~np.isin(self.beyond, payloads)]
        around = None if self.around is None else self.around.some(places)
        return replace(
            self,
            rows=self.rows.take(places),
            source=self.source[kept],
            rescued=rescued,
            beyond=beyond,
            around=around,
        )


class RecordReader(ABC):
    """Decodes records of one type of one schema. Lives in a worker; made by `Codec.reader`."""

    name: str
    """The record's full name, such as `games.v1.Event`."""

    schema: pa.Schema
    """The columns `decode` gives: only types that Delta can store, every field nullable, names as in the payload."""

    is_record: bool = True
    """Whether a payload is a record; where it is one bare value instead, that is the only column."""

    @abstractmethod
    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """All payloads (bodies without any header, no nulls) as rows; the broken ones as failures."""

    def decodes_like(self, other: RecordReader) -> bool:
        """Whether any bytes give the same values here as by the other reader, whose schema is of the same type.

        Columns alone decide, by their names. A format whose schemas say more of bytes, such as numbers or an order, says so here.
        """
        return self.name == other.name and bool(self.schema.equals(other.schema))

    def column(self, payload: Column, mode: Mode = "FAILFAST") -> Column:
        """A Spark expression giving the same columns as one struct, from a body without any header.

        A broken payload fails the query, or with PERMISSIVE makes the struct null. Raises DecoderUnavailable where
        Spark lacks the function, as it does for every reader that does not say otherwise.
        """
        raise DecoderUnavailable(
            f"{self.name}: Spark has no function for records of this format; use the native decoder"
        )


class GrowingReader(RecordReader):
    """A reader whose schema nobody registered: it can tell what a schema would have to be to take more."""

    @abstractmethod
    def grown(self, payloads: pa.BinaryArray, most: int | None = None) -> Schema:
        """The schema with what these payloads have beyond it, each new field nullable and of the type they need.

        With `most` it grows to no more than so many fields, nested ones included: a payload that would lead beyond adds
        nothing, and keeps none out that would not. It is the schema itself where nothing is added.
        """


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Growing:
    """What a codec does with records that name no schema (`INFERRED`): theirs is inferred, a STRUCT, and grows with them.

    Where the codec is `registered` too, these come beside records that name theirs.

    names_no_schema  whether a value (without a schema in its headers) is such a record, as Spark's expression
    merged           one schema that takes what each of these takes; the first one's fields stay as they are, and where
    reader           the reader for records of an inferred schema. Raises BadSchema
    survey           a look at records before Spark infers a schema from them, some of whose fields have the types of this one
                     whatever they hold; None where Spark infers without one
    picked           what each payload (none null) has at this path of names, as text; null where it has no such value. None
                     where nothing can be told of a record without its schema
    fits             whether a schema has no more columns than the format lets one grow to, whatever the settings allow; None
                     where the format knows no bound
    """

    names_no_schema: Callable[[Column], Column]
    merged: Callable[[Sequence[Schema]], Schema]
    reader: Callable[[Schema], GrowingReader]
    survey: Callable[[Schema], Survey] | None = None
    picked: Callable[[pa.BinaryArray, Sequence[str]], pa.StringArray] | None = None
    fits: Callable[[Schema], bool] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a codec does that not every format can or needs to; None for each thing that it does not.

    growing     decodes records that name no schema
    joint       makes a reader for a few records of each of many inferred schemas, of which it knows none yet; it takes less
                time than one schema after the other
    resolving   the reader for records of the first schema whose columns are the second's, by the format's own rules; a record
                is columns within itself so many times, and JSON text with 0. Raises BadSchema
    validating  the same codec, whose readers refuse records that do not meet all of their schema, such as ranges and patterns
    as_spark    the same codec with the columns and values of Spark's own function with these options. Raises ConfigError
    """

    growing: Growing | None = None
    joint: Callable[[], JointReader] | None = None
    resolving: Callable[[Schema, Schema, int], RecordReader] | None = None
    validating: Callable[[], Codec] | None = None
    as_spark: Callable[[Mapping[str, str]], Codec] | None = None


class Codec(ABC):
    """Decodes one payload format.

    A format has to bring `split` and `reader`; all else is as it is here until a format says otherwise.
    """

    registered: bool = True
    """Whether records name their schema; for those that name none there are `Capabilities.growing`."""

    default_path: RecordPath = ()
    """The record type that a subject's schema is taken to be about before any record has said so."""

    takes_any_format: bool = False
    """Whether it takes schemas of every type, each decoded by its own format's codec; then it has to be told their types."""

    @property
    def capabilities(self) -> Capabilities:
        """What it does beyond this."""
        return Capabilities()

    @abstractmethod
    def split(self, values: pa.BinaryArray, header_ids: pa.BinaryArray | None) -> Frames:
        """Each value's schema reference, record path and where its body starts, vectorised.

        `header_ids` holds the record header `__value_schema_id`, null where there was none.
        """

    @abstractmethod
    def reader(self, schema: Schema, path: RecordPath) -> RecordReader:
        """The reader for one record type of a schema. Raises BadSchema."""

    def description(self, schema: Schema, path: RecordPath) -> RecordDescription:
        """One record type of a schema, in words that all formats share: as the reader's columns tell it. Raises BadSchema.

        A format whose schemas say more of their fields, such as numbers, aliases or symbols, says so here.
        """
        reader = self.reader(schema, path)
        return RecordDescription(schema.type, reader.name, described_columns(reader.schema))

    def knowing(self, types: Mapping[SchemaRef, SchemaType]) -> Codec:
        """The same codec where the types of these schemas are known."""
        return self

    def codec_for(self, schema: Schema) -> Codec:
        """The codec for this schema's type. Raises BadSchema where there is none."""
        return self


def load_codec(name: CodecName) -> Codec:
    """The codec called `name`: built in, or from a package's `distributary.codecs` entry points; or one in an envelope."""
    if isinstance(name, Enveloped):
        module, _, attribute = ENVELOPES[name.envelope].partition(":")
        made: Codec = getattr(import_module(module), attribute)(load_codec(name.format), name)
        return made
    # What the packages of an environment bring takes long to read, and never stands before what is built in.
    known = next((ours for ours in (BUILT_IN, IN_GLUE) if name in ours), None)
    known = {**_brought_by_packages(), **BUILT_IN} if known is None else known
    if name not in known:
        raise UnknownCodec(f"no codec is called {name!r}; there are: {', '.join(sorted(known))}")
    module, _, attribute = known[name].partition(":")
    try:
        found: object = getattr(import_module(module), attribute)()
    except Exception as error:
        # What another's code says may be anything; its kind tells what to look for.
        raise UnknownCodec(
            f"the codec {name!r} ({known[name]}) cannot be made: {type(error).__name__}. Its entry point names a module and, "
            "behind a colon, a class without arguments that has `split`, `reader` and all else a distributary.Codec must have"
        ) from error
    if not isinstance(found, Codec):
        raise UnknownCodec(f"{known[name]!r} is no codec; make its class a subclass of distributary.Codec")
    return found


def _brought_by_packages() -> Mapping[str, str]:
    return {point.name: point.value for point in entry_points(group="distributary.codecs")}


def growing_reader(codec: Codec, schema: Schema) -> GrowingReader:
    """The reader for a schema that nobody registered. Raises ConfigError where the codec knows none such."""
    growing = codec.capabilities.growing
    if growing is None:
        name = codec.reader(schema, codec.default_path).name
        raise ConfigError(f"records of {name} have a registered schema, which does not grow with them")
    return growing.reader(schema)


def surveying(codec: Codec) -> Callable[[Schema], Survey]:
    """How the codec counts fields of records without a schema. Raises ConfigError for one that does not."""
    growing = codec.capabilities.growing
    if growing is None or growing.survey is None:
        raise ConfigError("records of this format are not surveyed before a schema is inferred from them")
    return growing.survey


def picking(codec: Codec) -> Callable[[pa.BinaryArray, Sequence[str]], pa.StringArray]:
    """How the codec finds one field of a record without its schema. Raises ConfigError for one that does not."""
    growing = codec.capabilities.growing
    if growing is None or growing.picked is None:
        raise ConfigError("a field of a record of this format is not found without its schema")
    return growing.picked


def resolving(codec: Codec) -> Callable[[Schema, Schema, int], RecordReader]:
    """How the codec reads records of one schema as another has them. Raises ConfigError for one that does not."""
    if codec.capabilities.resolving is None:
        raise ConfigError("this format has no rules for reading records as another schema has them")
    return codec.capabilities.resolving


def validating(codec: Codec) -> Codec:
    """The codec, holding records to all of their schema. Raises ConfigError where schemas say no more than types."""
    if codec.capabilities.validating is None:
        raise ConfigError(
            "schemas of this format say nothing of records that decoding does not check; leave decode.check out"
        )
    return codec.capabilities.validating()
