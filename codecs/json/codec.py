"""Raw JSON: records that name no schema. Theirs is inferred, kept as Spark's StructType JSON, and grows with them.

Besides reading and growing, a field of a record is picked here without any schema, as text, so that records may be told apart by it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from distributary.codecs.base import (
    INFERRED,
    Capabilities,
    Codec,
    Decoded,
    Growing,
    GrowingReader,
    Mode,
    RecordPath,
)
from distributary.codecs.json.decode import JsonDecoder
from distributary.codecs.json.inference import (
    MAX_LEAVES,
    Growth,
    beyond_record,
    leaves,
    merged_all,
    merged_fields,
    within,
)
from distributary.codecs.json.joint import JointReader
from distributary.codecs.json.options import Options, json_options, refuse_decoding
from distributary.codecs.json.survey import JsonSurvey
from distributary.codecs.types.spark_struct import arrow_schema, struct_json
from distributary.codecs.wire.header import TOMBSTONE, Frames
from distributary.registry.base import Schema

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

MAX_READERS = 2_000


class JsonReader(GrowingReader):
    """Decodes JSON objects into the columns of a Spark StructType, and tells what it lacks."""

    name = "json"

    def __init__(self, schema: Schema, options: Options = ()) -> None:
        self.schema = arrow_schema(schema.text)
        self._of, self._options = schema, options
        self._decoder = JsonDecoder(self.schema)
        self._full = leaves(self.schema) >= MAX_LEAVES

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """All payloads (no nulls) as rows; what no column takes as JSON text beside them; the broken ones as failures."""
        refuse_decoding(self._options)
        decoded = self._decoder.decode(payloads)
        # Nothing would come of asking for more columns than a table can hold.
        return replace(decoded, beyond=np.zeros(0, np.int64)) if self._full else decoded

    def grown(self, payloads: pa.BinaryArray, most: int | None = None) -> Schema:
        """The schema with what these payloads have beyond it, new fields last; broken payloads add nothing.

        With `most` it grows to no more fields: payloads that would lead beyond add nothing, those with many new ones first.
        """
        record = pa.struct(list(self.schema))
        found = dict.fromkeys(beyond_record(record, payload.as_py()) for payload in payloads)
        more = merged_all(found if most is None else within(record, found, most))
        if pa.types.is_null(more):
            return self._of
        fields = Growth(self.schema).grown(list(self.schema), more)
        return replace(self._of, text=struct_json(pa.schema(fields)))

    def column(self, payload: SparkColumn, mode: Mode = "FAILFAST") -> SparkColumn:
        """A Spark expression giving the same columns as one struct, by Spark's `from_json`.

        A payload that is broken, or has a value that does not fit, fails the query, or with PERMISSIVE makes the
        struct null. Fields that the schema lacks are dropped: only `decode` rescues them.
        """
        # Not at the top: workers decode without ever loading what the driver's side of PySpark needs.
        from distributary.codecs.json.spark import spark_column  # noqa: PLC0415

        return spark_column(payload, self.schema, mode, self._options)


class JsonCodec(Codec):
    """JSON without any header; by `options` Spark's `from_json` reads, and nothing else does."""

    registered = False

    def __init__(self, options: Options = ()) -> None:
        self._options = options

    @property
    def capabilities(self) -> Capabilities:
        """Schemas that are inferred and grow, several of them read at once, and the options of Spark's `from_json`."""
        return Capabilities(growing=self.growing, joint=self.joint, as_spark=self.as_spark)

    @property
    def growing(self) -> Growing:
        """What is done with records, none of which names a schema."""
        return Growing(
            names_no_schema=self.names_no_schema,
            merged=self.merged,
            reader=lambda schema: self.reader(schema, ()),
            survey=self.survey,
            picked=self.picked,
            fits=self.fits,
        )

    def as_spark(self, options: Mapping[str, str]) -> JsonCodec:
        """The same codec, whose records Spark's `from_json` reads by these options. Raises ConfigError."""
        return JsonCodec(json_options(options))

    def split(self, values: pa.BinaryArray, header_ids: pa.BinaryArray | None) -> Frames:
        """Every value that is there names the schema that was inferred, and is its own body."""
        there = values.is_valid().to_numpy(zero_copy_only=False)
        kind = np.where(there, 0, TOMBSTONE).astype(np.int32)
        return Frames(kind, [(INFERRED, ())] if there.any() else [], np.zeros(len(values), np.int64), [])

    def names_no_schema(self, value: SparkColumn) -> SparkColumn:
        """All that are there are records of an inferred schema."""
        return value.isNotNull()

    def picked(self, payloads: pa.BinaryArray, path: Sequence[str]) -> pa.StringArray:
        """What each payload has at this path of names, as text; null for none, an object, a list, or what is no JSON."""
        return picked(payloads, path)

    def fits(self, schema: Schema) -> bool:
        """Whether a schema has no more columns than it may grow to."""
        return leaves(arrow_schema(schema.text)) <= MAX_LEAVES

    def survey(self, known: Schema) -> JsonSurvey:
        """A look at records, some of whose fields have the types of this schema whatever they hold."""
        return JsonSurvey(arrow_schema(known.text))

    def reader(self, schema: Schema, path: RecordPath) -> JsonReader:
        """The reader for records of an inferred schema. Raises BadSchema."""
        return _reader(schema.id, schema.text, self._options)

    def joint(self) -> JointReader:
        """A reader for records of several inferred schemas, of which it knows none yet."""
        return JointReader()

    def merged(self, schemas: Sequence[Schema]) -> Schema:
        """One schema that takes what each of these takes; the first one's fields stay where they are."""
        first, *others = schemas
        before = arrow_schema(first.text)
        fields = list(before)
        for other in others:
            fields = merged_fields(fields, list(arrow_schema(other.text)))
        after = pa.schema(fields)
        # The text stays to the letter where nothing is new: it says whether there is a new version.
        return first if after == before else replace(first, text=struct_json(after))


@lru_cache(maxsize=MAX_READERS)
def _reader(id_: int, text: str, options: Options) -> JsonReader:
    return JsonReader(Schema(id_, "STRUCT", text), options)


# Numbers keep the text that they are written with: 1e3 and 1000 are two values of a routing field.
_READER = json.JSONDecoder(parse_float=str, parse_int=str)


def picked(payloads: pa.BinaryArray, path: Sequence[str]) -> pa.StringArray:
    """What each payload has at this path of names, as text; null for none, an object, a list, or what is no JSON."""
    return pa.array([_picked(payload, path) for payload in payloads.to_pylist()], pa.string())


def _picked(payload: bytes, path: Sequence[str]) -> str | None:
    try:
        value: Any = _READER.decode(payload.decode())
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return _text(value)
    except (ValueError, RecursionError):
        return None


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return None
    # Half of a surrogate pair is no text. Raises UnicodeEncodeError, a ValueError.
    value.encode()
    return value
