"""Topics of mixed formats: each record decoded by the codec of its own schema's type, which the registry tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from distributary.codecs import wire_header
from distributary.codecs.base import Codec, RecordPath, RecordReader, load_codec
from distributary.codecs.describe import describe
from distributary.codecs.schema_description import RecordDescription
from distributary.codecs.wire_header import Frames, Kind
from distributary.errors import BadSchema
from distributary.registry.base import Schema, SchemaRef, SchemaType

CODECS: Mapping[SchemaType, str] = {"PROTOBUF": "protobuf", "AVRO": "avro", "JSON": "jsonschema"}


class AutoCodec:
    """Any format in the Confluent wire format.

    Only Protobuf has a message index behind its header, so that the types of schemas must be known to split it off:
    what a record of an unknown schema is asked for is the schema alone; its message is asked for once the type is known.
    """

    registered = True
    default_path: RecordPath = ()

    def __init__(self, types: Mapping[SchemaRef, SchemaType] | None = None) -> None:
        """`types` are those of the schemas that are known."""
        self._types = dict(types or {})

    def knowing(self, types: Mapping[SchemaRef, SchemaType]) -> AutoCodec:
        """The same codec where the types of these schemas are known."""
        return AutoCodec({**self._types, **types})

    def split(self, values: pa.BinaryArray, header_ids: pa.BinaryArray | None) -> Frames:
        """Each value's schema reference, message path if its schema is Protobuf's, and where its body starts."""
        frames = wire_header.split(values, header_ids, message_index=False)
        with_index = [n for n, (ref, _) in enumerate(frames.kinds) if self._types.get(ref) == "PROTOBUF"]
        rows = np.flatnonzero(np.isin(frames.kind, with_index))
        if not len(rows):
            return frames
        places = pa.array(rows)
        some = None if header_ids is None else header_ids.take(places)
        return _replaced(frames, rows, wire_header.split(values.take(places), some, message_index=True))

    def reader(self, schema: Schema, path: RecordPath) -> RecordReader:
        """The reader of the codec for this schema's type. Raises BadSchema."""
        codec = self._codec(schema)
        return codec.reader(schema, path or codec.default_path)

    def description(self, schema: Schema, path: RecordPath) -> RecordDescription:
        """What the codec for this schema's type says of a record type. Raises BadSchema."""
        codec = self._codec(schema)
        return describe(codec, schema, path or codec.default_path)

    @staticmethod
    def _codec(schema: Schema) -> Codec:
        if schema.type not in CODECS:
            raise BadSchema(f"schemas of type {schema.type} are not in any registry; set decode.format")
        return load_codec(CODECS[schema.type])


def _replaced(frames: Frames, rows: np.ndarray[tuple[int], np.dtype[np.int64]], found: Frames) -> Frames:
    """The frames with those of these rows replaced; `found` numbers its rows and kinds for itself."""
    kinds: Sequence[Kind] = [*frames.kinds, *found.kinds]
    kind, start = frames.kind.copy(), frames.start.copy()
    kind[rows] = np.where(found.kind >= 0, found.kind + len(frames.kinds), found.kind)
    start[rows] = found.start
    errors = [(int(rows[row]), reason, detail) for row, reason, detail in found.errors]
    return Frames(kind.astype(np.int32), kinds, start, sorted([*frames.errors, *errors]))
