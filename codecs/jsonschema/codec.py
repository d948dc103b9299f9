"""The JSON Schema codec: Confluent's third type. A header that names the schema, and a JSON object behind it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from distributary.codecs.base import Capabilities, Codec, Decoded, Mode, RecordPath, RecordReader
from distributary.codecs.changes.description import RecordDescription
from distributary.codecs.json.decode import JsonDecoder
from distributary.codecs.json.options import Options, json_options, refuse_decoding
from distributary.codecs.jsonschema.columns import columns_of, described
from distributary.codecs.jsonschema.demands import demands
from distributary.codecs.jsonschema.validation import Validator
from distributary.codecs.wire import header as wire_header
from distributary.codecs.wire.header import Frames
from distributary.registry.base import Schema

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

MAX_READERS = 256

Imports = tuple[tuple[str, str], ...]


class JsonSchemaReader(RecordReader):
    """Decodes records of one JSON Schema. Made by `JsonSchemaCodec.reader`."""

    def __init__(self, text: str, imports: Imports, validate: bool, options: Options) -> None:
        self.name, self.schema = columns_of(text, dict(imports))
        self._decoder = JsonDecoder(self.schema)
        self._validator = Validator(text, dict(imports)) if validate else None
        self._of, self._options = (text, imports), options

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """All payloads (bodies without header, no nulls) as rows; what no column takes as JSON text beside them."""
        refuse_decoding(self._options)
        decoded = self._decoder.decode(payloads)
        return decoded if self._validator is None else self._validator.checked(decoded, payloads)

    def decodes_like(self, other: RecordReader) -> bool:
        """Whether the two schemas have the same columns and, where records are held to all of a schema, demand the same of them."""
        if not isinstance(other, JsonSchemaReader) or not super().decodes_like(other):
            return False
        return self._validator is None or self._demands() == other._demands()

    def _demands(self) -> str:
        text, imports = self._of
        return demands(text, dict(imports))

    def column(self, payload: SparkColumn, mode: Mode = "FAILFAST") -> SparkColumn:
        """A Spark expression giving the same columns as one struct, by Spark's `from_json`.

        A payload that is broken, or has a value that does not fit, fails the query, or with PERMISSIVE makes the
        struct null. Properties that the schema lacks are dropped: only `decode` rescues them.
        """
        # Not at the top: workers decode without ever loading what the driver's side of PySpark needs.
        from distributary.codecs.json.spark import spark_column  # noqa: PLC0415

        return spark_column(payload, self.schema, mode, self._options)


class JsonSchemaCodec(Codec):
    """JSON in the Confluent wire format, with a JSON Schema.

    `validate` holds each record to all of it, at a cost; by `options` Spark's `from_json` reads, and nothing else does.
    """

    def __init__(self, validate: bool = False, options: Options = ()) -> None:
        self._validate, self._options = validate, options

    @property
    def capabilities(self) -> Capabilities:
        """Schemas that demand more of records than types, and the options of Spark's `from_json`."""
        return Capabilities(validating=self.validating, as_spark=self.as_spark)

    def validating(self) -> JsonSchemaCodec:
        """The same codec, whose readers refuse records that do not meet all of their schema."""
        return JsonSchemaCodec(validate=True, options=self._options)

    def as_spark(self, options: Mapping[str, str]) -> JsonSchemaCodec:
        """The same codec, whose records Spark's `from_json` reads by these options. Raises ConfigError."""
        return JsonSchemaCodec(self._validate, json_options(options))

    def split(self, values: pa.BinaryArray, header_ids: pa.BinaryArray | None) -> Frames:
        """Each value's schema reference and where its body starts."""
        return wire_header.split(values, header_ids, message_index=False)

    def reader(self, schema: Schema, path: RecordPath) -> JsonSchemaReader:
        """The reader for records of a schema. Raises BadSchema."""
        return _reader(schema.text, tuple(sorted(schema.imports.items())), self._validate, self._options)

    def description(self, schema: Schema, path: RecordPath) -> RecordDescription:
        """What a schema says of its records. Raises BadSchema."""
        return described(schema.text, schema.imports)


@lru_cache(maxsize=MAX_READERS)
def _reader(text: str, imports: Imports, validate: bool, options: Options) -> JsonSchemaReader:
    return JsonSchemaReader(text, imports, validate, options)
