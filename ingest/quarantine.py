"""Records that go to quarantine, in a worker: counted by reason and written as rows of the quarantine table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.ingest.already import committed
from distributary.ingest.ledger import QUARANTINE_SCHEMA, QUARANTINE_TABLE
from distributary.ingest.pins import Pins, Verdict
from distributary.ingest.report import TaskReport
from distributary.ingest.table_buffers import TableBuffers

Rows = npt.NDArray[np.int64]


class Quarantine:
    """Takes records with the verdict on each; nothing of them is decoded."""

    def __init__(self, pins: Pins, buffers: TableBuffers, report: TaskReport) -> None:
        self._pins, self._buffers, self._report = pins, buffers, report
        self._already = pins.already.get(QUARANTINE_TABLE, {})

    def take(
        self,
        raw: pa.RecordBatch,
        rows: Rows,
        verdicts: Sequence[Verdict],
        schema_ids: Sequence[int | None] | int | None = None,
    ) -> None:
        """`rows` are places in `raw`; one verdict each, and one schema id each or one for all."""
        ids = schema_ids if isinstance(schema_ids, Sequence) else [schema_ids] * len(rows)
        if self._already:
            rows, verdicts, ids = self._not_yet_in(raw, rows, verdicts, ids)
        if not len(rows):
            return
        self._report.quarantined.update(verdict.reason for verdict in verdicts)
        table = self._rows(raw.take(pa.array(rows)), verdicts, ids)
        self._buffers.add(QUARANTINE_TABLE, table)
        self._buffers.grew(table.nbytes)

    def _not_yet_in(
        self, raw: pa.RecordBatch, rows: Rows, verdicts: Sequence[Verdict], ids: Sequence[int | None]
    ) -> tuple[Rows, Sequence[Verdict], Sequence[int | None]]:
        new = np.flatnonzero(~committed(raw, rows, self._already)).tolist()
        self._report.already += len(rows) - len(new)
        return rows[new], [verdicts[i] for i in new], [ids[i] for i in new]

    def _rows(
        self, raw: pa.RecordBatch, verdicts: Sequence[Verdict], ids: Sequence[int | None]
    ) -> pa.RecordBatch:
        count = raw.num_rows
        columns = {
            "kafka_topic": raw["topic"],
            "kafka_partition": raw["partition"],
            "kafka_offset": raw["offset"],
            "kafka_ts": raw["ts"],
            "kafka_key": raw["key"],
            "value": raw["value"],
            "header_schema_id": raw["header_id"],
            "schema_id": pa.array(ids, pa.int64()),
            "reason": pa.array([verdict.reason for verdict in verdicts], pa.string()),
            "detail": pa.array([verdict.detail for verdict in verdicts], pa.string()),
            "batch_id": pa.repeat(pa.scalar(self._pins.batch_id, pa.int64()), count),
            "generation": pa.repeat(pa.scalar(self._pins.generation), count),
        }
        nothing = pa.nulls(count)
        arrays = [columns.get(field.name, nothing).cast(field.type) for field in QUARANTINE_SCHEMA]
        return pa.RecordBatch.from_arrays(arrays, schema=QUARANTINE_SCHEMA)
