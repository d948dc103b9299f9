"""What a schema says of one of its record types, whatever its format: by its codec's own words, or by its columns."""

from __future__ import annotations

from distributary.codecs.base import Codec, DescribingCodec, RecordPath
from distributary.codecs.schema_description import RecordDescription, described_columns
from distributary.registry.base import Schema


def describe(codec: Codec, schema: Schema, path: RecordPath) -> RecordDescription:
    """One record type of a schema. A codec that does not describe its schemas has told all by its reader's columns.

    Raises BadSchema.
    """
    if isinstance(codec, DescribingCodec):
        return codec.description(schema, path)
    reader = codec.reader(schema, path)
    return RecordDescription(schema.type, reader.name, described_columns(reader.schema))
