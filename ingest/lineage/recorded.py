"""What is recorded of a pipeline's batches: how many records came from each topic, and where they ended."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyarrow import dataset

from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.handle import is_there, opened
from distributary.ingest.tables.ledger import batches_of
from distributary.ingest.tables.state import table_folder

_COLUMNS = (
    "batch_id",
    "first_batch_id",
    "rows_tables",
    "rows_quarantined",
    "rows_dropped",
    "offsets",
    "gaps",
)

# There may be one row for each batch of years.
_ROWS_AT_ONCE = 10_000


@dataclass(slots=True)
class Recorded:
    """Sums over all batches of a pipeline, whichever checkpoint they are of.

    batches  how many
    read     records by topic
    tables, quarantined, dropped  where they ended
    """

    batches: int = 0
    read: Counter[str] = field(default_factory=Counter)
    tables: int = 0
    quarantined: int = 0
    dropped: int = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Count a row of the ledger."""
        self.batches += len(batches_of(row["batch_id"], row.get("first_batch_id")))
        self.tables += row["rows_tables"]
        self.quarantined += row["rows_quarantined"]
        self.dropped += row["rows_dropped"]
        for topic, partitions in json.loads(row["offsets"]).items():
            self.read[topic] += sum(end - begin for begin, end in partitions.values())
        # Those of which Kafka had no record any more among them.
        for topic, gaps in json.loads(row["gaps"]).items():
            self.read[topic] -= sum(gaps.values())


def recorded(root: Files, pipeline: str) -> Recorded:
    """What the ledger under a root says of this pipeline. Raises OSError where the place does not answer."""
    found = Recorded()
    for row in _rows(root.below(BATCHES_TABLE), pipeline):
        found.add(row)
    return found


def _rows(table: Files, pipeline: str) -> Iterator[dict[str, Any]]:
    if not is_there(table):
        return
    ledger = opened(table)
    there = {part.name for part in ledger.schema().fields}
    batches = ledger.to_pyarrow_dataset(filesystem=table_folder(ledger)).to_batches(
        columns=[name for name in _COLUMNS if name in there],
        filter=dataset.field("pipeline") == pipeline,
        batch_size=_ROWS_AT_ONCE,
        batch_readahead=1,
        fragment_readahead=1,
    )
    for batch in batches:
        yield from batch.to_pylist()
