"""The table of what was brought back from quarantine: which records, by which replay, and where each went. It is only ever appended to."""

from __future__ import annotations

import pyarrow as pa

from distributary.ingest.tables.ledger import QUARANTINE_SCHEMA

IDENTITY = ("generation", "batch_id", "kafka_topic", "kafka_partition", "kafka_offset")
"""What tells a record in quarantine from all others: by which batch it came, and where it stands in Kafka."""

TO_TABLE, ALREADY, DROPPED = "table", "already", "dropped"
"""What became of one: a row in a table, one that was there before, or nothing, as the settings let it go or it is a delete."""

RESOLVED_SCHEMA = pa.schema(
    [
        *(QUARANTINE_SCHEMA.field(name) for name in IDENTITY),
        ("pipeline", pa.string()),
        ("replay", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("outcome", pa.string()),
        ("table", pa.string()),
    ]
)
"""One row a record; `outcome` is one of the words above, `table` the folder where there is one."""
