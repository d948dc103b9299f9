"""Debezium's envelopes whose schema says what is in them: decoded whole, then taken apart column by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from distributary.codecs.base import Around, Decoded, Enveloped, RecordReader
from distributary.codecs.envelope.kinds import DELETE, is_envelope, other_kind, sorted_out
from distributary.codecs.envelope.said import BEFORE, RESERVED, SOURCE_FIELDS, Said, arrays, beside, fields
from distributary.codecs.envelope.untaken import AFTER, of_rows
from distributary.errors import BadSchema

_NO_ENVELOPE = (
    "its records are no envelopes of Debezium, which have `op`, `source` and `after`; leave `decode.envelope` out, "
    "or have a pipeline of its own read what comes without one"
)


class ColumnsReader(RecordReader):
    """Decodes envelopes of one schema."""

    def __init__(self, inner: RecordReader, enveloped: Enveloped) -> None:
        """Raises BadSchema where its records are none."""
        self.name = inner.name
        self._inner, self._keep, self._skips = inner, enveloped.keep, enveloped.truncate == "ignore"
        after = field_of(inner.schema, AFTER)
        before = field_of(inner.schema, BEFORE)
        self._row = [] if after is None else row_fields(after)
        own = fields(self._keep, None if before is None else before.type)
        self.schema = pa.schema([]) if after is None else pa.schema([*self._row, *own])

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """All payloads (no nulls) as rows: what is in `after`, or of a delete in `before`, and what the envelope says of it."""
        decoded = self._inner.decode(payloads)
        if not self.schema.names:
            return _none(decoded, other_kind(self._inner.schema.names) or "")
        said = _said(decoded.rows, self._keep)
        after = decoded.rows.column(AFTER)
        told = sorted_out(said.op, after.is_valid().to_numpy(zero_copy_only=False), self._skips)
        own = said.some(told.rows)
        rows = [*self._values(decoded.rows, told.rows, own), *arrays(own, self._keep)]
        refused = [replace(one, row=int(decoded.source[one.row])) for one in told.failures]
        kept = decoded.source[told.rows]
        # Of most batches there is none to look for.
        mine = set(kept.tolist()) if decoded.misfits else set()
        others = {reason: decoded.source[some] for reason, some in told.left_out.items() if len(some)}
        return replace(
            decoded,
            rows=pa.RecordBatch.from_arrays(rows, schema=self.schema),
            source=kept,
            failures=sorted([*decoded.failures, *refused], key=lambda one: one.row),
            rescued=self._rescued(decoded.rescued, told.rows, own),
            beyond=decoded.beyond[np.isin(decoded.beyond, kept)],
            misfits={row: path for row, path in decoded.misfits.items() if row in mine},
            around=Around(beside(own, self._keep), others),
        )

    def decodes_like(self, other: RecordReader) -> bool:
        """Whether the two envelopes are one as their format decodes them."""
        if not isinstance(other, ColumnsReader) or not super().decodes_like(other):
            return False
        return self._inner.decodes_like(other._inner)

    def _rescued(
        self, rescued: pa.StringArray | None, rows: npt.NDArray[np.int64], said: Said
    ) -> pa.StringArray | None:
        """What no column took of these envelopes' rows, by the names that the rows' fields have: rules of tables go by those."""
        if rescued is None or rescued.null_count == len(rescued):
            return None
        is_struct = kinds.is_struct(self._inner.schema.field(AFTER).type)
        texts = rescued.take(pa.array(rows))
        return of_rows(texts, _gone(said), is_struct=is_struct, keeps_before=BEFORE in self._keep)

    def _values(self, whole: pa.RecordBatch, rows: npt.NDArray[np.int64], said: Said) -> list[pa.Array]:
        """The columns of these envelopes' rows: of deletes what was there before."""
        after = _some(whole.column(AFTER), rows)
        gone = _gone(said)
        place = whole.schema.get_field_index(BEFORE)
        before = None if place < 0 or not gone.any() else _some(whole.column(place), rows)
        return [_chosen(_inside(after, field), before, field, gone) for field in self._row]


def field_of(columns: pa.Schema, name: str) -> pa.Field | None:
    """A field of an envelope's columns; None where records are none, and are left out. Raises BadSchema for anything else."""
    if not is_envelope(columns.names):
        if other_kind(columns.names) is None:
            raise BadSchema(_NO_ENVELOPE)
        return None
    if AFTER not in columns.names:
        raise BadSchema(_NO_ENVELOPE)
    return columns.field(name) if name in columns.names else None


def row_fields(after: pa.Field) -> list[pa.Field]:
    """The columns of a row; one of text where it is one, as MongoDB's documents are. Raises BadSchema for names that are ours."""
    if not kinds.is_struct(after.type):
        return [after]
    found = list(after.type)
    taken = sorted(field.name for field in found if field.name.lower() in RESERVED)
    if taken:
        raise BadSchema(
            f"its rows have fields called as what is made of the envelope: {', '.join(taken)}; rename them at the source"
        )
    return found


def _said(whole: pa.RecordBatch, keep: Sequence[str]) -> Said:
    source = whole.column("source")
    told = {
        name: _text(pc.struct_field(source, name))
        for name in SOURCE_FIELDS
        if kinds.is_struct(source.type) and source.type.get_field_index(name) >= 0
    }
    nothing = pa.nulls(whole.num_rows, pa.string())
    ts = _text(whole.column("ts_ms")) if "ts_ms" in whole.schema.names else nothing
    before = whole.column(BEFORE) if BEFORE in keep and BEFORE in whole.schema.names else None
    return Said(_text(whole.column("op")), ts, told, before)


def _gone(said: Said) -> npt.NDArray[np.bool_]:
    """Which envelopes say that their row is there no more."""
    found: npt.NDArray[np.bool_] = pc.equal(said.op, DELETE).to_numpy(zero_copy_only=False)
    return found


def _text(values: pa.Array) -> pa.StringArray:
    """Values as texts; none where they have parts."""
    return pa.nulls(len(values), pa.string()) if kinds.is_nested(values.type) else values.cast(pa.string())


def _some(values: pa.Array, rows: npt.NDArray[np.int64]) -> pa.Array:
    return values if len(rows) == len(values) else values.take(pa.array(rows))


def _inside(whole: pa.Array, field: pa.Field) -> pa.Array:
    """A field of a row; a row that is a text is its only one."""
    return pc.struct_field(whole, field.name) if kinds.is_struct(whole.type) else whole


def _chosen(
    after: pa.Array, before: pa.Array | None, field: pa.Field, gone: npt.NDArray[np.bool_]
) -> pa.Array:
    if before is None:
        return after
    if not kinds.is_struct(before.type):
        other = before if before.type == field.type else None
    else:
        place = before.type.get_field_index(field.name)
        other = _inside(before, field) if place >= 0 and before.type.field(place).type == field.type else None
    if other is None:
        return after
    every = np.arange(len(gone), dtype=np.int64)
    return pa.concat_arrays([after, other]).take(pa.array(every + gone * len(gone)))


def _none(decoded: Decoded, reason: str) -> Decoded:
    """The same where no record is a row: all are left out for this reason."""
    nothing = np.zeros(0, np.int64)
    left_out = {reason: decoded.source} if len(decoded.source) else {}
    rows = pa.RecordBatch.from_arrays([], schema=pa.schema([]))
    return Decoded(rows, nothing, decoded.failures, around=Around(rows, left_out))
