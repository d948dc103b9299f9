"""The registered formats as the serializers of the AWS Glue Schema Registry write them: another header, and compression."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from distributary.codecs.avro.codec import AvroCodec
from distributary.codecs.base import Capabilities, Codec, RecordPath, RecordReader
from distributary.codecs.changes.description import RecordDescription
from distributary.codecs.glue.numbered import record_path
from distributary.codecs.jsonschema.codec import JsonSchemaCodec
from distributary.codecs.protobuf.codec import ProtobufCodec
from distributary.codecs.wire import glue as wire_glue
from distributary.codecs.wire.header import Frames
from distributary.registry.base import Schema


class GlueCodec(Codec):
    """A format's codec for records whose header and compression are Glue's; what a body means is as anywhere."""

    def __init__(self, inner: Codec) -> None:
        self._inner = inner
        self.default_path = inner.default_path

    @property
    def capabilities(self) -> Capabilities:
        """What the format's codec does, but for Spark's functions, which know no compression."""
        of = self._inner.capabilities
        validating = of.validating
        held = None if validating is None else lambda: GlueCodec(validating())
        return replace(of, validating=held, as_spark=None)

    def split(self, values: pa.BinaryArray, header_ids: pa.BinaryArray | None) -> Frames:
        """Each value's schema version and where its body starts; Glue's serializers write no record headers."""
        return wire_glue.split(values, message_index=False)

    def reader(self, schema: Schema, path: RecordPath) -> RecordReader:
        """The format's reader. Raises BadSchema."""
        return self._inner.reader(schema, path)

    def description(self, schema: Schema, path: RecordPath) -> RecordDescription:
        """What the format's codec says of one record type. Raises BadSchema."""
        return self._inner.description(schema, path)


class GlueProtobufCodec(GlueCodec):
    """Protobuf as Glue's serializers write it: a path is the number of a message in the order of their names.

    The path of a schema that no record has named yet is empty: its first message.
    """

    def __init__(self) -> None:
        super().__init__(ProtobufCodec())
        self.default_path = ()

    def split(self, values: pa.BinaryArray, header_ids: pa.BinaryArray | None) -> Frames:
        """Each value's schema version, the number of its message, and where its body starts."""
        return wire_glue.split(values, message_index=True)

    def reader(self, schema: Schema, path: RecordPath) -> RecordReader:
        """The reader for the message of this number. Raises BadSchema."""
        return super().reader(schema, record_path(schema, path))

    def description(self, schema: Schema, path: RecordPath) -> RecordDescription:
        """What a schema says of the message of this number. Raises BadSchema."""
        return super().description(schema, record_path(schema, path))


def avro() -> GlueCodec:
    """Avro in Glue's wire format."""
    return GlueCodec(AvroCodec())


def json_schema() -> GlueCodec:
    """JSON with a JSON Schema, in Glue's wire format."""
    return GlueCodec(JsonSchemaCodec())
