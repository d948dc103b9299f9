"""The Protobuf codec: schemas compiled at run time, records decoded to Arrow, or by Spark's `from_protobuf`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

from distributary.codecs import reasons
from distributary.codecs.base import Capabilities, Codec, Decoded, Mode, RecordPath, RecordReader
from distributary.codecs.broken_payloads import decode_each, without
from distributary.codecs.changes.description import RecordDescription
from distributary.codecs.protobuf.columns import Column, Shape, columns_of, schema_of
from distributary.codecs.protobuf.description import described
from distributary.codecs.protobuf.exact import UpbDecoder
from distributary.codecs.protobuf.fast import ArrowDecoder
from distributary.codecs.protobuf.items import Items
from distributary.codecs.protobuf.json_text import JsonWriter
from distributary.codecs.protobuf.plain_type import has_groups, wire_message
from distributary.codecs.protobuf.spark_columns import ProtobufOptions, protobuf_options, spark_columns
from distributary.codecs.protobuf.unknown import UnknownFields
from distributary.codecs.protobuf.wire_form import wire_form
from distributary.codecs.wire import header as wire_header
from distributary.codecs.wire.header import Frames
from distributary.errors import BadSchema
from distributary.registry.base import Schema
from distributary.registry.protobuf.text import compile_text

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

# Readers hold compiled types; a process meets few schemas, but nothing bounds how many it could meet.
MAX_READERS = 256


class ProtobufReader(RecordReader):
    """Decodes records of one message type. Made by `ProtobufCodec.reader`."""

    def __init__(self, descriptors: bytes, path: RecordPath, options: ProtobufOptions | None = None) -> None:
        pool, file = _load(descriptors)
        message = _message_at(file, path)
        columns = columns_of(message) if options is None else spark_columns(message, options)
        numbers = options is not None and options.enums_as_ints
        json = {
            name: JsonWriter(pool.FindMessageTypeByName(name), pool, enum_numbers=numbers)
            for name in _json_types(columns)
        }
        self._message, self._file = message, file
        self.name = str(message.full_name)
        self.schema = schema_of(columns)
        self._empty = pa.RecordBatch.from_pylist([], self.schema)
        self._columns = columns
        self._zeros = options is None or options.emit_default_values
        self._exact = UpbDecoder(columns, json)
        self._unknown = UnknownFields(message)
        self._items = Items(columns) if columns else None
        # ptars loses groups without a word.
        slow = has_groups(columns) or not columns
        self._fast = None if slow else ArrowDecoder(columns, wire_message(columns, exact=False), json)

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """All payloads (bodies without any header, no nulls) as rows; the broken ones as failures."""
        large = None if self._items is None else self._items.too_many(payloads)
        if large is not None and len(large):
            return without(payloads, large, reasons.TOO_LARGE, self.decode)
        together = self._exact.batch if self._fast is None else self._fast.batch
        decoded = decode_each(payloads, together, self._exact.one, self._empty)
        return replace(decoded, unknown=self._unknown.sampled(payloads, decoded.source))

    def decodes_like(self, other: RecordReader) -> bool:
        """Whether the two messages have the same fields, by numbers too, and so has whatever is in them."""
        if not isinstance(other, ProtobufReader) or not super().decodes_like(other):
            return False
        return wire_form(self._message, self._file) == wire_form(other._message, other._file)

    def column(self, payload: SparkColumn, mode: Mode = "FAILFAST") -> SparkColumn:
        """A Spark expression giving the same columns as one struct, by Spark's `from_protobuf`.

        A broken payload fails the query, or with PERMISSIVE makes the struct null. Raises DecoderUnavailable
        without spark-protobuf on the class path, and for fields that become JSON text.
        """
        # Not at the top: workers decode without ever loading what the driver's side of PySpark needs.
        from distributary.codecs.protobuf.spark import spark_column  # noqa: PLC0415

        return spark_column(payload, self.name, self._columns, mode, zeros=self._zeros)


class ProtobufCodec(Codec):
    """Protobuf in the Confluent wire format, with schemas as .proto text or as descriptors.

    With `options` records have the columns and values that Spark's `from_protobuf` gives by them.
    """

    default_path = (0,)

    def __init__(self, options: ProtobufOptions | None = None) -> None:
        self._options = options

    @property
    def capabilities(self) -> Capabilities:
        """The options of Spark's `from_protobuf`."""
        return Capabilities(as_spark=self.as_spark)

    def as_spark(self, options: Mapping[str, str]) -> ProtobufCodec:
        """The same codec, with the columns and values of Spark's `from_protobuf` with these options. Raises ConfigError."""
        return ProtobufCodec(protobuf_options(options))

    def split(self, values: pa.BinaryArray, header_ids: pa.BinaryArray | None) -> Frames:
        """Each value's schema reference, message path and where its body starts."""
        return wire_header.split(values, header_ids, message_index=True)

    def reader(self, schema: Schema, path: RecordPath) -> ProtobufReader:
        """The reader for one message type of a schema, such as (0,) for the first. Raises BadSchema."""
        return _reader(schema.text, tuple(sorted(schema.imports.items())), tuple(path), self._options)

    def description(self, schema: Schema, path: RecordPath) -> RecordDescription:
        """What a schema says of one message type. Raises BadSchema."""
        _, file = _load(compile_text(schema.text, schema.imports))
        message = _message_at(file, path)
        return described(message, columns_of(message))


@lru_cache(maxsize=MAX_READERS)
def _reader(
    text: str, imports: tuple[tuple[str, str], ...], path: RecordPath, options: ProtobufOptions | None
) -> ProtobufReader:
    return ProtobufReader(compile_text(text, dict(imports)), path, options)


def _load(descriptors: bytes) -> tuple[DescriptorPool, FileDescriptor]:
    pool = DescriptorPool()
    files = FileDescriptorSet.FromString(descriptors).file
    for file in files:
        pool.Add(file)
    return pool, pool.FindFileByName(files[-1].name)


def _message_at(file: FileDescriptor, path: RecordPath) -> Descriptor:
    # Most producers count the entries of maps among a message's nested ones, as descriptors have them. Java's does not
    # where it goes by a schema's text (`use.latest.version`, `normalize.schemas`).
    found = _counted(file, path, entries=True) or _counted(file, path, entries=False)
    if found is not None:
        return found
    raise BadSchema(f"the schema has no message at index {list(path)}, which the record's header names")


def _counted(file: FileDescriptor, path: RecordPath, *, entries: bool) -> Descriptor | None:
    """The message at these places, counted with the entries of maps or without; None for no message, or such an entry."""
    found: Descriptor | None = None
    level = list(file.message_types_by_name.values())
    for index in path:
        if index >= len(level):
            return None
        found = level[index]
        level = [one for one in found.nested_types if entries or not one.GetOptions().map_entry]
    return None if found is None or found.GetOptions().map_entry else found


def _json_types(columns: tuple[Column, ...]) -> set[str]:
    return {name for column in columns for name in _json_types_of(column)}


def _json_types_of(column: Column) -> set[str]:
    return {column.wire.message} if column.shape is Shape.JSON else _json_types(column.children)
