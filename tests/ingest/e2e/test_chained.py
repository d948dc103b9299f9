"""A pipeline that reads another one's table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.ingest.run import run
from distributary.ingest.settings.model import Settings
from distributary.producer_sim.verify.comparison import verify


def chained(kit: PipelineKit, **changed: Any) -> Settings:
    """A second pipeline, over the first one's first table."""
    table = sorted(path.name for path in kit.root.iterdir() if path.name.startswith("silver_"))[0]
    given = {
        "name": "gold",
        "source": {"delta": {"paths": f"./lake/{table}"}},
        "route": {"by": "topic", "table": "gold_{entity}"},
        "sink": {
            "root": "./gold",
            "columns": {
                "kafka_topic": "from_table",
                "kafka_partition": "from_partition",
                "kafka_offset": "from_offset",
                "kafka_ts": "read_at",
                "kafka_key": "from_key",
                "schema_id": "columns_id",
            },
        },
        "trigger": {"available_now": True, "interval_seconds": 0},
        "supervisor": {"failures": {"max": 0}},
        "spark": {"master": "local[2]"},
        **changed,
    }
    return Settings.from_yaml(__import__("yaml").safe_dump(given), kit.folder)


def rows(settings: Settings) -> pa.Table:
    (folder,) = [path for path in settings.sink.root.path.iterdir() if path.name.startswith("gold_")]
    return DeltaTable(str(folder)).to_pyarrow_table()


def of_first(kit: PipelineKit, settings: Settings) -> pa.Table:
    (place,) = settings.source.delta.paths
    return DeltaTable(str(place)).to_pyarrow_table()


@pytest.mark.folder
def test_a_pipeline_reads_another_ones_table_with_its_types_and_goes_on_where_it_was(
    kit: PipelineKit,
) -> None:
    kit.simulate(1)
    kit.run()
    settings = chained(kit)
    outcome = run(settings, spark=kit.spark)
    first = of_first(kit, settings)
    assert outcome.summary.rows == first.num_rows
    found = rows(settings)
    print(first.schema, found.schema)
    key = [("kafka_partition", "ascending"), ("kafka_offset", "ascending")]
    assert found.select(first.column_names).sort_by(key).to_pylist() == first.sort_by(key).to_pylist()
    assert found.select(first.column_names).schema.types == first.schema.types
    assert run(settings, spark=kit.spark).summary.rows == 0

    kit.simulate(3)
    kit.run()
    outcome = run(settings, spark=kit.spark)
    first = of_first(kit, settings)
    found = rows(settings)
    assert found.select(first.column_names).sort_by(key).to_pylist() == first.sort_by(key).to_pylist()
    verdict = verify(settings, spark=kit.spark)
    print(verdict)
