from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
from tests.ingest.kafka_records import TOPIC, pins

from distributary.ingest.pins import PinnedTable, Verdict


def test_pins_reach_a_worker_as_they_are(tmp_path: Path) -> None:
    layout = pa.schema([pa.field("a_", pa.int64(), metadata={"distributary.source": "a "})])
    by = pins(
        tmp_path,
        tables={"t": PinnedTable("T", layout)},
        rejected={(TOPIC, 0, 1): Verdict("constraint", "x")},
        already={"t": {TOPIC: {0: 5}}},
    )
    there = pickle.loads(pickle.dumps(by))  # noqa: S301
    assert there == by
    assert there.tables["t"].layout.equals(layout, check_metadata=True)
