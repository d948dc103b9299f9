"""Records of Debezium in any format: decoded by the format's codec, and taken out of the envelope that they stand in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from distributary.codecs.base import (
    Capabilities,
    Codec,
    Enveloped,
    Growing,
    GrowingReader,
    RecordPath,
    RecordReader,
    Survey,
)
from distributary.codecs.changes.description import FieldDescription, RecordDescription, described_columns
from distributary.codecs.envelope.columns import ColumnsReader
from distributary.codecs.envelope.said import RESERVED, named
from distributary.codecs.envelope.text import TextReader, open_all, opened_row
from distributary.codecs.envelope.untaken import AFTER
from distributary.codecs.wire.header import Frames
from distributary.registry.base import Schema, SchemaRef, SchemaType


class DebeziumCodec(Codec):
    """The codec of a format whose records stand in Debezium's envelope.

    A schema that somebody registered is the envelope's, and columns are taken out of it. One that is inferred is that of
    the rows alone: their JSON text is cut out of the envelope's before anybody looks at it.
    """

    def __init__(self, inner: Codec, enveloped: Enveloped) -> None:
        self._inner, self._enveloped = inner, enveloped
        self.registered, self.default_path = inner.registered, inner.default_path
        self.takes_any_format = inner.takes_any_format

    @property
    def capabilities(self) -> Capabilities:
        """What the format's codec does of inferring and of validating, within the envelope."""
        of = self._inner.capabilities
        validating, growing = of.validating, of.growing
        return Capabilities(
            growing=None if growing is None else self._growing(growing),
            validating=None if validating is None else lambda: DebeziumCodec(validating(), self._enveloped),
        )

    def split(self, values: pa.BinaryArray, header_ids: pa.BinaryArray | None) -> Frames:
        """As the format's records say."""
        return self._inner.split(values, header_ids)

    def reader(self, schema: Schema, path: RecordPath) -> RecordReader:
        """The reader for envelopes of a schema, or for rows of an inferred one. Raises BadSchema."""
        inner = self._inner.reader(schema, path)
        if schema.inferred and isinstance(inner, GrowingReader):
            return TextReader(inner, self._enveloped)
        return ColumnsReader(inner, self._enveloped)

    def description(self, schema: Schema, path: RecordPath) -> RecordDescription:
        """What a schema says of the rows in its envelopes. Raises BadSchema."""
        reader, whole = self.reader(schema, path), self._inner.description(schema, path)
        ours = described_columns(pa.schema([field for field in reader.schema if field.name in RESERVED]))
        if isinstance(reader, TextReader):
            return replace(whole, fields=(*whole.fields, *ours))
        after = next((field for field in whole.fields if field.name == AFTER), None)
        if after is None or not reader.schema.names:
            return replace(whole, fields=())
        return replace(
            whole,
            fields=(*_rows_fields(after), *ours),
            reserved_numbers=after.type.reserved_numbers,
            reserved_names=after.type.reserved_names,
        )

    def knowing(self, types: Mapping[SchemaRef, SchemaType]) -> DebeziumCodec:
        """The same codec where the types of these schemas are known."""
        return DebeziumCodec(self._inner.knowing(types), self._enveloped)

    def _growing(self, growing: Growing) -> Growing:
        return Growing(
            names_no_schema=growing.names_no_schema,
            merged=growing.merged,
            reader=lambda schema: TextReader(growing.reader(schema), self._enveloped),
            survey=None if growing.survey is None else partial(_survey, growing.survey),
            picked=None if growing.picked is None else partial(_picked, growing.picked),
            fits=growing.fits,
        )


def _rows_fields(after: FieldDescription) -> tuple[FieldDescription, ...]:
    return after.type.fields or (after,)


def _survey(of: Callable[[Schema], Survey], known: Schema) -> Survey:
    return _RowSurvey(of(known))


class _RowSurvey:
    """A look at records of which the rows alone are of interest."""

    def __init__(self, inner: Survey) -> None:
        self._inner = inner
        self.fields = 0

    def take(self, payload: bytes) -> str | None:
        """A row's text for Spark; None for what is none."""
        row = opened_row(payload)
        text = None if row is None else self._inner.take(row)
        self.fields = self._inner.fields
        return text


def _picked(
    of: Callable[[pa.BinaryArray, Sequence[str]], pa.StringArray],
    payloads: pa.BinaryArray,
    path: Sequence[str],
) -> pa.StringArray:
    """A field of each payload's row, or of what its envelope says, without any schema."""
    opened = open_all(payloads, skips=False)
    own = named(opened.said, path[0]) if len(path) == 1 else None
    found = of(opened.rows, path) if own is None else own.cast(pa.string())
    values: list[str | None] = [None] * len(payloads)
    for number, value in zip(opened.numbers.tolist(), found.to_pylist(), strict=True):
        values[number] = value
    return pa.array(values, pa.string())
