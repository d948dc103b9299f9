"""The table of what was brought back from quarantine: which records, by which replay, and where each went. Upkeep lets its rows go with those of quarantine."""

from __future__ import annotations

import pyarrow as pa

from distributary.ingest.tables.ledger import QUARANTINE_SCHEMA
from distributary.ingest.upkeep.resolved import PLACE, TO_TABLE

IDENTITY = ("generation", "batch_id", *PLACE)
"""What tells a record in quarantine from all others: by which batch it came, and where it stands in Kafka."""

ALREADY, DROPPED = "already", "dropped"
"""What became of one that got no row in a table: it had one before, or nothing, as the settings let it go or it is a delete."""

OUTCOMES = (TO_TABLE, ALREADY, DROPPED)

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
"""One row a record; `outcome` is one of `OUTCOMES`, `table` the folder where there is one."""
