"""Records of one schema read as another's: decoded as they were written, then brought into the reader's columns."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from distributary.codecs.avro.decode.exact import ExactDecoder
from distributary.codecs.avro.decode.fast import ArrowDecoder, can_read
from distributary.codecs.avro.resolution.arrow import resolved
from distributary.codecs.avro.resolution.schema_pair import resolve
from distributary.codecs.avro.resolution.steps import Keep, Resolution
from distributary.codecs.avro.types.columns import Column, Shape, columns_of, only_column, schema_of
from distributary.codecs.avro.types.schema import AvroType, Kind, parse_schema
from distributary.codecs.avro.types.union_members import named_by_type
from distributary.codecs.avro.types.unroll import unrolled
from distributary.codecs.base import Decoded, Mode, RecordReader
from distributary.codecs.broken_payloads import decode_each
from distributary.codecs.types.row_shape import empty_rows
from distributary.errors import DecoderUnavailable
from distributary.registry.base import Schema

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

# As many as there are readers of one schema; see avro/codec.py.
MAX_READERS = 256

# What decides about a schema's reader: its text and its imports.
_Key: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]


class ResolvingReader(RecordReader):
    """Decodes records of a writer's schema into the columns of a reader's. Made by `resolving_reader`."""

    def __init__(self, writer: Schema, reader: Schema, recursion: int, prefix: str | None) -> None:
        written = parse_schema(writer.text, dict(writer.imports))
        read = parse_schema(reader.text, dict(reader.imports))
        if recursion:
            read = unrolled(read, recursion)
        columns = columns_of(read) if prefix is None else named_by_type(columns_of(read), prefix)
        self.name = read.name or read.kind.value
        self.schema = schema_of(columns)
        self._resolution = _resolution(written, columns)
        self.is_record = self._resolution.is_record
        view = self._resolution.view
        self._exact = ExactDecoder(view)
        self._fast = ArrowDecoder(view) if can_read(view) else None

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """All payloads (bodies without any header, no nulls) as rows; those that cannot be the reader's as failures."""
        return decode_each(payloads, self._together, self._alone, empty_rows(self.schema, 0))

    def column(self, payload: SparkColumn, mode: Mode = "FAILFAST") -> SparkColumn:
        """A Spark expression giving the same columns as one struct, by Spark's `from_avro`, as `AvroReader.column` does.

        Raises DecoderUnavailable as that does, and where the writer's columns are not the reader's: Avro's Java library, which
        Spark would ask, takes milliseconds for microseconds, and tells enums apart by namespaces.
        """
        if not isinstance(self._resolution.step, Keep):
            raise DecoderUnavailable(
                f"{self.name}: records of one schema are not read as another's by Spark's from_avro, which would misread some; "
                "use the native decoder (in notebooks distributary.engine: python, or no engine at all)"
            )
        # Not at the top: workers decode without ever loading what the driver's side of PySpark needs.
        from distributary.codecs.avro.spark import spark_column  # noqa: PLC0415

        return spark_column(payload, self.name, self._resolution.view, mode)

    def _together(self, payloads: pa.BinaryArray) -> pa.RecordBatch:
        return self._resolved((self._fast or self._exact).batch(payloads))

    def _alone(self, payload: bytes) -> pa.RecordBatch:
        return self._resolved(self._exact.one(payload))

    def _resolved(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        whole = rows.to_struct_array() if self._resolution.is_struct else rows.column(0)
        found = resolved(self._resolution.step, whole, np.ones(len(whole), np.bool_))
        if not self._resolution.is_record:
            return pa.RecordBatch.from_arrays([found], schema=self.schema)
        # Made of no arrays a batch would have no rows.
        if not len(self.schema):
            return pa.RecordBatch.from_struct_array(found)
        return pa.RecordBatch.from_arrays(found.flatten(), schema=self.schema)


def _resolution(written: AvroType, columns: Column) -> Resolution:
    is_record = columns.avro.kind is Kind.RECORD
    step = resolve(written, columns if is_record else columns.children[0])
    # What is no record, or none with a field that takes a byte, is the only column of what is read.
    is_struct = written.kind is Kind.RECORD and step.column.shape is Shape.STRUCT
    return Resolution(step.column if is_struct else only_column(step.column), step, is_struct, is_record)


def resolving_reader(
    writer: Schema, reader: Schema, recursion: int = 0, prefix: str | None = None
) -> ResolvingReader:
    """The reader for records written with the one schema whose columns are the other's, by Avro's rules.

    `recursion` says how many times a record that can contain itself is columns within itself; with 0 it is JSON text;
    `prefix` what the names of wide unions' members begin with where they are called by type (avro/types/union_members.py). Raises
    BadSchema, naming the place, where no record of the one can be one of the other.
    """
    return _reader(_key(writer), _key(reader), recursion, prefix)


def _key(schema: Schema) -> _Key:
    return schema.text, tuple(schema.imports.items())


@lru_cache(maxsize=MAX_READERS)
def _reader(writer: _Key, reader: _Key, recursion: int, prefix: str | None) -> ResolvingReader:
    return ResolvingReader(_schema(writer), _schema(reader), recursion, prefix)


def _schema(key: _Key) -> Schema:
    text, imports = key
    return Schema(0, "AVRO", text, imports=dict(imports))
