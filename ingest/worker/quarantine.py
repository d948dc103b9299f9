"""Records that go to quarantine, in a worker: counted by reason and written as rows of the quarantine table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.codecs.types.masks import Rows
from distributary.ingest.bronze.rows import HEADERS
from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.kafka.offset_spans import committed, place_of
from distributary.ingest.pins import Pins, Verdict
from distributary.ingest.reshaping.key import landing_key
from distributary.ingest.routing.routes import Records, entities
from distributary.ingest.tables.ledger import (
    QUARANTINE_SCHEMA,
)
from distributary.ingest.worker.gathering import Buffers
from distributary.ingest.worker.report import TaskReport
from distributary.registry.base import SchemaRef

_NOTHING = pa.RecordBatch.from_arrays([], schema=pa.schema([]))


@dataclass(frozen=True, slots=True)
class _Refused:
    """Places in a batch, each with its verdict, the schema it names and the entity it is of, where those are known."""

    rows: Rows
    verdicts: Sequence[Verdict]
    refs: Sequence[SchemaRef | None]
    entities: Sequence[str | None]


class Quarantine:
    """Takes records with the verdict on each; nothing of them is decoded."""

    def __init__(self, pins: Pins, buffers: Buffers, report: TaskReport) -> None:
        self._pins, self._buffers, self._report = pins, buffers, report
        self._already = pins.tables.already.get(QUARANTINE_TABLE, {})

    def take(
        self,
        raw: pa.RecordBatch,
        rows: Rows,
        verdicts: Sequence[Verdict],
        refs: Sequence[SchemaRef | None] | None = None,
        entities: Sequence[str | None] | None = None,
    ) -> None:
        """`rows` are places in `raw`; one verdict each, and where they are known one schema and one entity each."""
        nothing = [None] * len(rows)
        whole = _Refused(rows, verdicts, refs or nothing, entities or nothing)
        kept = self._not_yet_in(raw, whole) if self._already else whole
        if not len(kept.rows):
            return
        self._report.counts.quarantined.update(verdict.reason for verdict in kept.verdicts)
        self._note_first(raw, kept)
        table = self._table_rows(raw.take(pa.array(kept.rows)), kept)
        self._buffers.add(QUARANTINE_TABLE, table)
        self._buffers.grew(table.nbytes)

    def _note_first(self, raw: pa.RecordBatch, refused: _Refused) -> None:
        first = self._report.counts.first
        for row, verdict in zip(refused.rows.tolist(), refused.verdicts, strict=True):
            if verdict.reason not in first:
                first[verdict.reason] = place_of(raw, row)

    def _not_yet_in(self, raw: pa.RecordBatch, refused: _Refused) -> _Refused:
        new = np.flatnonzero(~committed(raw, refused.rows, self._already)).tolist()
        self._report.counts.already += len(refused.rows) - len(new)
        return _Refused(
            refused.rows[new],
            [refused.verdicts[place] for place in new],
            [refused.refs[place] for place in new],
            [refused.entities[place] for place in new],
        )

    def _of_payload(self, raw: pa.RecordBatch, refused: _Refused) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Keys, values and headers, as far as rules of tables have them kept."""
        book = self._pins.rules.tables
        keys, values, headers = raw["key"], raw["value"], self._headers(raw)
        if not book.reshapes:
            return keys, values, headers
        whose = self._entities(raw, refused)
        by = {entity: tuple(book.in_quarantine(entity)) for entity in set(whose)}
        kinds = [(by[entity], entity is None) for entity in whose]
        for rules, unknown in dict.fromkeys(kinds):
            mine = pa.array([kind == (rules, unknown) for kind in kinds])
            if not all(one.payload for one in rules):
                values = pc.if_else(mine, None, values)
                headers = pc.if_else(mine, pa.scalar(None, headers.type), headers)
                keys = pc.if_else(mine, None, keys)
            for one in rules:
                # Of which secret a hash would be nobody knows where several rules might be a record's.
                landing = pa.nulls(len(keys), keys.type) if unknown else landing_key(one, keys)
                keys = keys if one.key == "keep" else pc.if_else(mine, landing, keys)
        return keys, values, headers

    def _headers(self, raw: pa.RecordBatch) -> pa.Array:
        wanted = self._pins.rules.tables.kept.headers
        return raw["every_header"] if wanted else pa.nulls(raw.num_rows, HEADERS)

    def _entities(self, raw: pa.RecordBatch, refused: _Refused) -> list[str | None]:
        """Whose each record is; as far as that can be told of one whose payload was not looked into."""
        route = self._pins.rules.route
        if all(refused.entities) or route.by not in ("topic", "key", "header"):
            return list(refused.entities)
        every = np.arange(raw.num_rows, dtype=np.int64)
        told = entities(route, Records(_NOTHING, raw, every, "")).to_pylist()
        return [known or other for known, other in zip(refused.entities, told, strict=True)]

    def _table_rows(self, raw: pa.RecordBatch, refused: _Refused) -> pa.RecordBatch:
        count = raw.num_rows
        keys, values, headers = self._of_payload(raw, refused)
        columns = {
            "kafka_topic": raw["topic"],
            "kafka_partition": raw["partition"],
            "kafka_offset": raw["offset"],
            "kafka_ts": raw["ts"],
            "kafka_key": keys,
            "value": values,
            "header_schema_id": raw["header_id"],
            "schema_id": pa.array(
                [ref if isinstance(ref, int) else None for ref in refused.refs], pa.int64()
            ),
            "schema_guid": pa.array(
                [str(ref) if isinstance(ref, str) else None for ref in refused.refs], pa.string()
            ),
            "reason": pa.array([verdict.reason for verdict in refused.verdicts], pa.string()),
            "detail": pa.array([verdict.detail for verdict in refused.verdicts], pa.string()),
            "entity": pa.array(refused.entities, pa.string()),
            "batch_id": pa.repeat(pa.scalar(self._pins.batch.id, pa.int64()), count),
            "generation": pa.repeat(pa.scalar(self._pins.batch.generation), count),
            "pipeline": pa.repeat(pa.scalar(self._pins.batch.pipeline), count),
            "headers": headers,
        }
        arrays = [columns[field.name].cast(field.type) for field in QUARANTINE_SCHEMA]
        return pa.RecordBatch.from_arrays(arrays, schema=QUARANTINE_SCHEMA)
