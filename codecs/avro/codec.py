"""The Avro codec: schemas understood at run time, records decoded to Arrow, or by Spark's `from_avro`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from distributary.codecs.avro.decode.exact import ExactDecoder
from distributary.codecs.avro.decode.fast import ArrowDecoder, can_read
from distributary.codecs.avro.resolution.matching import same
from distributary.codecs.avro.resolution.reader import resolving_reader
from distributary.codecs.avro.types.columns import columns_of, schema_of
from distributary.codecs.avro.types.description import described
from distributary.codecs.avro.types.schema import Kind, parse_schema
from distributary.codecs.avro.types.union_members import named_by_type, union_prefix
from distributary.codecs.base import Capabilities, Codec, Decoded, Mode, RecordPath, RecordReader
from distributary.codecs.broken_payloads import decode_each
from distributary.codecs.changes.description import RecordDescription
from distributary.codecs.wire import header as wire_header
from distributary.codecs.wire.header import Frames
from distributary.errors import BadSchema
from distributary.registry.base import Schema

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

# Readers hold compiled types; a process meets few schemas, but nothing bounds how many it could meet.
MAX_READERS = 256


class AvroReader(RecordReader):
    """Decodes records of one writer schema. Made by `AvroCodec.reader`."""

    def __init__(self, text: str, imports: tuple[tuple[str, str], ...], prefix: str | None = None) -> None:
        top = parse_schema(text, dict(imports))
        self._columns = columns_of(top) if prefix is None else named_by_type(columns_of(top), prefix)
        self._top = top
        self.name = top.name or top.kind.value
        self.schema = schema_of(self._columns)
        self.is_record = top.kind is Kind.RECORD
        self._exact = ExactDecoder(self._columns)
        self._fast = ArrowDecoder(self._columns) if can_read(self._columns) else None

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """All payloads (bodies without any header, no nulls) as rows; the broken ones as failures."""
        together = self._exact.batch if self._fast is None else self._fast.batch
        return decode_each(payloads, together, self._exact.one, pa.RecordBatch.from_pylist([], self.schema))

    def decodes_like(self, other: RecordReader) -> bool:
        """Whether the two schemas are one, but for words, aliases and defaults."""
        return isinstance(other, AvroReader) and super().decodes_like(other) and same(self._top, other._top)

    def column(self, payload: SparkColumn, mode: Mode = "FAILFAST") -> SparkColumn:
        """A Spark expression giving the same columns as one struct, by Spark's `from_avro`.

        A broken payload fails the query, or with PERMISSIVE makes the struct null. Raises DecoderUnavailable
        without spark-avro on the class path, and for schemas that can contain themselves.
        """
        # Not at the top: workers decode without ever loading what the driver's side of PySpark needs.
        from distributary.codecs.avro.spark import spark_column  # noqa: PLC0415

        return spark_column(payload, self.name, self._columns, mode)


class AvroCodec(Codec):
    """Avro in the Confluent wire format; `prefix` begins the names of wide unions' members where they are called by type."""

    def __init__(self, prefix: str | None = None) -> None:
        self._prefix = prefix

    @property
    def capabilities(self) -> Capabilities:
        """Avro's own rules for reading one schema as another, and the options of Spark's `from_avro`."""
        return Capabilities(resolving=self.resolving, as_spark=self.as_spark)

    def as_spark(self, options: Mapping[str, str]) -> AvroCodec:
        """The same codec, with the columns and values of Spark's `from_avro` with these options. Raises ConfigError."""
        return AvroCodec(union_prefix(options))

    def split(self, values: pa.BinaryArray, header_ids: pa.BinaryArray | None) -> Frames:
        """Each value's schema reference and where its body starts; every path is ()."""
        return wire_header.split(values, header_ids, message_index=False)

    def reader(self, schema: Schema, path: RecordPath) -> AvroReader:
        """The reader for records written with this schema; its only path is (). Raises BadSchema."""
        _check_path(path)
        return _reader(schema.text, tuple(schema.imports.items()), self._prefix)

    def resolving(self, writer: Schema, reader: Schema, recursion: int = 0) -> RecordReader:
        """The reader for records of the one schema whose columns are the other's: see avro/resolution/reader.py. Raises BadSchema."""
        return resolving_reader(writer, reader, recursion, self._prefix)

    def description(self, schema: Schema, path: RecordPath) -> RecordDescription:
        """What a schema says of its records. Raises BadSchema."""
        _check_path(path)
        top = parse_schema(schema.text, schema.imports)
        return described(top, columns_of(top))


def _check_path(path: RecordPath) -> None:
    if path:
        raise BadSchema(f"an Avro schema has one record type, but the header names the one at {list(path)}")


@lru_cache(maxsize=MAX_READERS)
def _reader(text: str, imports: tuple[tuple[str, str], ...], prefix: str | None) -> AvroReader:
    return AvroReader(text, imports, prefix)
