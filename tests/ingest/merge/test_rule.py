from __future__ import annotations

import pyarrow as pa

from distributary.ingest.merge.counts import MergeCounts
from distributary.ingest.merge.rule import MergeRule, Order, Position, memory_schema

POSITION = Position("topic", "partition", "offset", "ts", "turn")


def test_the_memory_of_deletes_has_what_tells_rows_apart_and_orders_them() -> None:
    table = pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("ts", pa.timestamp("us", "UTC")),
            ("key", pa.binary()),
            ("player", pa.struct([("id", pa.int64()), ("name", pa.string())])),
            ("at", pa.struct([("seq", pa.int64())])),
            ("note", pa.string()),
        ]
    )
    rule = MergeRule(("key", "player.id"), Order(POSITION, ("at.seq",)))
    assert memory_schema(rule, table) == pa.schema(
        [*list(table)[:5], ("player", pa.struct([("id", pa.int64())])), ("at", table.field("at").type)]
    )


def test_counts_are_read_from_what_a_commit_says() -> None:
    counts = MergeCounts(1, 2, 3, 4, 5)
    assert MergeCounts.told({"operationMetrics": counts.metrics()}) == counts
    assert counts.staged == 15
    assert MergeCounts.told({"operationMetrics": {"numFiles": "1"}}) is None
    assert MergeCounts.told({}) is None
