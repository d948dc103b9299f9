"""Records of quarantine are taken as they came, at whatever times; which of them a table has is told by place and time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from distributary.ingest.quarantine.chosen import Chosen
from distributary.ingest.quarantine.whose import whose_are
from distributary.ingest.replay.staging import Asked, Tables, stage
from distributary.ingest.settings.model import Settings
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.ledger import QUARANTINE_SCHEMA

# As of a producer that sends microseconds where Kafka counts milliseconds, and of one whose clock was never set.
FAR, EARLY = 1_764_000_000_000_000_000, -99_999_999_999_999_999


def row(offset: int, at: int) -> dict[str, Any]:
    place = {"kafka_topic": "t", "kafka_partition": 0, "kafka_offset": offset, "kafka_ts": at}
    told = {"reason": "malformed", "batch_id": 1, "generation": "gen", "pipeline": "games"}
    return {**place, **told, "value": b"{}"}


def test_records_of_years_that_python_lacks_are_taken_too(tmp_path: Path) -> None:
    settings = Settings.from_dict(
        {
            "name": "games",
            "source": {"kafka": {"bootstrap.servers": "nowhere:1"}, "topics": ["t"]},
            "registry": {"url": "http://nowhere"},
            "route": {"field": "game"},
            "sink": {"root": str(tmp_path / "lake")},
            "checkpoint": str(tmp_path / "checkpoint"),
        }
    )
    rows = pa.Table.from_pylist([row(0, FAR), row(1, EARLY), row(2, 0)], QUARANTINE_SCHEMA)
    write_deltalake(str(tmp_path / "lake/quarantine"), rows)
    # The table has the first; of the second another record had the place.
    there = pa.Table.from_pylist([row(0, FAR), row(1, FAR)], QUARANTINE_SCHEMA)
    write_deltalake(str(tmp_path / "lake/chess"), there)
    root = files_at(tmp_path / "lake")
    asked = Asked(whose_are(settings, root), Chosen())
    tables = Tables(root, ["chess"], settings.sink.columns)
    done = stage(tables, asked, settings.rule_book(), files_at(tmp_path / "aside"))
    assert (done.records, done.already, done.left) == (2, 1, {})
