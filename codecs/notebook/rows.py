"""A column of payloads decoded in a worker, each with the schema that it names, into the columns of one query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from distributary.codecs.base import (
    INFERRED,
    Codec,
    Decoded,
    Failure,
    RecordPath,
    RecordReader,
)
from distributary.codecs.json.options import RESCUE, RESCUING
from distributary.codecs.notebook.subject import SubjectDecoding, type_in
from distributary.codecs.types.masks import Mask
from distributary.codecs.types.row_shape import empty_rows, fit
from distributary.codecs.wire.header import Frames, bodies
from distributary.errors import (
    BadRecord,
    BadSchema,
    ConfigError,
    RegistryFault,
    SchemaNotFound,
    UnknownFieldException,
)
from distributary.registry.base import Answer, Schema, SchemaRef
from distributary.registry.same_schema import same_schema

UNKNOWN_SCHEMA = "unknown_schema"

OTHER_RECORD = "other_record"

OTHER_TYPE = "other_type"

NO_SCHEMA = "no_schema"

MISFIT = "misfit"

TOO_MANY_FIELDS = "too_many_fields"

_TOO_MANY = "the record has more fields that the schema lacks than it may grow by; with schemaEvolutionMode=rescue they are rescued"

# Only where it is to be had.
_KEEP = f"; name a column to keep such values in, by the option {RESCUE}"

# A stream of bytes that are no records names a schema in each; known ones need no asking.
MOST_ASKED = 1_000


@dataclass(frozen=True, slots=True)
class DecodedColumn:
    """As many rows as payloads; those that are not `ok` are null throughout: null payloads, and the failures."""

    rows: pa.RecordBatch
    ok: Mask
    failures: tuple[Failure, ...]


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why no record of some kind can be decoded."""

    reason: str
    detail: str


