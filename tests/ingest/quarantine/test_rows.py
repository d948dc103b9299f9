"""Which records of the quarantine were brought back, of however many."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import write_deltalake

from distributary.ingest.columns.safe_names import RESOLVED_TABLE
from distributary.ingest.commit_log.owners import Whose
from distributary.ingest.quarantine.resolved import RESOLVED_SCHEMA
from distributary.ingest.quarantine.rows import identities, resolved_identities
from distributary.ingest.storage.opening import files_at


def test_what_tells_records_apart_has_room_for_those_of_years(tmp_path: Path) -> None:
    """Thirty million of them are more than the 2 GiB that an array of Arrow's smaller texts ends at."""
    place = {"kafka_topic": "games", "kafka_partition": 0}
    told = [
        {"generation": "g", "batch_id": 3, **place, "kafka_offset": offset, "pipeline": "games"}
        for offset in range(3)
    ]
    write_deltalake(tmp_path / RESOLVED_TABLE, pa.Table.from_pylist(told[:2], RESOLVED_SCHEMA))
    found = resolved_identities(files_at(tmp_path), Whose.of("games"))
    assert found.type == pa.large_string()
    every = identities(pa.Table.from_pylist(told, RESOLVED_SCHEMA))
    assert pc.is_in(every, found).to_pylist() == [True, True, False]
