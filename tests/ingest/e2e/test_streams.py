"""Tables that are streams, on the real broker: runs die around their entries, and what is there is what another program (DuckDB) makes of all rows."""

from __future__ import annotations

import signal
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from tests.ingest.e2e.pipeline_kit import PipelineKit

pytestmark = [pytest.mark.spark, pytest.mark.stack]

WINDOWS = {
    "table": "gold_{entity}_seconds",
    "stream": {
        "watermark": {"time": "kafka_ts"},
        "window": {"seconds": 1},
        "by": ["device"],
        "columns": {"n": "count(*)", "last": "max(kafka_offset)"},
    },
}

ROWS = {
    "table": "gold_{entity}_odd",
    "stream": {
        "columns": {"place": "kafka_offset", "device": "upper(device)"},
        "where": "kafka_offset % 2 = 1",
    },
}

BY_HAND = """
SELECT date_trunc('second', kafka_ts) AS window_start, device, count(*) AS n, max(kafka_offset) AS last
FROM events WHERE date_trunc('second', kafka_ts) + INTERVAL 1 SECOND <= (SELECT max(kafka_ts) FROM events)
GROUP BY ALL ORDER BY ALL
"""


def by_hand(kit: PipelineKit, query: str) -> list[dict[str, Any]]:
    with duckdb.connect() as base:
        base.execute("SET TimeZone = 'UTC'")
        base.register("events", kit.rows(kit.folder_of(0)))
        found: list[dict[str, Any]] = base.sql(query).to_arrow_table().to_pylist()
        return found


def assert_whole(kit: PipelineKit) -> None:
    game = kit.folder_of(0)[7:-7]
    have = kit.rows(f"gold_{game}_seconds").select(["window_start", "device", "n", "last"])
    assert have.sort_by([(name, "ascending") for name in have.column_names]).to_pylist() == by_hand(
        kit, BY_HAND
    )
    odd = sorted(kit.rows(f"gold_{game}_odd")["place"].to_pylist())
    expected = by_hand(
        kit, "SELECT kafka_offset AS place FROM events WHERE kafka_offset % 2 = 1 ORDER BY ALL"
    )
    assert odd == [one["place"] for one in expected]


# Lighter: tests/ingest/derived/test_streams.py adds to either kind, and runs make current what is derived in test_derived_tables.py.
@pytest.mark.heavy
def test_runs_add_to_streams_what_came(kit: PipelineKit) -> None:
    kit.configured(derive=[WINDOWS, ROWS])
    for _ in range(2):
        kit.simulate(1, games=1)
        kit.run()
        assert_whole(kit)
    kit.assert_clean()


@pytest.mark.heavy  # rounds that die there are tested without a pipeline, and a run that is killed with another derived table
@pytest.mark.folder
@pytest.mark.parametrize("point", ["amid_deriving", "after_deriving"])
def test_a_run_that_is_killed_around_an_entry_adds_each_row_once(kit: PipelineKit, point: str) -> None:
    kit.configured(derive=[WINDOWS, ROWS])
    kit.simulate(1, games=1)
    kit.run()
    game = kit.folder_of(0)[7:-7]
    version = DeltaTable(str(kit.root / f"gold_{game}_seconds")).version()
    kit.simulate(1, games=1)
    killed = kit.run_apart(f"{point}:{version + (point == 'after_deriving')}=kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    kit.simulate(1, games=1)
    kit.run()
    assert_whole(kit)