@dataclass(slots=True)
class SubjectRows:
    """Decodes the payloads of a subject; keeps what it has learned of schemas for as long as it lives."""

    decoding: SubjectDecoding
    _codec: Codec = field(init=False)
    _schemas: dict[SchemaRef, Schema | _Refusal] = field(init=False, default_factory=dict)
    _readers: dict[tuple[SchemaRef, RecordPath], RecordReader | _Refusal] = field(
        init=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        self._codec = self.decoding.loaded()

    def decode(self, values: pa.BinaryArray, header_ids: pa.BinaryArray | None = None) -> DecodedColumn:
        """All payloads, with their wire headers, or with `header_ids` from their records' headers where those are not null.

        Raises UnknownFieldException for a newer schema where the decoding says so, and RegistryUnavailable where a
        registry has to be asked and does not answer: neither says anything about a record.
        """
        frames = self._frames(values, header_ids)
        failures = [Failure(*error) for error in frames.errors]
        parts, places = [], np.full(len(values), -1, np.int64)
        done = 0
        for kind in range(len(frames.kinds)):
            rows = np.flatnonzero(frames.kind == kind)
            if not len(rows):
                continue
            part, source = self._of_one_kind(values, frames, rows, failures)
            places[source] = np.arange(done, done + len(source))
            done += len(source)
            parts.append(part)
        failures.sort(key=lambda failure: failure.row)
        return DecodedColumn(_gathered(parts, places, self.decoding.columns), places >= 0, tuple(failures))

    def _frames(self, values: pa.BinaryArray, header_ids: pa.BinaryArray | None) -> Frames:
        frames = self._codec.split(values, header_ids)
        # In their order, so that each run asks for the same ones.
        new = [ref for ref in dict.fromkeys(ref for ref, _ in frames.kinds) if ref not in self._schemas]
        self._learn(new)
        if not new or not self._codec.takes_any_format:
            return frames
        # Only what is known of a schema's type says where the bodies of its records begin.
        found = {ref: self._schemas[ref] for ref in new}
        self._codec = self._codec.knowing(
            {ref: schema.type for ref, schema in found.items() if isinstance(schema, Schema)}
        )
        return self._codec.split(values, header_ids)

    def _learn(self, refs: Sequence[SchemaRef]) -> None:
        """Finds out what these name; those that the query does not know are asked for together."""
        unknown = [ref for ref in refs if self._pinned(ref) is None and ref != INFERRED]
        lookup, asked = self.decoding.news.lookup, unknown[:MOST_ASKED]
        if unknown and lookup is None:
            raise _newer(self.decoding, unknown[0])
        answers: Mapping[SchemaRef, Answer] = lookup.schemas(asked) if lookup is not None and asked else {}
        for ref in refs:
            self._schemas[ref] = self._looked_up(ref, answers.get(ref))

    def _of_one_kind(
        self, values: pa.BinaryArray, frames: Frames, rows: np.ndarray, failures: list[Failure]
    ) -> tuple[pa.RecordBatch, np.ndarray]:
        """The rows of records that name one schema, and their places among the payloads."""
        ref, path = frames.kinds[int(frames.kind[rows[0]])]
        if (ref, path) not in self._readers:
            self._readers[ref, path] = self._reader(ref, path)
        reader = self._readers[ref, path]
        if isinstance(reader, _Refusal):
            failures += [Failure(int(row), reader.reason, reader.detail) for row in rows]
            return empty_rows(self.decoding.columns, 0), rows[:0]
        payloads = bodies(values, frames, rows)
        decoded = self._within(payloads, self._whole(reader.decode(payloads)))
        failures += [Failure(int(rows[bad.row]), bad.reason, bad.detail) for bad in decoded.failures]
        fitted = fit(_with_rescued(decoded, self.decoding.rescued), self.decoding.columns)
        source = rows[decoded.source]
        if not fitted.misfits:
            return fitted.rows, source
        failures += [
            Failure(int(source[row]), OTHER_TYPE, _other_type(ref, name)) for row, name in fitted.misfits
        ]
        good = np.setdiff1d(np.arange(len(source)), [row for row, _ in fitted.misfits])
        return fitted.rows.take(pa.array(good)), source[good]

    def _whole(self, decoded: Decoded) -> Decoded:
        """The same where a value that its column does not take spoils the record, if nothing else takes the value."""
        if self.decoding.rescued is not None or not decoded.misfits:
            return decoded
        hint = _KEEP if self.decoding.codec in RESCUING else ""
        spoilt = [Failure(row, MISFIT, _misfit(name) + hint) for row, name in sorted(decoded.misfits.items())]
        kept = decoded.without(np.array([failure.row for failure in spoilt]))
        return replace(kept, failures=[*decoded.failures, *spoilt])

    def _within(self, payloads: pa.BinaryArray, decoded: Decoded) -> Decoded:
        """The same without records that have more new fields than any schema takes; raises for new ones that one takes."""
        growing = self.decoding.news.growing
        if growing is None or not len(decoded.beyond):
            return decoded
        error = growing.grow(payloads.take(pa.array(decoded.beyond)))
        if error is not None:
            raise error
        spoilt = [Failure(int(row), TOO_MANY_FIELDS, _TOO_MANY) for row in decoded.beyond]
        return replace(decoded.without(decoded.beyond), failures=[*decoded.failures, *spoilt])

    def _reader(self, ref: SchemaRef, path: RecordPath) -> RecordReader | _Refusal:
        schema = self._schemas[ref]
        if isinstance(schema, _Refusal):
            return schema
        try:
            wanted = type_in(self._codec, schema, self.decoding.reading.message)
            reader = self.decoding.reader_of(self._codec, wanted)
            if wanted.imported:
                return reader
            named = self._codec.reader(schema, path).name
            if path == wanted.path and self._belongs(schema, named, reader.name):
                return reader
        except (BadSchema, ConfigError) as error:
            reason = OTHER_RECORD if self.decoding.reading.schema is None else OTHER_TYPE
            return _Refusal(reason, f"schema id {ref}: {error}")
        return _Refusal(OTHER_RECORD, f"the record is a {named} (schema id {ref}), not a {reader.name}")

    def _belongs(self, schema: Schema, name: str, wanted: str) -> bool:
        """Whether records of this schema are meant at all: of the same name, or of a version of the subject.

        A topic may hold records of other subjects too; a reader's defaults would make one of its own of any of them.
        """
        if self.decoding.reading.schema is None or name == wanted or schema in self.decoding.pinned:
            return True
        lookup = self.decoding.news.lookup
        return lookup is not None and lookup.is_version(schema)

    def _pinned(self, ref: SchemaRef) -> Schema | None:
        return next((schema for schema in self.decoding.pinned if ref in (schema.id, schema.guid)), None)

    def _looked_up(self, ref: SchemaRef, answer: Answer | None) -> Schema | _Refusal:
        if ref == INFERRED:
            latest = self.decoding.pinned[-1]
            return latest if latest.inferred else _Refusal(NO_SCHEMA, "the record names no schema")
        if isinstance(answer, Schema):
            return self._come_later(ref, answer)
        if isinstance(answer, RegistryFault):
            raise answer
        return self._pinned(ref) or _Refusal(UNKNOWN_SCHEMA, _why_unknown(ref, answer))

    def _come_later(self, ref: SchemaRef, schema: Schema) -> Schema:
        """What a schema is that the query did not begin with; raises where it has to end for it."""
        for known in self.decoding.pinned:
            if known.id == schema.id or (not schema.id and same_schema(known, schema)):
                return known
        news = self.decoding.news
        if news.evolution == "restart" and news.lookup is not None and news.lookup.is_version(schema):
            raise _newer(self.decoding, ref)
        return schema


def _why_unknown(ref: SchemaRef, answer: SchemaNotFound | BadSchema | None) -> str:
    if answer is None:
        return f"more than {MOST_ASKED} schemas at once that nobody knew: {ref} was not asked for"
    if isinstance(answer, BadSchema):
        return str(answer)
    return f"the registry knows no schema {ref}, which the record's header names"


def _with_rescued(decoded: Decoded, name: str | None) -> pa.RecordBatch:
    if name is None or decoded.rescued is None:
        return decoded.rows
    columns = decoded.rows.schema.append(pa.field(name, pa.string()))
    return pa.RecordBatch.from_arrays([*decoded.rows.columns, decoded.rescued], schema=columns)


def _misfit(name: str) -> str:
    return f"field {name!r} has a value that its column cannot hold"


def raise_first(failures: Sequence[Failure]) -> None:
    """Raise the first failure as BadRecord; nothing happens where there is none."""
    if failures:
        first, others = failures[0], len(failures) - 1
        more = f" (and {others} more in this batch)" if others else ""
        raise BadRecord(
            f"a record cannot be decoded: {first.detail} [{first.reason}]{more}; with mode=PERMISSIVE it becomes null"
        )


def _newer(decoding: SubjectDecoding, ref: SchemaRef) -> UnknownFieldException:
    ids = ", ".join(str(schema.id) for schema in decoding.pinned)
    return UnknownFieldException(
        f"a record was written with schema {ref}, which is newer than those that this query began with (subject "
        f"{decoding.subject!r}, ids {ids}); start the query again to have its fields"
    )


def _other_type(ref: SchemaRef, name: str) -> str:
    return f"field {name!r} has another type in schema {ref} than in the columns asked for, and its values may not fit"


def _gathered(parts: list[pa.RecordBatch], places: np.ndarray, columns: pa.Schema) -> pa.RecordBatch:
    """The parts' rows at their places; nulls where the place is negative."""
    if not len(columns):
        return empty_rows(columns, len(places))
    whole = parts[0] if len(parts) == 1 else pa.concat_batches([empty_rows(columns, 0), *parts])
    if whole.num_rows == len(places) and (places == np.arange(len(places))).all():
        return whole
    return whole.take(pa.array(places, mask=places < 0))
