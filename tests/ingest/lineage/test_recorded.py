from __future__ import annotations

import json
from datetime import datetime, timezone

from tests.ingest.upkeep.test_ledger_days import NOW, batch

from distributary.ingest.lineage.recorded import Recorded
from distributary.ingest.upkeep.ledger_days import Bounds, shortened


def test_what_was_read_on_a_day_on_which_records_were_lost_counts_with_all_else() -> None:
    """The row of the day tells of both."""
    ended = [datetime(2025, 5, 1, 12, tzinfo=timezone.utc)] * 2
    lost = batch(
        1,
        ended[1],
        10,
        3,
        rows_read=0,
        rows_tables=0,
        rows_quarantined=0,
        rows_by_reason=json.dumps({"data_lost": 3}),
        gaps=json.dumps({"games": {"0": 3}}),
    )
    rows = [batch(0, ended[0]), lost]
    (day,) = shortened(rows, ended, Bounds.of(NOW, 30, None))
    apart, together = Recorded(), Recorded()
    for row in rows:
        apart.add(row)
    together.add(day)
    assert apart.read == together.read == {"games": 10}
    assert together == apart
