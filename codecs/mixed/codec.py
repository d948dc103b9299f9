"""Topics of mixed formats: each record decoded by the codec of its own schema's type, which the registry tells.

Beside them there may be raw JSON, told by its first byte: its schema is inferred.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.codecs.base import (
    CODECS,
    INFERRED,
    Capabilities,
    Codec,
    RecordPath,
    RecordReader,
    load_codec,
)
from distributary.codecs.changes.description import RecordDescription
from distributary.codecs.json.codec import JsonCodec
from distributary.codecs.types.masks import Mask
from distributary.codecs.wire import header as wire_header
from distributary.codecs.wire.binary_rows import (
    BinaryRows,
)
from distributary.codecs.wire.header import Frames, Kind
from distributary.errors import BadSchema
from distributary.registry.base import Schema, SchemaRef, SchemaType

if TYPE_CHECKING:
    from pyspark.sql import Column

# What JSON text of an object or a list begins with, white space before it included (RFC 8259, section 2); no wire
# header begins so. A number, a word or a string by itself is no record, and counts as a header that nobody knows.
RAW_JSON = b"{[ \t\n\r"

_RAW_JSON = np.frombuffer(RAW_JSON, np.uint8)


class AutoCodec(Codec):
    """Any format in the Confluent wire format, and raw JSON.

    Only Protobuf has a message index behind its header, so that the types of schemas must be known to split it off:
    what a record of an unknown schema is asked for is the schema alone; its message is asked for once the type is known.
    """

    takes_any_format = True

    def __init__(self, types: Mapping[SchemaRef, SchemaType] | None = None, validate: bool = False) -> None:
        """`types` are those of the schemas that are known."""
        self._types, self._validate = dict(types or {}), validate
        self._json = JsonCodec()

    @property
    def capabilities(self) -> Capabilities:
        """What raw JSON can, and for registered schemas what the codecs of their types can."""
        return Capabilities(
            growing=replace(self._json.growing, names_no_schema=self.names_no_schema),
            joint=self._json.joint,
            resolving=self.resolving,
            validating=self.validating,
        )

    def knowing(self, types: Mapping[SchemaRef, SchemaType]) -> AutoCodec:
        """The same codec where the types of these schemas are known."""
        return AutoCodec({**self._types, **types}, self._validate)

    def validating(self) -> AutoCodec:
        """The same codec, whose readers refuse records that do not meet all of a schema that says more than types."""
        return AutoCodec(self._types, validate=True)

    def split(self, values: pa.BinaryArray, header_ids: pa.BinaryArray | None) -> Frames:
        """Each value's schema reference, message path if its schema is Protobuf's, and where its body starts.

        What has no header and begins like JSON names the schema that was inferred, and is its own body.
        """
        frames = wire_header.split(values, header_ids, message_index=False)
        frames = _with_raw_json(frames, _raw_json(values, header_ids))
        with_index = [n for n, (ref, _) in enumerate(frames.kinds) if self._types.get(ref) == "PROTOBUF"]
        rows = np.flatnonzero(np.isin(frames.kind, with_index))
        if not len(rows):
            return frames
        places = pa.array(rows)
        some = None if header_ids is None else header_ids.take(places)
        return _replaced(frames, rows, wire_header.split(values.take(places), some, message_index=True))

    def names_no_schema(self, value: Column) -> Column:
        """Whether a value without a schema in its headers begins like JSON."""
        # Not at the top: workers decode without ever loading what the driver's side of PySpark needs.
        from pyspark.sql import functions as F  # noqa: PLC0415

        return F.substring(value, 1, 1).isin([RAW_JSON[n : n + 1] for n in range(len(RAW_JSON))])

    def reader(self, schema: Schema, path: RecordPath) -> RecordReader:
        """The reader of the codec for this schema's type. Raises BadSchema."""
        codec = self.codec_for(schema)
        return codec.reader(schema, path or codec.default_path)

    def codec_for(self, schema: Schema) -> Codec:
        """The codec for this schema's type. Raises BadSchema where there is none."""
        if schema.inferred:
            return self._json
        if schema.type not in CODECS:
            raise BadSchema(f"no codec here decodes schemas of type {schema.type}; set decode.format")
        codec = load_codec(CODECS[schema.type])
        validating = codec.capabilities.validating
        return validating() if self._validate and validating is not None else codec

    def resolving(self, writer: Schema, reader: Schema, recursion: int = 0) -> RecordReader:
        """The reader for records of the one schema whose columns are the other's, where both are of a format with rules for it.

        Otherwise the reader for records of the first schema. Raises BadSchema.
        """
        codec = self.codec_for(writer)
        resolving = codec.capabilities.resolving
        if writer.type == reader.type and resolving is not None:
            return resolving(writer, reader, recursion)
        return codec.reader(writer, codec.default_path)

    def description(self, schema: Schema, path: RecordPath) -> RecordDescription:
        """What the codec for this schema's type says of a record type. Raises BadSchema."""
        codec = self.codec_for(schema)
        return codec.description(schema, path or codec.default_path)


def _raw_json(values: pa.BinaryArray, header_ids: pa.BinaryArray | None) -> Mask:
    """Which values have no header, neither their own nor beside them, and begin like JSON."""
    view = BinaryRows.of(values)
    first = (view.leading_words() >> np.uint64(56)).astype(np.uint8)
    found: Mask = np.isin(first, _RAW_JSON) & view.valid & (view.end > view.begin)
    if header_ids is not None and header_ids.null_count < len(header_ids):
        found &= header_ids.is_null().to_numpy(zero_copy_only=False)
    return found


def _with_raw_json(frames: Frames, raw: Mask) -> Frames:
    """The frames with these values as records of the inferred schema instead of the errors that they were."""
    if not raw.any():
        return frames
    kind = np.where(raw, np.int32(len(frames.kinds)), frames.kind)
    errors = [error for error in frames.errors if not raw[error[0]]]
    start = np.where(raw, 0, frames.start)
    return replace(frames, kind=kind, kinds=[*frames.kinds, (INFERRED, ())], start=start, errors=errors)


def _replaced(frames: Frames, rows: npt.NDArray[np.int64], found: Frames) -> Frames:
    """The frames with those of these rows replaced; `found` numbers its rows and kinds for itself."""
    kinds: Sequence[Kind] = [*frames.kinds, *found.kinds]
    kind, start = frames.kind.copy(), frames.start.copy()
    kind[rows] = np.where(found.kind >= 0, found.kind + len(frames.kinds), found.kind)
    start[rows] = found.start
    errors = [(int(rows[row]), reason, detail) for row, reason, detail in found.errors]
    return Frames(kind.astype(np.int32), kinds, start, sorted([*frames.errors, *errors]))
